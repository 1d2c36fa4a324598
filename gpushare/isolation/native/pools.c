/* The memory of pools and graphs. They retain unused memory, so they are charged for the memory that the driver
   reports as reserved, not for each pointer. A request is reserved before the call and corrected after it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>

#include "wrappers.h"

enum { MAX_STORES = 256 };

/* A pool, or all graphs of a device. `charged` is its reserved memory at the last update. A pool in memory of the
   host has NO_CARD, and is not limited. */
struct store {
    void *pool; /* NULL: graphs of `device` */
    int device, card;
    u64 charged;
};

static struct store stores[MAX_STORES];
static int store_count;
static bool has_graphs; /* whether a store is one of graphs; read without the lock */
/* One request at a time, so that the growth of a pool is due to the request. Recursive, because the driver may call
   the program back from a request (CUPTI, cuLogsRegisterCallback), which may ask for the memory that is free. */
#define UNLOCKED PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t lock = UNLOCKED;

void pools_forget(void)
{
    lock = (pthread_mutex_t)UNLOCKED;
    store_count = 0;
    has_graphs = false;
}

/* While a stream captures, the driver refuses most calls for pools, unless this thread is in relaxed mode, and ends
   the capture. Returns the former mode of the thread. */
static int exchange_capture_mode(int mode)
{
    if (driver_has(cuThreadExchangeStreamCaptureMode))
        ASK(cuThreadExchangeStreamCaptureMode)(&mode);
    return mode;
}

/* What a query found. A pool that the driver does not know has ended, as by a reset of its GPU. Else an error says
   nothing about the pool, as after a kernel has failed: then its memory is still there. */
static u64 found(int verdict, u64 value, u64 unknown)
{
    if (verdict == CUDA_INVALID_VALUE || verdict == CUDA_INVALID_HANDLE)
        return 0;
    return verdict == CUDA_OK ? value : unknown;
}

static u64 attribute(void *pool, int which, u64 unknown)
{
    u64 value = 0;
    int mode = exchange_capture_mode(CAPTURE_RELAXED);
    int verdict = driver_has(cuMemPoolGetAttribute) ? ASK(cuMemPoolGetAttribute)(pool, which, &value) : CUDA_OK;
    exchange_capture_mode(mode);
    return found(verdict, value, unknown);
}

static u64 graph_attribute(int device, int which, u64 unknown)
{
    u64 value = 0;
    int verdict = CUDA_OK;
    if (driver_has(cuDeviceGetGraphMemAttribute))
        verdict = ASK(cuDeviceGetGraphMemAttribute)(device, which, &value);
    return found(verdict, value, unknown);
}

static u64 reserved_now(const struct store *store)
{
    if (store->pool)
        return attribute(store->pool, POOL_RESERVED_NOW, store->charged);
    return graph_attribute(store->device, GRAPH_RESERVED_NOW, store->charged);
}

static u64 used_now(const struct store *store)
{
    if (store->pool)
        return attribute(store->pool, POOL_USED_NOW, store->charged);
    return graph_attribute(store->device, GRAPH_USED_NOW, store->charged);
}

/* Updates the charge to the reserved memory; `reserved` bytes of the difference are counted already. */
static void settle(struct store *store, u64 reserved)
{
    u64 now = reserved_now(store), before = store->charged + reserved;
    if (now > before)
        account_force(store->card, now - before);
    else
        account_release(store->card, before - now);
    store->charged = now;
}

static void release_unused(const struct store *store)
{
    __typeof__(cuMemPoolTrimTo) *pool_trim = (__typeof__(cuMemPoolTrimTo) *)driver_function(ENTRY_cuMemPoolTrimTo);
    __typeof__(cuDeviceGraphMemTrim) *graph_trim =
        (__typeof__(cuDeviceGraphMemTrim) *)driver_function(ENTRY_cuDeviceGraphMemTrim);
    int mode = exchange_capture_mode(CAPTURE_RELAXED);
    if (store->pool && pool_trim)
        pool_trim(store->pool, 0);
    else if (!store->pool && graph_trim)
        graph_trim(store->device);
    exchange_capture_mode(mode);
}

static void trim(struct store *store)
{
    release_unused(store);
    settle(store, 0);
}

static void trim_pools(int card)
{
    for (int i = 0; i < store_count; i++)
        if (stores[i].pool && stores[i].card == card)
            trim(&stores[i]);
}

