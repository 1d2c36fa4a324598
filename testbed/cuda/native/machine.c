/* FAKE, for tests: no GPU is behind this library. */
#define _GNU_SOURCE
#include "machine.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static struct card cards[MAX_CARDS];
static int card_count;
static struct usage *usage;
static int usage_fd = -1;

static const u64 MIB = 1024 * 1024;

static bool parse_uuid(const char *text, unsigned char *uuid)
{
    int at = 0;
    for (text += 4; *text && at < 16; text += *text == '-' ? 1 : 2)
        if (*text != '-' && sscanf(text, "%2hhx", &uuid[at++]) != 1)
            return false;
    return at == 16;
}

static void read_cards(FILE *file)
{
    char uuid[64];
    unsigned long long total, context;
    while (card_count < MAX_CARDS && fscanf(file, "%63s %llu %llu", uuid, &total, &context) == 3) {
        struct card *card = &cards[card_count];
        card->total = total * MIB;
        card->context = context * MIB;
        card_count += parse_uuid(uuid, card->uuid);
    }
}

static int map_usage(const char *path)
{
    char name[512];
    snprintf(name, sizeof name, "%s.usage", path);
    usage_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (usage_fd < 0 || ftruncate(usage_fd, sizeof *usage) != 0)
        return NO_DEVICE;
    usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, usage_fd, 0);
    return usage == MAP_FAILED ? NO_DEVICE : OK;
}

int machine_start(void)
{
    const char *path = getenv("STUB_CUDA");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file)
        return NO_DEVICE;
    card_count = 0;
    read_cards(file);
    fclose(file);
    return card_count ? map_usage(path) : NO_DEVICE;
}

int machine_cards(void) { return card_count; }

const struct card *machine_card(int card) { return card >= 0 && card < card_count ? &cards[card] : NULL; }

/* Field 22 of stat; 0 for the dead and for zombies. */
static u64 start_of(u64 pid)
{
    char path[48], content[1024] = "", state;
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, content, sizeof content - 1);
    if (fd >= 0)
        close(fd);
    const char *at = length > 0 ? strrchr(content, ')') : NULL;
    if (!at || sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                      &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

static struct user *user_of(u64 pid)
{
    struct user *empty = NULL;
    for (int i = 0; i < MAX_USERS; i++) {
        struct user *user = &usage->users[i];
        if (user->pid == pid && user->start == start_of(pid))
            return user;
        if (!empty && !user->pid)
            empty = user;
    }
    if (!empty)
        abort();
    memset(empty, 0, sizeof *empty);
    *empty = (struct user){.pid = pid, .start = start_of(pid)};
    return empty;
}

static u64 sum(int card)
{
    u64 all = 0;
    for (int i = 0; i < MAX_USERS; i++) {
        struct user *user = &usage->users[i];
        if (user->pid && start_of(user->pid) != user->start)
            memset(user, 0, sizeof *user);
        all += user->used[card];
    }
    return all;
}

int machine_take(int card, u64 bytes)
{
    flock(usage_fd, LOCK_EX);
    u64 used = sum(card);
    bool fits = bytes <= cards[card].total && used <= cards[card].total - bytes;
    if (fits)
        user_of((u64)getpid())->used[card] += bytes;
    if (fits && used + bytes > usage->peak[card])
        usage->peak[card] = used + bytes;
    flock(usage_fd, LOCK_UN);
    return fits ? OK : OUT_OF_MEMORY;
}

void machine_give(int card, u64 bytes)
{
    flock(usage_fd, LOCK_EX);
    user_of((u64)getpid())->used[card] -= bytes;
    flock(usage_fd, LOCK_UN);
}

u64 machine_used(int card)
{
    flock(usage_fd, LOCK_EX);
    u64 used = sum(card);
    flock(usage_fd, LOCK_UN);
    return used;
}
