#define _GNU_SOURCE
#include "pace.h"

#include "elf.h"
#include "kernel.h"
#include "mapping.h"

enum { PRICE_SHIFT = 20 };
static const u64 SECOND = 1000000000;      /* ns */
static const u64 CHECK = 1000000;          /* ns between checks of the file */
static const u64 LONGEST_SLEEP = 5000000;  /* ns, because the rate may change meanwhile */
static const u64 SHORTEST_SLEEP = 20000;   /* ns */
static const u64 LONGEST_WAIT = 30000000000; /* ns after which a launch proceeds without tokens */

/* The capacity of a bucket: the tokens of 100 ms. */
static u64 burst_of(u64 rate) { return rate / 10 + 1; }

/* All processes of the container must have the same clock, so it is that of libc, not one of another library. */
static u64 now(void)
{
    struct timespec at;
    clock_function libc = libc_clock();
    if (libc)
        libc(CLOCK_MONOTONIC, &at);
    else
        kernel_time(CLOCK_MONOTONIC, &at);
    return (u64)at.tv_sec * SECOND + (u64)at.tv_nsec;
}

static void sleep_for(u64 ns)
{
    struct timespec length = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
    kernel_sleep(&length);
}

static u64 load(const u64 *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

/* Bounded: a program can write any price into its region. */
static u64 tokens_of(u32 work, u64 price)
{
    u64 tokens;
    return __builtin_mul_overflow(work, price, &tokens) ? SECOND : tokens >> PRICE_SHIFT;
}

/* The tokens that must be granted before the turn of a launch; counters wrap around at 2^64. */
static u64 missing(const struct region_launch *bucket, u64 turn)
{
    u64 ahead = turn + 1 - load(&bucket->granted);
    return (int64_t)ahead > 0 && load(&bucket->rate) ? ahead : 0;
}

/* At most one system call per millisecond, to keep launches cheap. */
static bool intact(void)
{
    static u64 checked;
    u64 time = now();
    if (time - load(&checked) < CHECK)
        return true;
    bool good = mapping_intact();
    if (good)
        __atomic_store_n(&checked, time, __ATOMIC_RELAXED);
    return good;
}

/* Removes tokens beyond the capacity, left from a higher rate: at the current rate they could last long. */
static void shrink(struct region_launch *bucket, u64 turn)
{
    u64 granted = load(&bucket->granted), most = turn + burst_of(load(&bucket->rate));
    if ((int64_t)(granted - most) > 0)
        __atomic_compare_exchange_n(&bucket->granted, &granted, most, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool pace_take(int card, struct launch launch, struct taken *taken)
{
    *taken = (struct taken){0, 0};
    if (!intact())
        return true;
    struct region_launch *bucket = &region->launches[card];
    u32 kind = launch.kind % LAUNCH_KINDS;
    taken->tokens = tokens_of(launch.work, load(&bucket->prices[kind]));
    __atomic_fetch_add(&bucket->work[kind], launch.work, __ATOMIC_RELAXED);
    taken->turn = __atomic_fetch_add(&bucket->spent, taken->tokens, __ATOMIC_RELAXED);
    shrink(bucket, taken->turn);
    return !missing(bucket, taken->turn);
}

void pace_give_back(int card, struct launch launch, const struct taken *taken)
{
    if (!intact())
        return;
    struct region_launch *bucket = &region->launches[card];
    __atomic_fetch_sub(&bucket->work[launch.kind % LAUNCH_KINDS], launch.work, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&bucket->spent, taken->tokens, __ATOMIC_RELAXED);
}

/* Grants the tokens since the last refill, up to the capacity of the bucket. `filled` advances by the time of
   the granted tokens, so fractions of a token are not lost; the process that advances it grants them. The first
   refill also grants all tokens that were spent without a rate. */
static void refill(struct region_launch *bucket, u64 time)
{
    u64 filled = load(&bucket->filled), rate = load(&bucket->rate);
    double most = (double)(int64_t)(load(&bucket->spent) - load(&bucket->granted)) + (double)burst_of(rate);
    double due = filled ? (double)(time - filled) * rate / SECOND : most;
    if (filled >= time || most < 1 || due < 1)
        return;
    u64 tokens = (u64)(due < most ? due : most);
    u64 reached = due < most ? filled + (u64)((double)tokens * SECOND / rate) : time;
    if (__atomic_compare_exchange_n(&bucket->filled, &filled, reached, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        __atomic_fetch_add(&bucket->granted, tokens, __ATOMIC_RELAXED);
}

/* Ends a wait that took too long: later launches do not wait for its tokens. */
static void forgive(struct region_launch *bucket, u64 turn, u64 time)
{
    __atomic_store_n(&bucket->filled, time, __ATOMIC_RELAXED);
    __atomic_fetch_add(&bucket->granted, missing(bucket, turn), __ATOMIC_RELAXED);
}

static u64 until_turn(const struct region_launch *bucket, u64 turn)
{
    double wait = (double)missing(bucket, turn) * SECOND / (load(&bucket->rate) + 1.0);
    return wait > LONGEST_SLEEP ? LONGEST_SLEEP : wait < SHORTEST_SLEEP ? SHORTEST_SLEEP : (u64)wait;
}

void pace_wait(int card, u64 turn)
{
    struct region_launch *bucket = &region->launches[card];
    for (u64 begin = now(), time = begin; mapping_intact(); time = now()) {
        refill(bucket, time);
        if (!missing(bucket, turn))
            return;
        if (time - begin > LONGEST_WAIT)
            forgive(bucket, turn, time);
        else
            sleep_for(until_turn(bucket, turn));
    }
}