static void trim_all(int card)
{
    trim_pools(card);
    for (int i = 0; i < store_count; i++)
        if (!stores[i].pool && stores[i].card == card)
            trim(&stores[i]);
}

static struct store *known_store(void *pool, int device)
{
    for (int i = 0; i < store_count; i++)
        if (stores[i].pool == pool && (pool || stores[i].device == device))
            return &stores[i];
    return NULL;
}

static struct store *new_store(void *pool, int device, int card)
{
    if (store_count == MAX_STORES)
        return NULL;
    stores[store_count] = (struct store){pool, device, card, 0};
    if (!pool)
        __atomic_store_n(&has_graphs, true, __ATOMIC_RELAXED);
    return &stores[store_count++];
}

/* NULL if the GPU is unknown, as without a current context, or if the table is full: the request is refused. */
static struct store *store_of(void *pool, int device, int card)
{
    struct store *known = known_store(pool, device);
    return known || card == NO_CARD ? known : new_store(pool, device, card);
}

void pools_update(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < store_count; i++)
        settle(&stores[i], 0);
    pthread_mutex_unlock(&lock);
}

void pools_trim(int card)
{
    pthread_mutex_lock(&lock);
    trim_all(card);
    pthread_mutex_unlock(&lock);
}

/* Launches that the library does not see take memory too, so it is read before each request. */
static void settle_graphs(int card)
{
    for (int i = 0; i < store_count; i++)
        if (!stores[i].pool && stores[i].card == card)
            settle(&stores[i], 0);
}

