/* How large the card is and how much is left: the limit, and what the container has not used of it. */
#include "wrappers.h"

static u32 short_of(size_t bytes) { return bytes > UINT32_MAX ? UINT32_MAX : (u32)bytes; }

static u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

/* Of a card that cannot be told nothing is left. */
static void narrow(int card, u64 *left, u64 *total)
{
    u64 used, limit = account_limit(card);
    pools_look();
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
        *left = short_of(smaller(*left, left_now));
        *total = short_of(limit);
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
        *bytes = short_of(account_limit(account_card(device)));
    return verdict;
}
