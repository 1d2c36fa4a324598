/* Size and free memory of a GPU: the limit of the container, and its unused part. */
#include "wrappers.h"

static u32 clamped(size_t bytes) { return bytes > UINT32_MAX ? UINT32_MAX : (u32)bytes; }

static u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

struct sizes {
    u64 left, total;
};

/* What the container has of a GPU. If the usage is unknown, nothing is free. */
static struct sizes sizes_of(int card)
{
    u64 used, limit = account_limit(card);
    pools_update();
    if (!account_used(card, &used))
        used = limit;
    return (struct sizes){limit > used ? limit - used : 0, limit};
}

API int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    DRIVER(cuMemGetInfo_v2);
    int verdict = driver(left, total);
    if (verdict != CUDA_OK)
        return verdict;
    struct sizes own = sizes_of(account_current_card());
    if (left)
        *left = smaller(*left, own.left);
    if (total)
        *total = own.total;
    return verdict;
}

API int cuMemGetInfo(u32 *left, u32 *total)
{
    DRIVER(cuMemGetInfo);
    int verdict = driver(left, total);
    if (verdict != CUDA_OK)
        return verdict;
    struct sizes own = sizes_of(account_current_card());
    if (left)
        *left = clamped(smaller(*left, own.left));
    if (total)
        *total = clamped(own.total);
    return verdict;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    DRIVER(cuDeviceTotalMem_v2);
    int verdict = driver(bytes, device);
    if (verdict == CUDA_OK && bytes)
        *bytes = account_limit(account_card(device));
    return verdict;
}

API int cuDeviceTotalMem(u32 *bytes, int device)
{
    DRIVER(cuDeviceTotalMem);
    int verdict = driver(bytes, device);
    if (verdict == CUDA_OK && bytes)
        *bytes = clamped(account_limit(account_card(device)));
    return verdict;
}
