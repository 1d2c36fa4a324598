/* The prologue of every function of the fake, and its objects. */
#ifndef STUB_CUDA_DRIVER_H
#define STUB_CUDA_DRIVER_H

#include <stdbool.h>

#include "machine.h"

enum kind { NOTHING, LINEAR, ARRAY, PHYSICAL, MAPPED, OPENED, CONTEXT, POOL };

/* An object of the driver. Its address is its handle, except for memory, which has a separate one. */
struct thing {
    enum kind kind;
    int card, handles, maps;
    u64 address, bytes;
    u64 reserved, used; /* of a pool; for mapped memory, or that of another process, `used` is its size */
    struct thing *pool, *context, *physical;
    bool managed, destroyed; /* of a pool that ends once its memory is freed */
    struct thing *next;
};

/* The only lock; ENTER takes it until the function returns. */
void driver_lock(void);
void driver_unlock(const int *entered);
int driver_ready(void);

/* Releases the lock until memory of a pool is freed; the number of threads that wait so. */
void driver_wait(void);
void driver_freed(void);
int driver_waiting(void);

#define ENTER()                                                            \
    __attribute__((cleanup(driver_unlock), unused)) const int entered = 1; \
    driver_lock();                                                         \
    if (!driver_ready())                                                   \
    return NOT_INITIALIZED

/* The context of this thread, or NULL. */
struct thing *driver_context(void);

/* The device of a location; -1 for others. */
int location_device(const struct location *location);

/* The device of the context of this thread, or of the retained primary context; -1 if none. */
int driver_device(void);

struct thing *thing_new(enum kind kind, int card, u64 bytes);
struct thing *thing_at(enum kind kind, u64 address);
struct thing *thing_is(enum kind kind, const void *handle);
struct thing *thing_after(enum kind kind, u64 address); /* the first one at or after the address */
void thing_end(struct thing *thing);

/* Whether streams capture; a request of memory then adds a node to the graph. */
bool stream_captures(void);
bool capture_is_invalid(void);

/* Whether a capture forbids the call, by the modes of both; then the capture is invalid. */
bool capture_forbids(void);

/* Adds a node that allocates memory, which `graph_take` allocates before the graph runs. */
void graph_add(int card, u64 bytes);
int graph_take(int card);

#endif
