/* FAKE, for tests. Initialization, devices and contexts, and the list of objects. */
#define _GNU_SOURCE
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ready;
static struct thing *things;
/* The memory of ended objects. Like the driver, the next object has the address that was freed last. */
static struct thing *freed;
static u64 next_address = 0x700000000000ull;
static struct thing *primary[MAX_CARDS];
static int primary_count[MAX_CARDS];
static __thread struct thing *current;

void driver_lock(void) { pthread_mutex_lock(&lock); }

void driver_unlock(const int *entered)
{
    (void)entered;
    pthread_mutex_unlock(&lock);
}

int driver_ready(void) { return ready; }

static pthread_cond_t freed_memory = PTHREAD_COND_INITIALIZER;
static int waiting;

void driver_wait(void)
{
    waiting++;
    pthread_cond_wait(&freed_memory, &lock);
    waiting--;
}

void driver_freed(void) { pthread_cond_broadcast(&freed_memory); }

int driver_waiting(void) { return waiting; }

struct thing *thing_new(enum kind kind, int card, u64 bytes)
{
    if (bytes && machine_take(card, bytes) != OK)
        return NULL;
    struct thing *thing = freed ? freed : malloc(sizeof *thing);
    freed = freed ? freed->next : NULL;
    *thing = (struct thing){.kind = kind, .card = card, .bytes = bytes, .handles = 1, .next = things};
    thing->address = next_address;
    next_address += (bytes + 0x1fffff) & ~0x1fffffull;
    return things = thing;
}

struct thing *thing_at(enum kind kind, u64 address)
{
    struct thing *thing = things;
    while (thing && (thing->kind != kind || thing->address != address))
        thing = thing->next;
    return thing;
}

struct thing *thing_after(enum kind kind, u64 address)
{
    struct thing *first = NULL;
    for (struct thing *thing = things; thing; thing = thing->next)
        if (thing->kind == kind && thing->address >= address && (!first || thing->address < first->address))
            first = thing;
    return first;
}

struct thing *thing_is(enum kind kind, const void *handle)
{
    struct thing *thing = things;
    while (thing && (thing->kind != kind || thing != handle))
        thing = thing->next;
    return thing;
}

void thing_end(struct thing *thing)
{
    struct thing **at = &things;
    while (*at != thing)
        at = &(*at)->next;
    *at = thing->next;
    if (thing->managed)
        machine_managed(thing->card, -(int64_t)thing->bytes);
    if (thing->bytes)
        machine_give(thing->card, thing->bytes);
    thing->next = freed;
    freed = thing;
}

struct thing *driver_context(void) { return current; }

/* Destroys a context with its allocations. */
static void context_end(struct thing *context)
{
    for (struct thing *thing = things, *next; thing; thing = next) {
        next = thing->next;
        if (thing->context == context)
            thing_end(thing);
    }
    if (current == context)
        current = NULL;
    thing_end(context);
}

int location_device(const struct location *location)
{
    enum { DEVICE = 1, DOMAIN = 6 }; /* a domain is a part of the device in the first byte */
    return location->type == DEVICE ? location->id : location->type == DOMAIN ? location->id & 0xff : -1;
}

int driver_device(void) { return current ? current->card : -1; }

API int cuInit(u32 flags)
{
    pthread_mutex_lock(&lock);
    int verdict = flags ? INVALID_VALUE : ready ? OK : machine_start();
    ready = ready || verdict == OK;
    pthread_mutex_unlock(&lock);
    return verdict;
}

API int cuDriverGetVersion(int *version)
{
    if (!version)
        return INVALID_VALUE;
    *version = STUB_VERSION;
    return OK;
}

/* Lets a test identify this library. */
API const char *stubCudaName(void) { return "FAKE CUDA driver of the gpushare testbed"; }

API int cuDeviceGetCount(int *count)
{
    ENTER();
    if (!count)
        return INVALID_VALUE;
    *count = machine_cards();
    return OK;
}

API int cuDeviceGet(int *device, int ordinal)
{
    ENTER();
    if (!device)
        return INVALID_VALUE;
    *device = ordinal;
    return machine_card(ordinal) ? OK : INVALID_DEVICE;
}

API int cuDeviceGetName(char *name, int size, int device)
{
    ENTER();
    if (!name || !machine_card(device))
        return name ? INVALID_DEVICE : INVALID_VALUE;
    snprintf(name, (size_t)size, "%s", machine_card(device)->name);
    return OK;
}

