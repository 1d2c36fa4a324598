/* FAKE, for tests. Pools keep freed memory until they are trimmed, like real ones with a threshold. They grow by
   blocks of 32 MiB. Streams run everything immediately. */
#include "driver.h"

enum { RESERVED_NOW = 5, USED_NOW = 7, MANAGED = 2 };

/* For the GPU of a pool in memory of the host, and of a managed one without a location, which is then that of its
   first request. */
enum { HOST = -1, ANY = -2 };

static const u64 BLOCK = 32ull << 20;

static struct thing *defaults[MAX_CARDS];

int free_memory(u64 pointer);

static struct thing *default_pool(int device)
{
    if (!defaults[device])
        defaults[device] = thing_new(POOL, device, 0);
    return defaults[device];
}

static int card_of(u32 type, const struct location *location)
{
    int device = location_device(location);
    return device < 0 && type == MANAGED ? ANY : device < 0 ? HOST : device;
}

/* Whether a request waits for memory if there is none. The host may wait in such a request, for what other threads free or
   launch: ROCm's driver does (rocm-systems issue 10529), and TensorFlow's pull request 50699 has the deadlock of a stream
   that waits for a collective of another device. */
static int waits;

API void stub_pools_wait(int on) { waits = on; }

/* Whether each request waits, before it takes memory, until as many were let through as came before it. */
static int holds, held, let;

API void stub_pools_hold(int on) { holds = on; }

API void stub_pools_let(int more)
{
    driver_lock();
    let += more;
    driver_freed();
    driver_unlock(NULL);
}

static void wait_in_line(void)
{
    for (int place = held++; place >= let;)
        driver_wait();
}

API int stub_pools_waiting(void)
{
    ENTER();
    return driver_waiting();
}

static int grow(struct thing *pool, u64 used)
{
    u64 wanted = (used + BLOCK - 1) / BLOCK * BLOCK;
    if (wanted <= pool->reserved)
        return OK;
    int verdict = pool->card == HOST ? OK : machine_take(pool->card, wanted - pool->reserved);
    if (verdict == OK)
        pool->reserved = wanted;
    return verdict;
}

/* During a capture the address is that of a node, whose memory belongs to the graph. */
static void capture(const struct thing *pool, u64 *pointer, u64 bytes)
{
    struct thing *thing = thing_new(LINEAR, pool->card, 0);
    thing->address += 0x200000000000ull + (u64)(uintptr_t)thing;
    *pointer = thing->address;
    if (pool->card != HOST)
        graph_add(pool->card, bytes);
}

static int allocate(struct thing *pool, u64 *pointer, u64 bytes)
{
    if (!pointer || !bytes)
        return INVALID_VALUE;
    if (pool->card == ANY)
        pool->card = driver_device();
    if (capture_is_invalid())
        return CAPTURE_INVALIDATED;
    if (stream_captures()) {
        capture(pool, pointer, bytes);
        return OK;
    }
    if (holds)
        wait_in_line();
    while (grow(pool, pool->used + bytes) != OK) {
        if (!waits)
            return OUT_OF_MEMORY;
        driver_wait();
    }
    pool->used += bytes;
    struct thing *thing = thing_new(LINEAR, pool->card, 0);
    thing->pool = pool;
    thing->used = bytes;
    thing->address += 0x100000000000ull + (u64)(uintptr_t)thing;
    *pointer = thing->address;
    return OK;
}

static void trim(struct thing *pool, u64 keep)
{
    u64 wanted = pool->used > keep ? pool->used : keep;
    wanted = (wanted + BLOCK - 1) / BLOCK * BLOCK;
    if (wanted < pool->reserved) {
        if (pool->card != HOST)
            machine_give(pool->card, pool->reserved - wanted);
        pool->reserved = wanted;
        driver_freed();
    }
}

void pool_free(struct thing *thing)
{
    struct thing *pool = thing->pool;
    pool->used -= thing->used;
    driver_freed();
    if (!pool->destroyed)
        return;
    trim(pool, 0);
    if (!pool->used)
        thing_end(pool);
}

