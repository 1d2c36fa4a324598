/* The limit file: the limits of this container on each of its GPUs. `gpushare.isolation.limits` has the format. */
#ifndef GPUSHARE_LIMIT_H
#define GPUSHARE_LIMIT_H

#include <stdbool.h>

#include "abi.h"

#define MAX_CARDS 16
#define UUID_TEXT 48

struct card_limit {
    char uuid[UUID_TEXT];
    u64 bytes;         /* for all processes of the container together */
    u64 context_bytes; /* initial estimate for a context */
    u64 core_percent;  /* compute share; 0 for no limit */
};

struct limits {
    int count;
    struct card_limit cards[MAX_CARDS];
};

/* Reads `path`. False if it does not exist, if others than root can write it, or if it is not valid as a whole;
   `*why` is the reason. */
bool limits_read(const char *path, struct limits *limits, const char **why);
bool limits_parse(const char *text, size_t length, struct limits *limits, const char **why);
int limits_find(const struct limits *limits, const char *uuid); /* -1 if the file does not have the GPU */

#endif
