/* Memory pools and graphs. They retain unused memory, so they are charged for the memory that the driver reports
   as reserved, not for each pointer. A request is reserved before the call and corrected after it. */
#include <pthread.h>
#include <stdbool.h>

#include "wrappers.h"

enum { MAX_STORES = 256 };

/* A pool, or all graphs of a device. `charged` is its reserved memory at the last update. */
struct store {
    void *pool; /* NULL: graphs of `device` */
    int device, card;
    u64 charged;
};

static struct store stores[MAX_STORES];
static int store_count;
static bool has_graphs; /* whether a store is one of graphs; read without the lock */
/* One request at a time, so that the growth of a pool is due to the request. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void pools_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    store_count = 0;
    has_graphs = false;
}

static u64 attribute(void *pool, int which)
{
    u64 value = 0;
    if (driver_has(cuMemPoolGetAttribute))
        ASK(cuMemPoolGetAttribute)(pool, which, &value);
    return value;
}

static u64 reserved_now(const struct store *store)
{
    u64 value = 0;
    if (store->pool)
        return attribute(store->pool, POOL_RESERVED_NOW);
    if (driver_has(cuDeviceGetGraphMemAttribute))
        ASK(cuDeviceGetGraphMemAttribute)(store->device, GRAPH_RESERVED_NOW, &value);
    return value;
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

static void trim(struct store *store)
{
    __typeof__(cuMemPoolTrimTo) *pool_trim = (__typeof__(cuMemPoolTrimTo) *)driver_function(ENTRY_cuMemPoolTrimTo);
    __typeof__(cuDeviceGraphMemTrim) *graph_trim =
        (__typeof__(cuDeviceGraphMemTrim) *)driver_function(ENTRY_cuDeviceGraphMemTrim);
    if (store->pool && pool_trim)
        pool_trim(store->pool, 0);
    else if (!store->pool && graph_trim)
        graph_trim(store->device);
    settle(store, 0);
}

static void trim_all(int card)
{
    for (int i = 0; i < store_count; i++)
        if (stores[i].card == card)
            trim(&stores[i]);
}

/* NULL if the GPU is unknown, as without a current context, or if the table is full: the request is refused. */
static struct store *store_of(void *pool, int device, int card)
{
    for (int i = 0; i < store_count; i++)
        if (stores[i].pool == pool && (pool || stores[i].device == device))
            return &stores[i];
    if (card == NO_CARD || store_count == MAX_STORES)
        return NULL;
    stores[store_count] = (struct store){pool, device, card, 0};
    if (!pool)
        __atomic_store_n(&has_graphs, true, __ATOMIC_RELAXED);
    return &stores[store_count++];
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

/* No call of the library tells when a graph takes memory, so it is read before each request. */
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

static bool reserve_or_trim(int card, u64 bytes)
{
    settle_graphs(card);
    if (account_reserve(card, bytes))
        return true;
    trim_all(card);
    return account_reserve(card, bytes);
}

/* The unused memory of a pool; some of it may still belong to pending operations of a stream. */
static u64 spare(const struct store *store)
{
    u64 used = attribute(store->pool, POOL_USED_NOW), now = reserved_now(store);
    return now > used ? now - used : 0;
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

static int from_store(struct store *store, u64 *pointer, size_t bytes, void *stream, allocator *allocate,
                      liberator *release)
{
    settle(store, 0);
    bool reserved = reserve_or_trim(store->card, bytes);
    if (!reserved && spare(store) < bytes)
        return account_refused(store->card);
    int verdict = allocate(pointer, bytes, store->pool, stream);
    bool good = verdict != CUDA_OK || growth_fits(store, reserved ? bytes : 0);
    if (!good && release)
        release(*pointer, stream);
    settle(store, reserved ? bytes : 0);
    if (!good)
        trim(store);
    return good ? verdict : account_refused(store->card);
}

static int from_pool(void *pool, u64 *pointer, size_t bytes, void *stream, allocator *allocate, liberator *release)
{
    int card = account_current_card();
    pthread_mutex_lock(&lock);
    struct store *store = store_of(pool, 0, card);
    int verdict = store ? from_store(store, pointer, bytes, stream, allocate, release) : account_refused(card);
    pthread_mutex_unlock(&lock);
    return verdict;
}

static void *current_pool(void)
{
    int device;
    void *pool = NULL;
    if (driver_has(cuCtxGetDevice) && driver_has(cuDeviceGetMemPool) && ASK(cuCtxGetDevice)(&device) == CUDA_OK)
        ASK(cuDeviceGetMemPool)(&pool, device);
    return pool;
}

#define LIBERATOR(name) ((liberator *)driver_function(ENTRY_##name))

/* `shape` is the function of the driver for the current pool, with the parameters of the one for a named pool. */
#define FROM_CURRENT(name, shape, free_name)                                            \
    static int shape(u64 *pointer, size_t bytes, void *pool, void *stream)              \
    {                                                                                   \
        (void)pool;                                                                     \
        DRIVER(name);                                                                   \
        return driver(pointer, bytes, stream);                                          \
    }                                                                                   \
    API int name(u64 *pointer, size_t bytes, void *stream)                              \
    {                                                                                   \
        void *pool = current_pool();                                                    \
        if (!pool)                                                                      \
            return account_refused(account_current_card());                             \
        return from_pool(pool, pointer, bytes, stream, shape, LIBERATOR(free_name));    \
    }

FROM_CURRENT(cuMemAllocAsync, allocate_async, cuMemFreeAsync)
FROM_CURRENT(cuMemAllocAsync_ptsz, allocate_async_ptsz, cuMemFreeAsync_ptsz)

API int cuMemAllocFromPoolAsync(u64 *pointer, size_t bytes, void *pool, void *stream)
{
    DRIVER(cuMemAllocFromPoolAsync);
    return from_pool(pool, pointer, bytes, stream, driver, LIBERATOR(cuMemFreeAsync));
}

API int cuMemAllocFromPoolAsync_ptsz(u64 *pointer, size_t bytes, void *pool, void *stream)
{
    DRIVER(cuMemAllocFromPoolAsync_ptsz);
    return from_pool(pool, pointer, bytes, stream, driver, LIBERATOR(cuMemFreeAsync_ptsz));
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

API int cuMemPoolCreate(void **pool, const struct pool_props *props)
{
    DRIVER(cuMemPoolCreate);
    int verdict = driver(pool, props);
    if (verdict != CUDA_OK || props->location.type != LOCATION_DEVICE)
        return verdict;
    pthread_mutex_lock(&lock);
    store_of(*pool, 0, account_card(props->location.id));
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* Memory of the pool that is still in use stays charged: the driver no longer reports when it is freed. */
API int cuMemPoolDestroy(void *pool)
{
    DRIVER(cuMemPoolDestroy);
    pthread_mutex_lock(&lock);
    u64 used = attribute(pool, POOL_USED_NOW);
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

API int cuDeviceGraphMemTrim(int device)
{
    DRIVER(cuDeviceGraphMemTrim);
    int verdict = driver(device);
    pools_update();
    return verdict;
}

/* A graph uses memory from its launch on, when nothing can be refused. So a node that does not fit is refused
   here, and the memory of graphs is charged before the next request, or at the next update. */
API int cuGraphAddMemAllocNode(void **node, void *graph, void *const *after, size_t count,
                               struct graph_allocation *allocation)
{
    DRIVER(cuGraphAddMemAllocNode);
    if (!allocation)
        return driver(node, graph, after, count, allocation);
    int device = allocation->pool.location.id, card = account_card(device);
    pthread_mutex_lock(&lock);
    struct store *store = store_of(NULL, device, card);
    bool fits = store && reserve_or_trim(card, allocation->bytes);
    int verdict = fits ? driver(node, graph, after, count, allocation) : account_refused_on(card, device);
    if (fits)
        settle(store, allocation->bytes);
    pthread_mutex_unlock(&lock);
    return verdict;
}
