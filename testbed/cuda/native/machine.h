/* The GPUs of the fake, and their usage by process. No CUDA call belongs here. */
#ifndef STUB_CUDA_MACHINE_H
#define STUB_CUDA_MACHINE_H

#include "abi.h"

#define MAX_CARDS 16
#define MAX_USERS 1280

struct card {
    int place; /* in the file, and so in `usage` */
    unsigned char uuid[16];
    u64 total, context;
    char name[64];
};

/* A file next to that of the GPUs, which STUB_CUDA names, by default STUB_CARDS: memory and compute time (ns) of
   each process, as a driver counts them. The process of entry n locks byte sizeof(struct usage) + n of the file
   until it exits or executes another program; then its memory is free. `peak` is the maximum of the memory of all
   running processes, `busy_until` the time (CLOCK_MONOTONIC) at which a GPU has run all launched kernels. `used`
   includes `managed`, which NVML does not report for a process. */
struct user {
    u64 pid, program;
    u64 used[MAX_CARDS], busy[MAX_CARDS], managed[MAX_CARDS];
};

struct usage {
    u64 count; /* of entries that were ever used */
    u64 peak[MAX_CARDS], busy_until[MAX_CARDS];
    struct user users[MAX_USERS];
};

/* Reads the GPUs; NO_DEVICE if there are none. With STUB_CARDS, which only containers have, a process sees the GPUs
   whose device nodes it has, as with a driver. */
int machine_start(void);
int machine_cards(void);
const struct card *machine_card(int card);

int machine_take(int card, u64 bytes); /* OUT_OF_MEMORY if the GPU is full */
void machine_give(int card, u64 bytes);
void machine_managed(int card, int64_t change); /* of the memory that this process has taken */
u64 machine_used(int card);

/* Queues a kernel of that many ns after all kernels of all processes: a GPU runs one at a time. Blocks only if
   the queue is long. */
void machine_run(int card, u64 ns);

/* For a kernel that holds the GPU: returns when its turn begins, keeps the GPU busy until now, or until a time. */
u64 machine_hold(int card);
void machine_spin(int card);
void machine_run_until(int card, u64 end);
void machine_wait(int card); /* until all kernels of this process have run */

#endif
