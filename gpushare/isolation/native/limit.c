#define _GNU_SOURCE
#include "limit.h"

#include <string.h>
#include <sys/stat.h>

#include "kernel.h"

#ifndef GPUSHARE_OWNER
#define GPUSHARE_OWNER 0
#endif

enum { MAX_FILE = 8192, HIGHEST_MIB = 1 << 24 };

static const u64 MIB = 1024 * 1024;

/* The rest of the input. Each `take` function consumes what it parses. */
struct text {
    const char *at, *end;
};

static bool take(struct text *text, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length))
        return false;
    text->at += length;
    return true;
}

/* A decimal number without sign or leading zeros, up to `highest`. */
static bool take_number(struct text *text, u64 highest, u64 *number)
{
    const char *begin = text->at;
    u64 value = 0;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
        value = value * 10 + (u64)(*text->at++ - '0');
        if (value > highest)
            return false;
    }
    *number = value;
    return text->at > begin && (*begin != '0' || text->at == begin + 1);
}

static bool take_field(struct text *text, const char *key, u64 highest, u64 *number)
{
    return take(text, key) && take_number(text, highest, number);
}

static bool uuid_letter(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

static bool take_uuid(struct text *text, char *uuid)
{
    size_t length = 0;
    while (text->at + length < text->end && uuid_letter(text->at[length]))
        length++;
    if (length < 5 || length >= UUID_TEXT)
        return false;
    memcpy(uuid, text->at, length);
    uuid[length] = '\0';
    text->at += length;
    return true;
}

static bool take_card(struct text *text, struct card_limit *card)
{
    u64 limit, whole, units, card_units, context, core;
    if (!take(text, "card=") || !take_uuid(text, card->uuid) ||
        !take_field(text, " limit_mib=", HIGHEST_MIB, &limit) ||
        !take_field(text, " card_mib=", HIGHEST_MIB, &whole) ||
        !take_field(text, " units=", HIGHEST_MIB, &units) ||
        !take_field(text, " card_units=", HIGHEST_MIB, &card_units) ||
        !take_field(text, " context_mib=", HIGHEST_MIB, &context) ||
        !take_field(text, " core_percent=", 100, &core) || !take(text, "\n"))
        return false;
    card->bytes = limit * MIB;
    card->context_bytes = context * MIB;
    card->core_percent = core;
    return card_units > 0 && units <= card_units && limit == whole * units / card_units;
}

bool limits_parse(const char *content, size_t length, struct limits *limits, const char **why)
{
    struct text text = {content, content + length};
    memset(limits, 0, sizeof *limits);
    *why = "it does not start with gpushare-limit 1";
    if (!take(&text, "gpushare-limit 1\n"))
        return false;
    *why = "the line of a GPU is invalid";
    while (!take(&text, "end\n")) {
        if (limits->count == MAX_CARDS || !take_card(&text, &limits->cards[limits->count]))
            return false;
        if (limits_find(limits, limits->cards[limits->count].uuid) >= 0)
            return false;
        limits->count++;
    }
    *why = "it continues after its last line";
    return text.at == text.end;
}

int limits_find(const struct limits *limits, const char *uuid)
{
    for (int i = 0; i < limits->count; i++)
        if (!strcmp(limits->cards[i].uuid, uuid))
            return i;
    return -1;
}

static bool trusted(int fd, const char **why)
{
    struct stat found;
    /* libc exports fstat only since glibc 2.33. The structure is that of the kernel on x86-64 and arm64. */
    *why = "its owner cannot be read";
    if (syscall(SYS_fstat, fd, &found) != 0)
        return false;
    *why = "it is not a regular file that only root can write";
    return S_ISREG(found.st_mode) && found.st_uid == GPUSHARE_OWNER && !(found.st_mode & (S_IWGRP | S_IWOTH));
}

bool limits_read(const char *path, struct limits *limits, const char **why)
{
    char content[MAX_FILE + 1];
    *why = "it cannot be opened";
    memset(limits, 0, sizeof *limits);
    int fd = kernel_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = trusted(fd, why);
    ssize_t length = good ? kernel_read(fd, content, sizeof content) : 0;
    kernel_close(fd);
    if (good && (length < 0 || length > MAX_FILE)) {
        *why = "it cannot be read, or is too long";
        good = false;
    }
    good = good && limits_parse(content, (size_t)length, limits, why);
    if (!good)
        limits->count = 0;
    return good;
}
