/* The region: a file of fixed size that all processes of a container map, and that says who uses what.
   `gpushare.isolation.region` has the same layout. A tenant can write it: what it says is checked, and
   the limit holds against mistakes, not malice. */
#ifndef GPUSHARE_REGION_H
#define GPUSHARE_REGION_H

#include <pthread.h>
#include <stdbool.h>

#include "limit.h"

#define REGION_MAGIC 0x6e6f696765527047ull /* "GpRegion" */
#define REGION_VERSION 1
#define REGION_SLOTS 1024

struct region_card {
    char uuid[UUID_TEXT];
    u64 limit, used, peak, refusals;
};

/* A process. It is the same one only where its start, in clock ticks since boot, is the same too. */
struct region_slot {
    u64 pid, start;
    u64 used[MAX_CARDS];
};

struct region {
    u64 magic; /* written last: 0 is a region that nobody has begun */
    u32 version, bytes;
    u64 sequence; /* odd while somebody writes */
    union {
        pthread_mutex_t mutex;
        char room[64];
    } lock;
    struct region_card cards[MAX_CARDS];
    struct region_slot slots[REGION_SLOTS];
};

/* Maps the region at `path`. False where it cannot be used; `*why` says what is wrong. */
bool region_open(const char *path, const struct limits *limits, const char **why);

/* A fork's child has no slot yet. */
void region_forget_slot(void);

/* Counts `bytes` for this process where all together stay within the limit. The dead are cleared away
   before anything is refused. */
bool region_reserve(int card, u64 bytes);
void region_release(int card, u64 bytes);
void region_refused(int card); /* for those who count refusals */

/* Counts what the driver has taken already; beyond the limit too. */
void region_force(int card, u64 bytes);

/* Bytes in use by the living. False where the region has become unusable. */
bool region_used(int card, u64 *bytes);

#endif
