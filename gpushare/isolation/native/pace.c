#define _GNU_SOURCE
#include "pace.h"

#include <time.h>

#include "mapping.h"

static const u64 SECOND = 1000000000;
static const u64 LOOK = 1000000;         /* ns until the file is looked at again */
static const u64 STEP = 5000000;         /* ns until a sleeper looks again: the rate may have changed */
static const u64 SHORTEST = 20000;       /* ns of the shortest sleep */
static const u64 PATIENCE = 30000000000; /* ns after which a launch goes, whatever the region says */

/* A bucket holds what comes in 100 ms. */
static u64 burst_of(u64 rate) { return rate / 10 + 1; }

static u64 now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (u64)at.tv_sec * SECOND + (u64)at.tv_nsec;
}

static void sleep_for(u64 ns)
{
    struct timespec length = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
    nanosleep(&length, NULL); /* a signal only makes it look sooner */
}

static u64 load(const u64 *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

/* What has to be granted before the turn comes; all counts go round at 2^64. */
static u64 missing(const struct region_launch *bucket, u64 turn)
{
    u64 ahead = turn + 1 - load(&bucket->granted);
    return (int64_t)ahead > 0 && load(&bucket->rate) ? ahead : 0;
}

/* Asks the system for the file's size once a millisecond: a launch is to cost little. */
static bool intact(void)
{
    static u64 looked;
    u64 time = now();
    if (time - load(&looked) < LOOK)
        return true;
    bool good = mapping_intact();
    if (good)
        __atomic_store_n(&looked, time, __ATOMIC_RELAXED);
    return good;
}

/* What a former, higher rate has left over goes: it could last for long at this one. */
static void shrink(struct region_launch *bucket, u64 turn)
{
    u64 granted = load(&bucket->granted), most = turn + burst_of(load(&bucket->rate));
    if ((int64_t)(granted - most) > 0)
        __atomic_compare_exchange_n(&bucket->granted, &granted, most, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool pace_take(int card, u64 tokens, u64 *turn)
{
    if (!intact())
        return true;
    struct region_launch *bucket = &region->launches[card];
    *turn = __atomic_fetch_add(&bucket->spent, tokens, __ATOMIC_RELAXED);
    shrink(bucket, *turn);
    return !missing(bucket, *turn);
}

void pace_give_back(int card, u64 tokens)
{
    if (intact())
        __atomic_fetch_sub(&region->launches[card].spent, tokens, __ATOMIC_RELAXED);
}

/* Grants what has come since the last time, up to a burst more than is spent. The time moves on by what was
   granted: fractions of a token are not lost. Whoever moves it grants. What was spent before the first time,
   when there was no rate, is nobody's debt. */
static void refill(struct region_launch *bucket, u64 time)
{
    u64 filled = load(&bucket->filled), rate = load(&bucket->rate);
    double most = (double)(int64_t)(load(&bucket->spent) - load(&bucket->granted)) + (double)burst_of(rate);
    double come = filled ? (double)(time - filled) * rate / SECOND : most;
    if (filled >= time || most < 1 || come < 1)
        return;
    u64 tokens = (u64)(come < most ? come : most);
    u64 reached = come < most ? filled + (u64)((double)tokens * SECOND / rate) : time;
    if (__atomic_compare_exchange_n(&bucket->filled, &filled, reached, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        __atomic_fetch_add(&bucket->granted, tokens, __ATOMIC_RELAXED);
}

/* Ends a wait that makes no sense: the next launches do not wait for this one. */
static void forgive(struct region_launch *bucket, u64 turn, u64 time)
{
    __atomic_store_n(&bucket->filled, time, __ATOMIC_RELAXED);
    __atomic_fetch_add(&bucket->granted, missing(bucket, turn), __ATOMIC_RELAXED);
}

static u64 until_turn(const struct region_launch *bucket, u64 turn)
{
    double wait = (double)missing(bucket, turn) * SECOND / (load(&bucket->rate) + 1.0);
    return wait > STEP ? STEP : wait < SHORTEST ? SHORTEST : (u64)wait;
}

void pace_wait(int card, u64 turn)
{
    struct region_launch *bucket = &region->launches[card];
    for (u64 begin = now(), time = begin; mapping_intact(); time = now()) {
        refill(bucket, time);
        if (!missing(bucket, turn))
            return;
        if (time - begin > PATIENCE)
            forgive(bucket, turn, time);
        else
            sleep_for(until_turn(bucket, turn));
    }
}
