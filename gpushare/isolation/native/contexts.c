/* CUDA contexts. A context uses memory before anything is allocated in it. It is charged with the estimate in
   the limit file until the node agent has measured it. A process has one primary context for each device,
   however often it retains it. */
#define _GNU_SOURCE
#include <pthread.h>

#include "wrappers.h"

/* Held from before a call of the driver until it is recorded: the next context may have the address of one that was
   just destroyed. Recursive, because the driver may call the program back, see pools.c. */
#define UNLOCKED PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t lock = UNLOCKED;

void contexts_forget(void) { lock = (pthread_mutex_t)UNLOCKED; }

/* If the context does not fit, the pools release unused memory first. */
static bool enter(int card)
{
    pools_settle_graphs(card);
    if (account_enter_context(card))
        return true;
    pools_trim(card);
    return account_enter_context_again(card);
}

static int began(int verdict, struct record record)
{
    if (verdict != CUDA_OK)
        account_leave_context(record.card);
    else
        records_put(record);
    return verdict;
}

/* Releases what is charged for a context that has ended. */
static void ended(u64 context)
{
    struct record record;
    end_context(context);
    if (records_take(CONTEXT, context, &record))
        account_leave_context(record.card);
}

/* A context that still has the address ended without a call of this library. */
static int created(int verdict, void *const *context, int card)
{
    u64 name = verdict ? 0 : OUTPUT(context);
    if (name)
        ended(name);
    return began(verdict, (struct record){.kind = CONTEXT, .name = name, .card = card});
}

#define CREATE(name, ...)                                                                 \
    DRIVER(name);                                                                         \
    int card = account_card(device);                                                      \
    pthread_mutex_lock(&lock);                                                            \
    int verdict = enter(card) ? created(driver(context, __VA_ARGS__), context, card)      \
                              : account_context_refused(card, device);                         \
    pthread_mutex_unlock(&lock);                                                          \
    return verdict

API int cuCtxCreate(void **context, u32 flags, int device) { CREATE(cuCtxCreate, flags, device); }

API int cuCtxCreate_v2(void **context, u32 flags, int device) { CREATE(cuCtxCreate_v2, flags, device); }

API int cuCtxCreate_v3(void **context, void *affinities, int count, u32 flags, int device)
{
    CREATE(cuCtxCreate_v3, affinities, count, flags, device);
}

API int cuCtxCreate_v4(void **context, void *params, u32 flags, int device)
{
    CREATE(cuCtxCreate_v4, params, flags, device);
}

API int cuGLCtxCreate(void **context, u32 flags, int device) { CREATE(cuGLCtxCreate, flags, device); }

API int cuGLCtxCreate_v2(void **context, u32 flags, int device) { CREATE(cuGLCtxCreate_v2, flags, device); }

API int cuVDPAUCtxCreate(void **context, u32 flags, int device, u32 vdpau, void *lookup)
{
    CREATE(cuVDPAUCtxCreate, flags, device, vdpau, lookup);
}

API int cuVDPAUCtxCreate_v2(void **context, u32 flags, int device, u32 vdpau, void *lookup)
{
    CREATE(cuVDPAUCtxCreate_v2, flags, device, vdpau, lookup);
}

static int destroyed(int verdict, void *context)
{
    if (verdict == CUDA_OK)
        ended((u64)(uintptr_t)context);
    return verdict;
}

#define DESTROY(name)                                       \
    API int name(void *context)                             \
    {                                                       \
        DRIVER(name);                                       \
        pthread_mutex_lock(&lock);                          \
        int verdict = destroyed(driver(context), context);  \
        pthread_mutex_unlock(&lock);                        \
        return verdict;                                     \
    }

DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* It needs the current context, and destroys it unless it was attached. Then it is no longer current. */
API int cuCtxDetach(void *context)
{
    DRIVER(cuCtxDetach);
    void *current = context;
    pthread_mutex_lock(&lock);
    int verdict = driver(context);
    /* The driver does not tell whether it destroyed the context. */
    if (verdict == CUDA_OK && driver_has(cuCtxGetCurrent))
        ASK(cuCtxGetCurrent)(&current);
    if (current != context)
        ended((u64)(uintptr_t)context);
    pthread_mutex_unlock(&lock);
    return verdict;
}

static int retain_first(void **context, int device, __typeof__(cuDevicePrimaryCtxRetain) *driver)
{
    int card = account_card(device);
    if (!enter(card))
        return account_context_refused(card, device);
    int verdict = driver(context, device);
    struct record before; /* if the driver called the program back, which retained it */
    if (records_take(PRIMARY, (u64)device, &before)) {
        account_leave_context(card);
        before.count += verdict == CUDA_OK;
        records_put(before);
        return verdict;
    }
    return began(verdict, (struct record){.kind = PRIMARY,
                                          .name = (u64)device,
                                          .card = card,
                                          .count = 1,
                                          .other = verdict ? 0 : OUTPUT(context)});
}

static int retain_again(void **context, int device, __typeof__(cuDevicePrimaryCtxRetain) *driver)
{
    struct record record;
    int verdict = driver(context, device);
    if (verdict == CUDA_OK && records_take(PRIMARY, (u64)device, &record)) {
        record.count++;
        records_put(record);
    }
    return verdict;
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    DRIVER(cuDevicePrimaryCtxRetain);
    struct record record;
    pthread_mutex_lock(&lock);
    int verdict = records_get(PRIMARY, (u64)device, &record) ? retain_again(context, device, driver)
                                                             : retain_first(context, device, driver);
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* `all`: a reset destroys the context, however often it was retained. */
static void left(int device, int all)
{
    struct record record;
    if (!records_take(PRIMARY, (u64)device, &record))
        return;
    if (!all && --record.count) {
        records_put(record);
        return;
    }
    end_context(record.other);
    account_leave_context(record.card);
}

#define LEAVE(name, all)                \
    API int name(int device)            \
    {                                   \
        DRIVER(name);                   \
        pthread_mutex_lock(&lock);      \
        int verdict = driver(device);   \
        if (verdict == CUDA_OK)         \
            left(device, all);          \
        pthread_mutex_unlock(&lock);    \
        return verdict;                 \
    }

LEAVE(cuDevicePrimaryCtxRelease, 0)
LEAVE(cuDevicePrimaryCtxRelease_v2, 0)
LEAVE(cuDevicePrimaryCtxReset, 1)
LEAVE(cuDevicePrimaryCtxReset_v2, 1)
