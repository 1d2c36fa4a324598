/* FAKE, for tests: this library uses no GPU. */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct card cards[MAX_CARDS];
static int card_count;
static struct usage *usage;
static int usage_fd = -1;
static struct user *mine; /* NULL until this process uses a GPU */
static bool listening;    /* the fork handler is registered */

static const u64 MIB = 1024 * 1024;
static const u64 MOST_WAITING = 100000000; /* ns of launched work that a GPU queues */

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
    char uuid[64], name[64];
    unsigned long long total, context;
    while (card_count < MAX_CARDS && fscanf(file, "%63s %llu %llu %63[^\n]", uuid, &total, &context, name) == 4) {
        struct card *card = &cards[card_count];
        memcpy(card->name, name, sizeof name);
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

/* Field 22 of stat; 0 for exited processes and zombies. */
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

static void forget_user(void) { mine = NULL; }

/* Reuses entries of exited processes only if no other is free: tests read them. */
static struct user *free_place(void)
{
    for (int i = 0; i < MAX_USERS; i++)
        if (!usage->users[i].pid)
            return &usage->users[i];
    for (int i = 0; i < MAX_USERS; i++)
        if (start_of(usage->users[i].pid) != usage->users[i].start)
            return &usage->users[i];
    abort();
}

/* The entry of this process, with the lock taken. */
static void take_place(void)
{
    struct user *place = free_place();
    u64 number = (u64)(place - usage->users) + 1;
    memset(place, 0, sizeof *place);
    *place = (struct user){.pid = (u64)getpid(), .start = start_of((u64)getpid())};
    if (usage->count < number)
        usage->count = number;
    if (!listening)
        pthread_atfork(NULL, NULL, forget_user);
    listening = true;
    mine = place;
}

static struct user *me(void)
{
    if (!mine) {
        flock(usage_fd, LOCK_EX);
        take_place();
        flock(usage_fd, LOCK_UN);
    }
    return mine;
}

static u64 sum(int card)
{
    u64 all = 0;
    for (u64 i = 0; i < __atomic_load_n(&usage->count, __ATOMIC_RELAXED); i++)
        all += __atomic_load_n(&usage->users[i].used[card], __ATOMIC_RELAXED);
    return all;
}

/* The sum without exited processes. */
static u64 sum_of_living(int card)
{
    for (u64 i = 0; i < usage->count; i++) {
        struct user *user = &usage->users[i];
        if (user != mine && user->pid && start_of(user->pid) != user->start)
            memset(user->used, 0, sizeof user->used);
    }
    return sum(card);
}

/* Called rarely: if the GPU may be full, or its usage exceeds the peak. */
static int take_with_care(int card)
{
    flock(usage_fd, LOCK_EX);
    u64 used = sum_of_living(card);
    bool fits = used <= cards[card].total;
    if (fits && used > usage->peak[card])
        __atomic_store_n(&usage->peak[card], used, __ATOMIC_RELAXED);
    flock(usage_fd, LOCK_UN);
    return fits ? OK : OUT_OF_MEMORY;
}

int machine_take(int card, u64 bytes)
{
    if (bytes > cards[card].total)
        return OUT_OF_MEMORY;
    __atomic_fetch_add(&me()->used[card], bytes, __ATOMIC_RELAXED);
    u64 used = sum(card);
    if (used <= cards[card].total && used <= __atomic_load_n(&usage->peak[card], __ATOMIC_RELAXED))
        return OK;
    int verdict = take_with_care(card);
    if (verdict != OK)
        machine_give(card, bytes);
    return verdict;
}

void machine_give(int card, u64 bytes) { __atomic_fetch_sub(&me()->used[card], bytes, __ATOMIC_RELAXED); }

u64 machine_used(int card)
{
    flock(usage_fd, LOCK_EX);
    u64 used = sum_of_living(card);
    flock(usage_fd, LOCK_UN);
    return used;
}

static u64 now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (u64)at.tv_sec * 1000000000 + (u64)at.tv_nsec;
}

static void sleep_until(u64 time)
{
    struct timespec at = {(time_t)(time / 1000000000), (long)(time % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

void machine_run(int card, u64 ns)
{
    u64 *busy_until = &usage->busy_until[card], before = __atomic_load_n(busy_until, __ATOMIC_RELAXED), end;
    do {
        u64 time = now();
        end = (before > time ? before : time) + ns;
    } while (!__atomic_compare_exchange_n(busy_until, &before, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    __atomic_fetch_add(&me()->busy[card], ns, __ATOMIC_RELAXED);
    if (end > now() + MOST_WAITING)
        sleep_until(end - MOST_WAITING);
}
