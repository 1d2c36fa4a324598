/* Linear, pitched and managed memory. Managed memory is counted in full, though the driver can move it to the host. */
#include "wrappers.h"

enum { ROW = 512 }; /* the pitch is a multiple of this on all known GPUs */

static const u64 TOO_LARGE = ~0ull;

static u64 rows(u64 pitch, u64 height)
{
    u64 bytes;
    return __builtin_mul_overflow(pitch, height, &bytes) ? TOO_LARGE : bytes;
}

static u64 estimated_rows(u64 width, u64 height)
{
    return width > TOO_LARGE - ROW ? TOO_LARGE : rows((width + ROW - 1) / ROW * ROW, height);
}

/* Programs for CUDA before 3.2 have addresses and sizes of 32 bits. */
#define ALLOCATE(name, address, size)                                                  \
    API int name(address *pointer, size bytes)                                         \
    {                                                                                  \
        DRIVER(name);                                                                  \
        int card = account_current_card();                                             \
        if (!reserve(card, bytes))                                                     \
            return account_refused(card, bytes);                                       \
        int verdict = driver(pointer, bytes);                                          \
        return keep(verdict, LINEAR, verdict ? 0 : OUTPUT(pointer), card, bytes);      \
    }

ALLOCATE(cuMemAlloc, u32, u32)
ALLOCATE(cuMemAlloc_v2, u64, size_t)

API int cuMemAllocManaged(u64 *pointer, size_t bytes, u32 flags)
{
    DRIVER(cuMemAllocManaged);
    int card = account_current_card();
    if (!reserve(card, bytes))
        return account_refused(card, bytes);
    int verdict = driver(pointer, bytes, flags);
    return keep_managed(verdict, verdict ? 0 : OUTPUT(pointer), card, bytes);
}

/* Replaces the estimate by the size that follows from the pitch of the driver. */
static int keep_rows(int verdict, u64 pointer, int card, u64 estimated, u64 bytes)
{
    if (verdict == CUDA_OK && bytes > estimated)
        account_force(card, bytes - estimated);
    if (verdict == CUDA_OK && bytes < estimated)
        account_release(card, estimated - bytes);
    return keep(verdict, LINEAR, pointer, card, verdict ? estimated : bytes);
}

#define ALLOCATE_ROWS(name, address, size)                                                     \
    API int name(address *pointer, size *pitch, size width, size height, u32 element)          \
    {                                                                                          \
        DRIVER(name);                                                                          \
        int card = account_current_card();                                                     \
        u64 estimated = estimated_rows(width, height);                                         \
        if (!reserve(card, estimated))                                                         \
            return account_refused(card, estimated);                                           \
        int verdict = driver(pointer, pitch, width, height, element);                          \
        u64 bytes = verdict ? 0 : rows(OUTPUT(pitch), height);                                 \
        return keep_rows(verdict, verdict ? 0 : OUTPUT(pointer), card, estimated, bytes);      \
    }

ALLOCATE_ROWS(cuMemAllocPitch, u32, u32)
ALLOCATE_ROWS(cuMemAllocPitch_v2, u64, size_t)

API int cuMemFree(u32 pointer)
{
    DRIVER(cuMemFree);
    struct record record;
    int known = records_take(LINEAR, pointer, &record);
    return drop(driver(pointer), known, record);
}

/* Memory without a record may be from a pool. */
API int cuMemFree_v2(u64 pointer)
{
    DRIVER(cuMemFree_v2);
    struct record record;
    int known = records_take(LINEAR, pointer, &record);
    int verdict = drop(driver(pointer), known, record);
    if (!known)
        pools_update();
    return verdict;
}
