/* The limit file: what this container may use of each of its cards. `gpushare.isolation.limits` writes it. */
#ifndef GPUSHARE_LIMIT_H
#define GPUSHARE_LIMIT_H

#include <stdbool.h>

#include "abi.h"

#define MAX_CARDS 16
#define UUID_TEXT 48

struct card_limit {
    char uuid[UUID_TEXT];
    u64 bytes;         /* all processes of the container together */
    u64 context_bytes; /* the first guess of what a context takes */
    u64 core_percent;  /* of the card's time; 0 is no limit */
};

struct limits {
    int count;
    struct card_limit cards[MAX_CARDS];
};

/* Reads `path`. False where it is not there, not root's alone to write, or does not make sense in any
   byte; `*why` then says what is wrong. */
bool limits_read(const char *path, struct limits *limits, const char **why);
bool limits_parse(const char *text, size_t length, struct limits *limits, const char **why);
int limits_find(const struct limits *limits, const char *uuid); /* -1: the container has no such card */

#endif
