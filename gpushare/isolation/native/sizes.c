/* Size and free memory of a GPU: the limit of the container, and its unused part. */
#include "wrappers.h"

static u32 clamped(size_t bytes) { return bytes > UINT32_MAX ? UINT32_MAX : (u32)bytes; }

static u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

/* If the usage is unknown, nothing is free. */
static void narrow(int card, u64 *left, u64 *total)
{
    u64 used, limit = account_limit(card);
    pools_update();
    if (!account_used(card, &used))
        used = limit;
    *left = smaller(*left, limit > used ? limit - used : 0);
    *total = limit;
}

API int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    DRIVER(cuMemGetInfo_v2);
    int verdict = driver(left, total);
    if (verdict == CUDA_OK) {
        u64 left_now = *left, limit = *total;
        narrow(account_current_card(), &left_now, &limit);
        *left = left_now;
        *total = limit;
    }
    return verdict;
}

API int cuMemGetInfo(u32 *left, u32 *total)
{
    DRIVER(cuMemGetInfo);
    int verdict = driver(left, total);
    if (verdict == CUDA_OK) {
        u64 left_now = UINT64_MAX, limit;
        narrow(account_current_card(), &left_now, &limit);
        *left = clamped(smaller(*left, left_now));
        *total = clamped(limit);
    }
    return verdict;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    DRIVER(cuDeviceTotalMem_v2);
    int verdict = driver(bytes, device);
    if (verdict == CUDA_OK)
        *bytes = account_limit(account_card(device));
    return verdict;
}

API int cuDeviceTotalMem(u32 *bytes, int device)
{
    DRIVER(cuDeviceTotalMem);
    int verdict = driver(bytes, device);
    if (verdict == CUDA_OK)
        *bytes = clamped(account_limit(account_card(device)));
    return verdict;
}
