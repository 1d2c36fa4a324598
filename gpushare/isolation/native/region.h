/* The region: a file of fixed size with the GPU memory usage of each process of a container, which all of them map
   (mapping.h). `gpushare.isolation.region` has the same layout. Programs of the container can write it, so the
   limit protects against mistakes, not against malice. */
#ifndef GPUSHARE_REGION_H
#define GPUSHARE_REGION_H

#include <pthread.h>
#include <stdbool.h>

#include "limit.h"

#define REGION_MAGIC 0x6e6f696765527047ull /* "GpRegion" */
#define REGION_VERSION 1
#define REGION_SLOTS 1024
#define LAUNCH_KINDS 128

struct region_card {
    char uuid[UUID_TEXT];
    u64 limit, used, peak, refusals;
    u64 forgiven; /* part of `used` that does not count against the limit */
    /* Of refused requests that the GPU could hold: the largest size, and the largest sum of size and use, which is the
       smallest limit that admits the request. */
    u64 refused, needed;
};

/* Launch control of a GPU (pace.h). Each field is atomic; there is no lock. The node agent writes `rate`, `sampled`
   and `prices`, the processes write the others. */
struct region_launch {
    u64 rate;    /* tokens per second; 0 before the first sample of the agent */
    u64 sampled; /* time of the last sample, in ns of CLOCK_MONOTONIC */
    u64 spent, granted; /* tokens since the start */
    u64 filled; /* time of the last refill, in ns of CLOCK_MONOTONIC */
    u64 prices[LAUNCH_KINDS]; /* of a unit of work, in 2^-20 tokens; 0 before the first sample with this kind */
    u64 work[LAUNCH_KINDS];   /* since the start */
};

/* A process, identified by its PID and its start in clock ticks since boot. `used` includes the charge for its
   contexts: `contexts` times `context_bytes`. It also includes its managed memory, `managed`, which the driver does
   not report for a process.

   A program fills its memory with a context that is charged with an estimate. The measured size, which follows later,
   may be larger: then it would be refused what it was promised before. So that difference is `forgiven`, for the first
   measurement only, since later ones grow with the code that the process loads. `corrected` has a bit for each GPU with
   a measurement. */
struct region_slot {
    u64 pid, start;
    u64 used[MAX_CARDS], context_bytes[MAX_CARDS];
    u32 contexts[MAX_CARDS];
    u64 managed[MAX_CARDS];
    u64 forgiven[MAX_CARDS], corrected;
};

/* Written by the node agent: the size of a context of the process in the slot with the same index, 0 if it was
   not measured. It is ignored if PID or start are those of another process. */
struct region_measure {
    u64 pid, start;
    u64 context_bytes[MAX_CARDS];
};

/* Sizes for readers that were built with another layout: bytes of the header and of a record of each kind, number
   of GPUs and of slots. A later layout may only add fields to the end of a record, and records. */
struct region_sizes {
    u16 header, card, launch, slot, measure, cards, slots, unused;
};

struct region {
    u64 magic; /* written last; 0 in an uninitialised region */
    u32 version, bytes;
    u64 sequence; /* odd during a write */
    union {
        pthread_mutex_t mutex;
        char size[48];
    } lock;
    struct region_sizes sizes;
    u32 reached; /* slots from this index on were never used */
    u32 crowded; /* processes whose requests were refused because no slot was free */
    struct region_card cards[MAX_CARDS];
    struct region_launch launches[MAX_CARDS];
    struct region_slot slots[REGION_SLOTS];
    struct region_measure measures[REGION_SLOTS];
};

/* In a forked child, which has no slot yet. */
void region_forget_slot(void);

/* Counts `bytes` for this process if all processes together stay within the limit. Slots of ended processes are
   removed before anything is refused. A process that gets no slot says so on stderr. */
bool region_reserve(int card, u64 bytes);

/* The same right after a refusal, when this process has released memory: no other process is looked at. */
bool region_reserve_again(int card, u64 bytes);

/* As `region_force` and `region_leave_context`: without the lock, the next call that gets it applies the change. */
void region_release(int card, u64 bytes);

/* Counts a refusal of `bytes`, or of a context, unless it is one of a process without a slot. `memory` is the size of
   the GPU. */
void region_refused(int card, u64 bytes, u64 memory);
void region_context_refused(int card, u64 estimate, u64 memory);

/* Changes how much of the counted memory of this process is managed. Also applied later if there is no lock. */
void region_managed(int card, int64_t change);

/* Counts bytes that the driver has already allocated, even beyond the limit. */
void region_force(int card, u64 bytes);

/* Counts a context of this process if it fits, with its measured size, that of another process, or the estimate. */
bool region_enter_context(int card, u64 estimate);
bool region_enter_context_again(int card, u64 estimate);
void region_leave_context(int card);

/* The bytes in use by processes that are alive, without what is forgiven. False if the region cannot be used. */
bool region_used(int card, u64 *bytes);

#endif