void pools_settle_graphs(int card)
{
    if (!__atomic_load_n(&has_graphs, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    settle_graphs(card);
    pthread_mutex_unlock(&lock);
}

/* A graph may take more than is free: then the pools release what they do not use. */
static void charge_launched(struct store *graphs)
{
    u64 before = graphs->charged;
    settle(graphs, 0);
    if (graphs->charged > before && !account_reserve(graphs->card, 0))
        trim_pools(graphs->card);
}

void pools_charge_graphs(void)
{
    if (!__atomic_load_n(&has_graphs, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < store_count; i++)
        if (!stores[i].pool)
            charge_launched(&stores[i]);
    pthread_mutex_unlock(&lock);
}

static bool reserve_now(int card, u64 bytes)
{
    settle_graphs(card);
    return account_reserve(card, bytes);
}

static bool reserve_or_trim(int card, u64 bytes)
{
    if (reserve_now(card, bytes))
        return true;
    trim_all(card);
    return account_reserve_again(card, bytes);
}

bool pools_node_fits(int device, int card, u64 bytes)
{
    pthread_mutex_lock(&lock);
    struct store *store = store_of(NULL, device, card);
    bool fits = store && reserve_or_trim(card, bytes);
    if (fits)
        settle(store, bytes);
    pthread_mutex_unlock(&lock);
    return fits;
}

/* The unused memory of a store; some of it may still belong to pending operations of a stream. */
static u64 spare(const struct store *store)
{
    u64 used = used_now(store), now = reserved_now(store);
    return now > used ? now - used : 0;
}

static u64 spare_of_all(int card)
{
    u64 sum = 0;
    for (int i = 0; i < store_count; i++)
        sum += stores[i].card == card ? spare(&stores[i]) : 0;
    return sum;
}

/* Whether bytes would fit if all stores were trimmed. */
static bool fits_if_trimmed(int card, u64 bytes)
{
    settle_graphs(card);
    u64 unused = spare_of_all(card), more = bytes > unused ? bytes - unused : 0;
    bool fits = account_reserve(card, more);
    if (fits)
        account_release(card, more);
    return fits;
}

/* Whether the growth of a pool fits: it grows by whole blocks, which may be larger than the request. */
static bool growth_fits(const struct store *store, u64 reserved)
{
    u64 now = reserved_now(store), before = store->charged + reserved;
    if (now <= before)
        return true;
    if (!account_reserve(store->card, now - before))
        return false;
    account_release(store->card, now - before); /* settle counts it */
    return true;
}

typedef int allocator(u64 *pointer, size_t bytes, void *pool, void *stream);
typedef int liberator(u64 pointer, void *stream);

/* A request without a reservation, for memory that the pool has unused. If the driver cannot use that, as when it is in
   pieces, all unused memory is released to make room for a larger pool. */
static bool reused(struct store *store, u64 *pointer, size_t bytes, void *stream, allocator *allocate, int *verdict)
{
    *verdict = allocate(pointer, bytes, store->pool, stream);
    if (*verdict != CUDA_OUT_OF_MEMORY && (*verdict != CUDA_OK || growth_fits(store, 0)))
        return true;
    for (int i = 0; i < store_count; i++)
        if (&stores[i] != store && stores[i].card == store->card)
            trim(&stores[i]);
    release_unused(store);
    if (*verdict == CUDA_OUT_OF_MEMORY)
        *verdict = allocate(pointer, bytes, store->pool, stream);
    return *verdict != CUDA_OK || growth_fits(store, 0);
}

/* While a pool has enough unused memory, nothing is released: close to the limit, each request would take as long as
   one of the GPU. */
static int from_store(struct store *store, u64 *pointer, size_t bytes, void *stream, allocator *allocate,
                      liberator *release)
{
    int verdict;
    bool good;
    settle(store, 0);
    bool reserved = reserve_now(store->card, bytes);
    if (!reserved && spare(store) < bytes) {
        trim_all(store->card);
        reserved = account_reserve_again(store->card, bytes);
        if (!reserved)
            return account_refused(store->card);
    }
    if (reserved) {
        verdict = allocate(pointer, bytes, store->pool, stream);
        good = verdict != CUDA_OK || growth_fits(store, bytes);
    } else {
        good = reused(store, pointer, bytes, stream, allocate, &verdict);
    }
    if (!good && release)
        release(OUTPUT(pointer), stream);
    settle(store, reserved ? bytes : 0);
    if (!good)
        trim(store);
    return good ? verdict : account_refused(store->card);
}

/* On a stream that captures, a request adds a node to the graph, which does not use the memory of the pool, and needs
   memory when it is launched. Until then the pools keep theirs. */
static int into_graph(const struct store *pool, u64 *pointer, size_t bytes, void *stream, allocator *allocate)
{
    bool fits = store_of(NULL, pool->device, pool->card) && fits_if_trimmed(pool->card, bytes);
    return fits ? allocate(pointer, bytes, pool->pool, stream) : account_refused(pool->card);
}

/* If it is unknown, the driver rejects the request. */
static bool captures(void *stream, enum entry is_capturing)
{
    asked_cuStreamIsCapturing *ask = (asked_cuStreamIsCapturing *)driver_function(is_capturing);
    int status = 0;
    return ask && ask(stream, &status) == CUDA_OK && status != 0;
}

/* The driver's functions for a kind of stream. */
struct stream_functions {
    enum entry release, is_capturing;
};

static const struct stream_functions legacy = {ENTRY_cuMemFreeAsync, ENTRY_cuStreamIsCapturing};
static const struct stream_functions per_thread = {ENTRY_cuMemFreeAsync_ptsz, ENTRY_cuStreamIsCapturing_ptsz};

/* -1 without a current context. */
static int current_device(void)
{
    int device;
    return driver_has(cuCtxGetDevice) && ASK(cuCtxGetDevice)(&device) == CUDA_OK ? device : -1;
}

static int from_pool(void *pool, u64 *pointer, size_t bytes, void *stream, allocator *allocate,
                     const struct stream_functions *functions)
{
    int device = current_device(), card = device < 0 ? NO_CARD : account_card(device), verdict;
    bool capturing = captures(stream, functions->is_capturing);
    pthread_mutex_lock(&lock);
    struct store *store = store_of(pool, device, card);
    if (!store)
        verdict = account_refused(card);
    else if (store->card == NO_CARD)
        verdict = allocate(pointer, bytes, pool, stream);
    else if (capturing)
        verdict = into_graph(store, pointer, bytes, stream, allocate);
    else
        verdict = from_store(store, pointer, bytes, stream, allocate,
                             (liberator *)driver_function(functions->release));
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* A GPU may have no pools, as a virtual one. */
static int current_pool(void **pool)
{
    int device, verdict = driver_has(cuCtxGetDevice) ? ASK(cuCtxGetDevice)(&device) : CUDA_SYMBOL_NOT_FOUND;
    if (verdict != CUDA_OK)
        return verdict;
    DRIVER(cuDeviceGetMemPool);
    return driver(pool, device);
}

/* `shape` is the function of the driver for the current pool, with the parameters of the one for a named pool. */
#define FROM_CURRENT(name, shape, functions)                                            \
    static int shape(u64 *pointer, size_t bytes, void *pool, void *stream)              \
    {                                                                                   \
        (void)pool;                                                                     \
        DRIVER(name);                                                                   \
        return driver(pointer, bytes, stream);                                          \
    }                                                                                   \
    API int name(u64 *pointer, size_t bytes, void *stream)                              \
    {                                                                                   \
        void *pool;                                                                     \
        int verdict = current_pool(&pool);                                              \
        return verdict ? verdict : from_pool(pool, pointer, bytes, stream, shape, functions); \
    }

FROM_CURRENT(cuMemAllocAsync, allocate_async, &legacy)
FROM_CURRENT(cuMemAllocAsync_ptsz, allocate_async_ptsz, &per_thread)

API int cuMemAllocFromPoolAsync(u64 *pointer, size_t bytes, void *pool, void *stream)
{
    DRIVER(cuMemAllocFromPoolAsync);
    return from_pool(pool, pointer, bytes, stream, driver, &legacy);
}

API int cuMemAllocFromPoolAsync_ptsz(u64 *pointer, size_t bytes, void *pool, void *stream)
{
    DRIVER(cuMemAllocFromPoolAsync_ptsz);
    return from_pool(pool, pointer, bytes, stream, driver, &per_thread);
}

/* Linear memory may be freed this way too. */
#define FREE_ASYNC(name)                                      \
    API int name(u64 pointer, void *stream)                   \
    {                                                         \
        DRIVER(name);                                         \
        struct record record;                                 \
        int known = records_take(LINEAR, pointer, &record);   \
        int verdict = drop(driver(pointer, stream), known, record); \
        pools_update();                                         \
        return verdict;                                       \
    }

FREE_ASYNC(cuMemFreeAsync)
FREE_ASYNC(cuMemFreeAsync_ptsz)

/* Remembers where the memory of a pool is. That of a managed pool without a device may be on any GPU: it is charged
   on the GPU of the context of its first request. */
static void learn(void *pool, u32 type, const struct location *location)
{
    int device = device_of(location);
    pthread_mutex_lock(&lock);
    if (device >= 0)
        store_of(pool, device, account_card(device));
    else if (type != MANAGED_MEMORY && !known_store(pool, device))
        new_store(pool, device, NO_CARD);
    pthread_mutex_unlock(&lock);
}

API int cuMemPoolCreate(void **pool, const struct pool_props *props)
{
    DRIVER(cuMemPoolCreate);
    int verdict = driver(pool, props);
    if (verdict == CUDA_OK && pool && props)
        learn(*pool, props->type, &props->location);
    return verdict;
}

/* Pools that the driver has created. */
#define POOL_OF_LOCATION(name)                                          \
    API int name(void **pool, struct location *location, u32 type)      \
    {                                                                   \
        DRIVER(name);                                                   \
        int verdict = driver(pool, location, type);                     \
        if (verdict == CUDA_OK && pool && location)                     \
            learn(*pool, type, location);                               \
        return verdict;                                                 \
    }

POOL_OF_LOCATION(cuMemGetDefaultMemPool)
POOL_OF_LOCATION(cuMemGetMemPool)

#define POOL_OF_DEVICE(name)                                                            \
    API int name(void **pool, int device)                                               \
    {                                                                                   \
        DRIVER(name);                                                                   \
        int verdict = driver(pool, device);                                             \
        if (verdict == CUDA_OK && pool)                                                 \
            learn(*pool, 0, &(struct location){LOCATION_DEVICE, device});               \
        return verdict;                                                                 \
    }

POOL_OF_DEVICE(cuDeviceGetDefaultMemPool)
POOL_OF_DEVICE(cuDeviceGetMemPool)

/* Memory of the pool that is still in use stays charged: the driver no longer reports when it is freed. */
API int cuMemPoolDestroy(void *pool)
{
    DRIVER(cuMemPoolDestroy);
    pthread_mutex_lock(&lock);
    u64 used = attribute(pool, POOL_USED_NOW, UINT64_MAX);
    int verdict = driver(pool);
    for (int i = 0; verdict == CUDA_OK && i < store_count; i++)
        if (stores[i].pool == pool) {
            account_release(stores[i].card, stores[i].charged > used ? stores[i].charged - used : 0);
            stores[i] = stores[--store_count];
        }
    pthread_mutex_unlock(&lock);
    return verdict;
}

API int cuMemPoolTrimTo(void *pool, size_t keep_bytes)
{
    DRIVER(cuMemPoolTrimTo);
    int verdict = driver(pool, keep_bytes);
    pools_update();
    return verdict;
}
