/* What every function of the fake does first, and the things that it gives out. */
#ifndef STUB_CUDA_DRIVER_H
#define STUB_CUDA_DRIVER_H

#include <stdbool.h>

#include "machine.h"

enum kind { NOTHING, LINEAR, ARRAY, PHYSICAL, MAPPED, OPENED, CONTEXT, POOL };

/* A thing of the driver's. Its address is its handle, but for memory, which has one of its own. */
struct thing {
    enum kind kind;
    int card, handles, maps, released;
    u64 address, bytes;
    u64 reserved, used; /* of a pool; of memory that is mapped or another process's, `used` is its size */
    struct thing *pool, *context, *physical;
    struct thing *next;
};

/* One lock for all; taken by ENTER until the function returns. */
void driver_lock(void);
void driver_unlock(const int *entered);
int driver_ready(void);

#define ENTER()                                                            \
    __attribute__((cleanup(driver_unlock), unused)) const int entered = 1; \
    driver_lock();                                                         \
    if (!driver_ready())                                                   \
    return NOT_INITIALIZED

/* This thread's context; NULL without. */
struct thing *driver_context(void);

/* The device of this thread's context, or of the primary one that is retained; -1 without. */
int driver_device(void);

struct thing *thing_new(enum kind kind, int card, u64 bytes);
struct thing *thing_at(enum kind kind, u64 address);
struct thing *thing_is(enum kind kind, const void *handle);
struct thing *thing_after(enum kind kind, u64 address); /* the first one there or behind */
void thing_end(struct thing *thing);

/* Before a graph runs: what its nodes take of a card. */
int graph_take(int card);

#endif