API int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    ENTER();
    if (!uuid || !machine_card(device))
        return uuid ? INVALID_DEVICE : INVALID_VALUE;
    memcpy(uuid, machine_card(device)->uuid, 16);
    return OK;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    ENTER();
    if (!bytes || !machine_card(device))
        return bytes ? INVALID_DEVICE : INVALID_VALUE;
    *bytes = machine_card(device)->total;
    return OK;
}

/* Each output, and both, may be NULL: so the driver answered OptiX and llama.cpp (HAMi-core issue 321 and pull request
   322, measured with driver 580.126; llama.cpp pull request 20499). All other outputs are required: then the driver
   returns CUDA_ERROR_INVALID_VALUE. */
API int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER();
    if (driver_device() < 0)
        return INVALID_CONTEXT;
    u64 all = machine_card(driver_device())->total;
    if (total)
        *total = all;
    if (left)
        *left = all - machine_used(driver_device());
    return OK;
}

API int cuCtxGetCurrent(void **context)
{
    ENTER();
    if (!context)
        return INVALID_VALUE;
    *context = driver_context();
    return OK;
}

API int cuCtxGetDevice(int *device)
{
    ENTER();
    if (!device || driver_device() < 0)
        return device ? INVALID_CONTEXT : INVALID_VALUE;
    *device = driver_device();
    return OK;
}

static int new_context(void **context, int device)
{
    if (!context || !machine_card(device))
        return context ? INVALID_DEVICE : INVALID_VALUE;
    *context = thing_new(CONTEXT, device, machine_card(device)->context);
    return *context ? OK : OUT_OF_MEMORY;
}

API int cuCtxCreate_v2(void **context, u32 flags, int device)
{
    (void)flags;
    ENTER();
    int verdict = new_context(context, device);
    if (verdict == OK)
        current = *context;
    return verdict;
}

/* Since CUDA 11.4: on a part of the SMs. The last version has one structure for all that is optional. */
API int cuCtxCreate_v3(void **context, void *affinities, int count, u32 flags, int device)
{
    return count && !affinities ? INVALID_VALUE : cuCtxCreate_v2(context, flags, device);
}

API int cuCtxCreate_v4(void **context, void *params, u32 flags, int device)
{
    (void)params;
    return cuCtxCreate_v2(context, flags, device);
}

API int cuCtxDestroy_v2(void *context)
{
    ENTER();
    struct thing *thing = thing_is(CONTEXT, context);
    if (!thing)
        return INVALID_CONTEXT;
    context_end(thing);
    return OK;
}

API int cuGLCtxCreate_v2(void **context, u32 flags, int device) { return cuCtxCreate_v2(context, flags, device); }

API int cuVDPAUCtxCreate_v2(void **context, u32 flags, int device, u32 vdpau, const void *lookup)
{
    (void)vdpau, (void)lookup;
    return cuCtxCreate_v2(context, flags, device);
}

/* `handles` counts the uses of a context. */
API int cuCtxAttach(void **context, u32 flags)
{
    ENTER();
    if (!context || flags || !current)
        return context && !flags ? INVALID_CONTEXT : INVALID_VALUE;
    current->handles++;
    *context = current;
    return OK;
}

API int cuCtxDetach(void *context)
{
    ENTER();
    if (!current || current != context)
        return INVALID_CONTEXT;
    if (--current->handles == 0)
        context_end(current);
    return OK;
}

API int cuCtxSetCurrent(void *context)
{
    ENTER();
    current = context;
    return OK;
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ENTER();
    int verdict = OK;
    if (!context || !machine_card(device))
        return context ? INVALID_DEVICE : INVALID_VALUE;
    if (!primary[device])
        verdict = new_context((void **)&primary[device], device);
    if (verdict == OK) {
        primary_count[device]++;
        *context = primary[device];
    }
    return verdict;
}

static int leave_primary(int device, int all)
{
    if (!machine_card(device) || !primary[device])
        return INVALID_CONTEXT;
    primary_count[device] = all ? 0 : primary_count[device] - 1;
    if (primary_count[device] > 0)
        return OK;
    context_end(primary[device]);
    primary[device] = NULL;
    return OK;
}

#define LEAVE(name, all)                    \
    API int name(int device)                \
    {                                       \
        ENTER();                            \
        return leave_primary(device, all);  \
    }

LEAVE(cuDevicePrimaryCtxRelease, 0)
LEAVE(cuDevicePrimaryCtxRelease_v2, 0)
LEAVE(cuDevicePrimaryCtxReset, 1)
LEAVE(cuDevicePrimaryCtxReset_v2, 1)
