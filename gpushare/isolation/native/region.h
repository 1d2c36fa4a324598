/* The region: a file of fixed size that all processes of a container map, and that says who uses what.
   `gpushare.isolation.region` has the same layout. A tenant can write it: what it says is checked, and
   the limit holds against mistakes, not malice. mapping.h opens it. */
#ifndef GPUSHARE_REGION_H
#define GPUSHARE_REGION_H

#include <pthread.h>
#include <stdbool.h>

#include "limit.h"

#define REGION_MAGIC 0x6e6f696765527047ull /* "GpRegion" */
#define REGION_VERSION 2
#define REGION_SLOTS 256

struct region_card {
    char uuid[UUID_TEXT];
    u64 limit, used, peak, refusals;
};

/* Launch control of a card. The words are atomic one by one, under no lock: the first two are the node
   agent's, which alone writes them, the others the processes'. Tokens are those of pace.h. */
struct region_launch {
    u64 rate;    /* tokens a second; 0 before the agent's first sample */
    u64 sampled; /* when that was, in ns of CLOCK_MONOTONIC */
    u64 spent, granted; /* since the beginning */
    u64 filled; /* up to which time was granted, in ns of CLOCK_MONOTONIC */
    u64 room[3];
};

/* A process. It is the same one only where its start, in clock ticks since boot, is the same too. `used` has
   in it what the process is charged with for its contexts: `contexts` times `context_bytes`. */
struct region_slot {
    u64 pid, start;
    u64 used[MAX_CARDS], context_bytes[MAX_CARDS];
    u32 contexts[MAX_CARDS];
};

/* The node agent's, which alone writes it: what a context of the process in the slot of the same number takes,
   0 where that was not measured. It is of another process where number and start are others. */
struct region_measure {
    u64 pid, start;
    u64 context_bytes[MAX_CARDS];
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
    struct region_launch launches[MAX_CARDS];
    struct region_slot slots[REGION_SLOTS];
    struct region_measure measures[REGION_SLOTS];
};

/* A fork's child has no slot yet. */
void region_forget_slot(void);

/* Counts `bytes` for this process where all together stay within the limit. The dead are cleared away
   before anything is refused. */
bool region_reserve(int card, u64 bytes);
void region_release(int card, u64 bytes);
void region_refused(int card); /* for those who count refusals */

/* Counts what the driver has taken already; beyond the limit too. */
void region_force(int card, u64 bytes);

/* A context of this process, where it fits: charged with what was measured, or with the guess. */
bool region_enter_context(int card, u64 guess);
void region_leave_context(int card);

/* Bytes in use by the living. False where the region has become unusable. */
bool region_used(int card, u64 *bytes);

#endif
