/* The memory of pools and graphs. They retain unused memory, so they are charged for the memory that the driver
   reports as reserved, not for each pointer. A request is reserved before the call and corrected after it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>

#include "wrappers.h"

enum { MAX_STORES = 256 }; /* of a GPU */

/* A pool, or all graphs of a device. What is charged is at least `reserved`, its reserved memory at the last update, and
   at most that and `pending`: the requests that the driver has not answered yet, each of which may already have enlarged
   the pool or may still do so. `claimed` is the part of its unused memory that requests without a charge expect. */
struct store {
    void *pool; /* NULL: graphs of `device` */
    int device, card;
    u64 reserved, charged, pending, claimed;
};

static struct store stores[MAX_CARDS][MAX_STORES];
static int store_count[MAX_CARDS];
/* Read without a lock: bits of the GPUs that have stores, and whether a store is one of graphs. */
static u32 cards_with_stores;
static bool has_graphs;

/* One for each GPU. Not held while the driver allocates: near the end of the memory that may wait for the GPU, and so for
   work that another thread starts after another call. Recursive, because the driver may call the program back from
   a request (CUPTI, cuLogsRegisterCallback), which may ask for the memory that is free. */
#define UNLOCKED PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t locks[MAX_CARDS] = {[0 ... MAX_CARDS - 1] = UNLOCKED};

static void lock_card(int card) { pthread_mutex_lock(&locks[card]); }

/* Locks a GPU that has stores, if no other thread has locked it. */
static bool try_card(int card)
{
    bool any = __atomic_load_n(&cards_with_stores, __ATOMIC_RELAXED) & 1u << card;
    return any && pthread_mutex_trylock(&locks[card]) == 0;
}

static void unlock_card(int card) { pthread_mutex_unlock(&locks[card]); }

