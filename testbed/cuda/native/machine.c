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
#include <sys/auxv.h>
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
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/* Times at which the GPUs have run all kernels that this process launched. */
static u64 ends[MAX_CARDS];

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

static bool has_node(int place)
{
    char node[32];
    snprintf(node, sizeof node, "/dev/nvidia%d", place);
    return access(node, F_OK) == 0;
}

static void read_cards(FILE *file, bool with_node)
{
    char uuid[64], name[64];
    unsigned long long total, context;
    for (int place = 0; place < MAX_CARDS; place++) {
        struct card *card = &cards[card_count];
        if (fscanf(file, "%63s %llu %llu %63[^\n]", uuid, &total, &context, name) != 4)
            return;
        memcpy(card->name, name, sizeof name);
        card->place = place;
        card->total = total * MIB;
        card->context = context * MIB;
        card_count += parse_uuid(uuid, card->uuid) && (!with_node || has_node(place));
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
    const char *named = getenv("STUB_CUDA"), *path = named ? named : STUB_CARDS;
    FILE *file = fopen(path, "re");
    if (!file)
        return NO_DEVICE;
    card_count = 0;
    read_cards(file, !named);
    fclose(file);
    return card_count ? map_usage(path) : NO_DEVICE;
}

int machine_cards(void) { return card_count; }

const struct card *machine_card(int card) { return card >= 0 && card < card_count ? &cards[card] : NULL; }

/* A number that the kernel gives to each execution of a program. */
static u64 this_program(void)
{
    u64 number;
    memcpy(&number, (const void *)getauxval(AT_RANDOM), sizeof number);
    return number;
}

/* A process locks the byte of its entry. The kernel releases the lock when it closes the file, as that of a device:
   when the process exits, or executes another program. Locks are seen in all PID namespaces, PIDs are not. */
static struct flock lock_of(const struct user *user)
{
    off_t byte = (off_t)(sizeof *usage) + (off_t)(user - usage->users);
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

/* A process does not see its own locks, but may have loaded this library twice. */
static bool is_this_process(const struct user *user)
{
    return user->pid == (u64)getpid() && user->program == this_program();
}

static bool runs(const struct user *user)
{
    struct flock lock = lock_of(user);
    return is_this_process(user) || fcntl(usage_fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static void forget_user(void)
{
    mine = NULL;
    pthread_mutex_init(&taking, NULL);
}

/* Whether the entry is now locked by this process: then no other one that runs has it. */
static bool locks(const struct user *user)
{
    struct flock lock = lock_of(user);
    return !is_this_process(user) && fcntl(usage_fd, F_SETLK, &lock) == 0;
}

/* Entries of exited processes are reused only if no other is free: tests read them. */
static struct user *free_place(void)
{
    for (int i = 0; i < MAX_USERS; i++)
        if (!usage->users[i].pid && locks(&usage->users[i]))
            return &usage->users[i];
    for (int i = 0; i < MAX_USERS; i++)
        if (locks(&usage->users[i]))
            return &usage->users[i];
    abort();
}

/* The lock of the entry decides between processes: a child shares the flock of its parent. */
static void take_place(void)
{
    struct user *place = free_place();
    u64 number = (u64)(place - usage->users) + 1, count = usage->count;
    memset(place, 0, sizeof *place);
    *place = (struct user){.pid = (u64)getpid(), .program = this_program()};
    while (count < number &&
           !__atomic_compare_exchange_n(&usage->count, &count, number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    if (!listening)
        pthread_atfork(NULL, NULL, forget_user);
    listening = true;
    __atomic_store_n(&mine, place, __ATOMIC_RELEASE);
}

static struct user *me(void)
{
    if (!__atomic_load_n(&mine, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&taking);
        if (!mine)
            take_place();
        pthread_mutex_unlock(&taking);
    }
    return mine;
}

static u64 sum(int place)
{
    u64 all = 0;
    for (u64 i = 0; i < __atomic_load_n(&usage->count, __ATOMIC_RELAXED); i++)
        all += __atomic_load_n(&usage->users[i].used[place], __ATOMIC_RELAXED);
    return all;
}

/* The sum without exited processes. */
static u64 sum_of_living(int place)
{
    for (u64 i = 0; i < usage->count; i++) {
        struct user *user = &usage->users[i];
        if (user->pid && !runs(user))
            memset(user->used, 0, sizeof user->used);
    }
    return sum(place);
}

/* Called rarely: if the GPU may be full, or its usage exceeds the peak. */
static int take_with_care(const struct card *card)
{
    flock(usage_fd, LOCK_EX);
    u64 used = sum_of_living(card->place);
    bool fits = used <= card->total;
    if (fits && used > usage->peak[card->place])
        __atomic_store_n(&usage->peak[card->place], used, __ATOMIC_RELAXED);
    flock(usage_fd, LOCK_UN);
    return fits ? OK : OUT_OF_MEMORY;
}

int machine_take(int card, u64 bytes)
{
    const struct card *gpu = &cards[card];
    if (bytes > gpu->total)
        return OUT_OF_MEMORY;
    __atomic_fetch_add(&me()->used[gpu->place], bytes, __ATOMIC_RELAXED);
    u64 used = sum(gpu->place);
    if (used <= gpu->total && used <= __atomic_load_n(&usage->peak[gpu->place], __ATOMIC_RELAXED))
        return OK;
    int verdict = take_with_care(gpu);
    if (verdict != OK)
        machine_give(card, bytes);
    return verdict;
}

void machine_give(int card, u64 bytes)
{
    __atomic_fetch_sub(&me()->used[cards[card].place], bytes, __ATOMIC_RELAXED);
}

void machine_managed(int card, int64_t change)
{
    __atomic_fetch_add(&me()->managed[cards[card].place], (u64)change, __ATOMIC_RELAXED);
}

u64 machine_used(int card)
{
    flock(usage_fd, LOCK_EX);
    u64 used = sum_of_living(cards[card].place);
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
    int place = cards[card].place;
    u64 *busy_until = &usage->busy_until[place], before = __atomic_load_n(busy_until, __ATOMIC_RELAXED), end;
    do {
        u64 time = now();
        end = (before > time ? before : time) + ns;
    } while (!__atomic_compare_exchange_n(busy_until, &before, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    __atomic_fetch_add(&me()->busy[place], ns, __ATOMIC_RELAXED);
    __atomic_store_n(&ends[card], end, __ATOMIC_RELAXED);
    if (end > now() + MOST_WAITING)
        sleep_until(end - MOST_WAITING);
}

/* Advances the end of the work of a GPU to a later time; returns by how much, 0 if it is later already. */
static u64 advance(int place, u64 end)
{
    u64 *busy_until = &usage->busy_until[place], before = __atomic_load_n(busy_until, __ATOMIC_RELAXED);
    while (before < end &&
           !__atomic_compare_exchange_n(busy_until, &before, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return before < end ? end - before : 0;
}

u64 machine_hold(int card)
{
    advance(cards[card].place, now()); /* it was idle until now */
    return __atomic_load_n(&usage->busy_until[cards[card].place], __ATOMIC_RELAXED);
}

void machine_spin(int card) { machine_run_until(card, now()); }

void machine_run_until(int card, u64 end)
{
    int place = cards[card].place;
    __atomic_fetch_add(&me()->busy[place], advance(place, end), __ATOMIC_RELAXED);
    __atomic_store_n(&ends[card], end, __ATOMIC_RELAXED);
}

void machine_wait(int card) { sleep_until(__atomic_load_n(&ends[card], __ATOMIC_RELAXED)); }