static struct thing *pool_of(const void *handle)
{
    struct thing *pool = thing_is(POOL, handle);
    return pool && !pool->destroyed ? pool : NULL;
}

static int allocate_async(u64 *pointer, size_t bytes)
{
    ENTER();
    return driver_device() < 0 ? INVALID_CONTEXT : allocate(default_pool(driver_device()), pointer, bytes);
}

API int cuMemAllocAsync(u64 *pointer, size_t bytes, void *stream)
{
    (void)stream;
    return allocate_async(pointer, bytes);
}

API int cuMemAllocAsync_ptsz(u64 *pointer, size_t bytes, void *stream)
{
    (void)stream;
    return allocate_async(pointer, bytes);
}

API int cuMemAllocFromPoolAsync(u64 *pointer, size_t bytes, void *pool, void *stream)
{
    (void)stream;
    ENTER();
    if (driver_device() < 0)
        return INVALID_CONTEXT;
    return pool_of(pool) ? allocate(pool, pointer, bytes) : INVALID_HANDLE;
}

API int cuMemAllocFromPoolAsync_ptsz(u64 *pointer, size_t bytes, void *pool, void *stream)
{
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
}

API int cuMemFreeAsync(u64 pointer, void *stream)
{
    (void)stream;
    ENTER();
    return free_memory(pointer);
}

API int cuMemFreeAsync_ptsz(u64 pointer, void *stream) { return cuMemFreeAsync(pointer, stream); }

API int cuDeviceGetDefaultMemPool(void **pool, int device)
{
    ENTER();
    if (!pool || !machine_card(device))
        return pool ? INVALID_DEVICE : INVALID_VALUE;
    *pool = default_pool(device);
    return OK;
}

API int cuDeviceGetMemPool(void **pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }

/* The default pools of other locations than GPUs. */
static void *default_elsewhere(int card)
{
    static struct thing *host, *managed;
    struct thing **known = card == HOST ? &host : &managed;
    if (!*known)
        *known = thing_new(POOL, card, 0);
    return *known;
}

API int cuMemGetDefaultMemPool(void **pool, const struct location *location, u32 type)
{
    ENTER();
    if (!pool || !location)
        return INVALID_VALUE;
    int card = card_of(type, location);
    if (card >= 0 && !machine_card(card))
        return INVALID_DEVICE;
    *pool = card >= 0 ? default_pool(card) : default_elsewhere(card);
    return OK;
}

API int cuMemGetMemPool(void **pool, const struct location *location, u32 type)
{
    return cuMemGetDefaultMemPool(pool, location, type);
}

API int cuMemPoolCreate(void **pool, const struct prop *props)
{
    ENTER();
    if (!pool || !props)
        return INVALID_VALUE;
    int card = card_of(props->type, &props->location);
    if (card >= 0 && !machine_card(card))
        return INVALID_VALUE;
    *pool = thing_new(POOL, card, 0);
    return OK;
}

API int cuMemPoolGetAttribute(void *pool, int attribute, u64 *value)
{
    ENTER();
    struct thing *thing = pool_of(pool);
    if (!thing || !value)
        return value ? INVALID_HANDLE : INVALID_VALUE;
    if (capture_forbids())
        return CAPTURE_UNSUPPORTED;
    *value = attribute == RESERVED_NOW ? thing->reserved : attribute == USED_NOW ? thing->used : 0;
    return OK;
}

API int cuMemPoolTrimTo(void *pool, size_t keep)
{
    ENTER();
    if (!pool_of(pool))
        return INVALID_HANDLE;
    if (capture_forbids())
        return CAPTURE_UNSUPPORTED;
    trim(pool, keep);
    return OK;
}

API int cuMemPoolDestroy(void *pool)
{
    ENTER();
    struct thing *thing = pool_of(pool);
    if (!thing)
        return INVALID_VALUE;
    trim(thing, 0);
    if (thing->used)
        thing->destroyed = true;
    else
        thing_end(thing);
    return OK;
}