void pools_forget(void)
{
    for (int card = 0; card < MAX_CARDS; card++) {
        locks[card] = (pthread_mutex_t)UNLOCKED;
        store_count[card] = 0;
    }
    cards_with_stores = 0;
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

static u64 reserved_now(struct store *store)
{
    store->reserved = store->pool ? attribute(store->pool, POOL_RESERVED_NOW, store->reserved)
                                  : graph_attribute(store->device, GRAPH_RESERVED_NOW, store->reserved);
    return store->reserved;
}

static u64 used_now(const struct store *store)
{
    if (store->pool)
        return attribute(store->pool, POOL_USED_NOW, store->reserved);
    return graph_attribute(store->device, GRAPH_USED_NOW, store->reserved);
}

/* What pending requests may enlarge a store to, which has reserved `now`. What one has claimed may be used by one with a
   charge, or released; then it enlarges the pool instead. */
static u64 most_reserved(const struct store *store, u64 now)
{
    u64 most = now + store->pending;
    u64 displaced = store->claimed ? used_now(store) + store->pending + store->claimed : 0;
    return most > displaced ? most : displaced;
}

/* Updates the charge to the reserved memory, and what pending requests may still add. */
static void settle(struct store *store)
{
    u64 least = reserved_now(store), most = most_reserved(store, least);
    if (store->charged < least) {
        account_force(store->card, least - store->charged);
        store->charged = least;
    } else if (store->charged > most) {
        account_release(store->card, store->charged - most);
        store->charged = most;
    }
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
    settle(store);
}

static void each_of(int card, bool graphs, void (*act)(struct store *store))
{
    for (int i = 0; i < store_count[card]; i++)
        if ((stores[card][i].pool == NULL) == graphs)
            act(&stores[card][i]);
}

static void trim_pools(int card) { each_of(card, false, trim); }

static void trim_all(int card)
{
    trim_pools(card);
    each_of(card, true, trim);
}

/* The store of a pool, or of the graphs of a device; their GPU is locked. */
static struct store *known_store(void *pool, int device, int card)
{
    for (int i = 0; i < store_count[card]; i++)
        if (stores[card][i].pool == pool && (pool || stores[card][i].device == device))
            return &stores[card][i];
    return NULL;
}

/* The same, which begins with this call if it is new. NULL if the table is full: the request is refused. */
static struct store *store_of(void *pool, int device, int card)
{
    struct store *known = known_store(pool, device, card);
    if (known || store_count[card] == MAX_STORES)
        return known;
    __atomic_fetch_or(&cards_with_stores, 1u << card, __ATOMIC_RELAXED);
    if (!pool)
        __atomic_store_n(&has_graphs, true, __ATOMIC_RELAXED);
    known = &stores[card][store_count[card]++];
    *known = (struct store){.pool = pool, .device = device, .card = card};
    return known;
}

/* A store with pending requests is updated after them: a query could wait for them too. */
static void settle_idle(struct store *store)
{
    if (!store->pending && !store->claimed)
        settle(store);
}

/* Waits for no request: a GPU that is locked is updated by the thread that has locked it. */
void pools_update(void)
{
    for (int card = 0; card < MAX_CARDS; card++)
        if (try_card(card)) {
            each_of(card, false, settle_idle);
            each_of(card, true, settle_idle);
            unlock_card(card);
        }
}

void pools_trim(int card)
{
    if (card == NO_CARD)
        return;
    lock_card(card);
    trim_all(card);
    unlock_card(card);
}

/* Launches that the library does not see take memory too, so it is read before each request. */
static void settle_graphs(int card) { each_of(card, true, settle); }

void pools_settle_graphs(int card)
{
    if (!__atomic_load_n(&has_graphs, __ATOMIC_RELAXED) || card == NO_CARD)
        return;
    lock_card(card);
    settle_graphs(card);
    unlock_card(card);
}

/* A graph may take more than is free: then the pools release what they do not use. */
static void charge_launched(struct store *graphs)
{
    u64 before = graphs->charged;
    settle(graphs);
    if (graphs->charged > before && !account_reserve(graphs->card, 0))
        trim_pools(graphs->card);
}

/* The GPUs of launched graphs are unknown. One that is locked is charged at its next request. */
void pools_charge_graphs(void)
{
    if (!__atomic_load_n(&has_graphs, __ATOMIC_RELAXED))
        return;
    for (int card = 0; card < MAX_CARDS; card++)
        if (try_card(card)) {
            each_of(card, true, charge_launched);
            unlock_card(card);
        }
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
    if (card == NO_CARD)
        return false;
    lock_card(card);
    struct store *store = store_of(NULL, device, card);
    bool fits = store && reserve_or_trim(card, bytes);
    if (fits) {
        store->charged += bytes;
        settle(store);
    }
    unlock_card(card);
    return fits;
}

/* The unused memory of a store, without what is claimed; some of it may still belong to pending operations of a
   stream. */
static u64 spare(struct store *store)
{
    u64 taken = used_now(store) + store->claimed, now = reserved_now(store);
    return now > taken ? now - taken : 0;
}

static u64 spare_of_all(int card)
{
    u64 sum = 0;
    for (int i = 0; i < store_count[card]; i++)
        sum += spare(&stores[card][i]);
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
static bool growth_fits(struct store *store)
{
    u64 now = reserved_now(store);
    if (now <= store->charged)
        return true;
    if (!account_reserve(store->card, now - store->charged))
        return false;
    store->charged = now;
    return true;
}

typedef int allocator(u64 *pointer, size_t bytes, void *pool, void *stream);
typedef int liberator(u64 pointer, void *stream);

/* A request of memory from a pool, with the functions of the driver for it. `charged`: its bytes are charged before the
   driver has answered; else they are claimed of the unused memory of the pool. */
struct request {
    void *pool, *stream;
    u64 *pointer;
    size_t bytes;
    int device, card;
    allocator *allocate;
    liberator *release;
    bool charged;
};

static int call(const struct request *asked)
{
    return asked->allocate(asked->pointer, asked->bytes, asked->pool, asked->stream);
}

/* While a pool has enough unused memory, nothing is released: close to the limit, each request would take as long as
   one of the GPU. */
static bool admitted(struct store *store, struct request *asked)
{
    settle(store);
    asked->charged = reserve_now(store->card, asked->bytes);
    if (!asked->charged && spare(store) < asked->bytes) {
        trim_all(store->card);
        asked->charged = account_reserve_again(store->card, asked->bytes);
        if (!asked->charged)
            return false;
    }
    if (asked->charged) {
        store->charged += asked->bytes;
        store->pending += asked->bytes;
    } else {
        store->claimed += asked->bytes;
    }
    return true;
}

static bool admit(struct request *asked)
{
    lock_card(asked->card);
    struct store *store = store_of(asked->pool, asked->device, asked->card);
    bool good = store && admitted(store, asked);
    unlock_card(asked->card);
    return good;
}

/* Memory of a claim that the driver could not use, as when it is in pieces, or used with a larger pool than fits. */
static bool claim_failed(struct store *store, int verdict)
{
    return verdict == CUDA_OUT_OF_MEMORY || (verdict == CUDA_OK && !growth_fits(store));
}

/* Releases all unused memory, to make room for a larger pool. Whether the driver must be asked again. */
static bool make_room(const struct request *asked, int verdict)
{
    if (asked->charged)
        return false;
    lock_card(asked->card);
    struct store *store = known_store(asked->pool, asked->device, asked->card);
    bool failed = store && claim_failed(store, verdict);
    for (int i = 0; failed && i < store_count[asked->card]; i++)
        if (&stores[asked->card][i] != store)
            trim(&stores[asked->card][i]);
    if (failed)
        release_unused(store);
    unlock_card(asked->card);
    return failed && verdict == CUDA_OUT_OF_MEMORY;
}

/* After the answer of the driver. A pool that was destroyed meanwhile no longer tells what it has reserved. */
static bool finished(const struct request *asked, int verdict)
{
    lock_card(asked->card);
    struct store *store = known_store(asked->pool, asked->device, asked->card);
    bool good = true;
    if (store) {
        *(asked->charged ? &store->pending : &store->claimed) -= asked->bytes;
        good = verdict != CUDA_OK || growth_fits(store);
        if (!good && asked->release)
            asked->release(OUTPUT(asked->pointer), asked->stream);
        settle(store);
        if (!good)
            trim(store);
    } else if (asked->charged && verdict != CUDA_OK) {
        account_release(asked->card, asked->bytes);
    } else if (!asked->charged && verdict == CUDA_OK) {
        account_force(asked->card, asked->bytes);
    }
    unlock_card(asked->card);
    return good;
}

static int from_store(struct request *asked)
{
    if (!admit(asked))
        return account_refused(asked->card, asked->bytes);
    int verdict = call(asked);
    if (make_room(asked, verdict))
        verdict = call(asked);
    return finished(asked, verdict) ? verdict : account_refused(asked->card, asked->bytes);
}

/* On a stream that captures, a request adds a node to the graph, which does not use the memory of the pool, and needs
   memory when it is launched. Until then the pools keep theirs. */
static int into_graph(const struct request *asked)
{
    lock_card(asked->card);
    bool fits = store_of(NULL, asked->device, asked->card) && fits_if_trimmed(asked->card, asked->bytes);
    unlock_card(asked->card);
    return fits ? call(asked) : account_refused(asked->card, asked->bytes);
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

/* Where a pool is: on the GPU of `card` and `other`, its CUDA device; or with a `count` in memory of the host, which is not
   limited. A pool without a GPU is on that of its first request. */
static struct record home_of(void *pool, int device)
{
    struct record home = {.kind = POOL, .card = NO_CARD, .name = (u64)(uintptr_t)pool, .other = (u64)device};
    if (records_get(POOL, home.name, &home) || device < 0)
        return home;
    home.card = account_card(device);
    if (home.card != NO_CARD)
        records_put(home);
    return home;
}

static int from_pool(void *pool, u64 *pointer, size_t bytes, void *stream, allocator *allocate,
                     const struct stream_functions *functions)
{
    struct record home = home_of(pool, current_device());
    struct request asked = {.pool = pool,
                            .stream = stream,
                            .pointer = pointer,
                            .bytes = bytes,
                            .device = (int)home.other,
                            .card = home.card,
                            .allocate = allocate,
                            .release = (liberator *)driver_function(functions->release)};
    if (home.count || !pool)
        return call(&asked); /* the driver rejects no pool */
    if (home.card == NO_CARD)
        return account_refused(NO_CARD, bytes);
    return captures(stream, functions->is_capturing) ? into_graph(&asked) : from_store(&asked);
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
    API int name(u64 *pointer, size_t bytes, void *stream);                             \
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
    struct record home = {.kind = POOL, .card = NO_CARD, .name = (u64)(uintptr_t)pool, .count = 1};
    int device = device_of(location);
    if (device >= 0)
        home_of(pool, device);
    else if (type != MANAGED_MEMORY && !records_get(POOL, home.name, &home))
        records_put(home);
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

static void end_store(struct store *store, u64 used)
{
    u64 own = store->charged - store->pending;
    account_release(store->card, own > used ? own - used : 0);
    *store = stores[store->card][--store_count[store->card]];
}

/* Memory of the pool that is still in use stays charged: the driver no longer reports when it is freed. */
static int destroy(void *pool, int card, __typeof__(cuMemPoolDestroy) *driver)
{
    lock_card(card);
    u64 used = attribute(pool, POOL_USED_NOW, UINT64_MAX);
    struct store *store = known_store(pool, -1, card);
    int verdict = driver(pool);
    if (verdict == CUDA_OK && store)
        end_store(store, used);
    unlock_card(card);
    return verdict;
}

API int cuMemPoolDestroy(void *pool)
{
    DRIVER(cuMemPoolDestroy);
    struct record home = {.card = NO_CARD};
    bool known = records_take(POOL, (u64)(uintptr_t)pool, &home); /* before the driver gives its handle to another one */
    int verdict = home.card == NO_CARD ? driver(pool) : destroy(pool, home.card, driver);
    if (known && verdict != CUDA_OK)
        records_put(home);
    return verdict;
}

API int cuMemPoolTrimTo(void *pool, size_t keep_bytes)
{
    DRIVER(cuMemPoolTrimTo);
    int verdict = driver(pool, keep_bytes);
    pools_update();
    return verdict;
}
