/* Virtual memory management. Physical memory is charged until its last handle is released and its last mapping
   is gone. Programs may release a handle right after mapping it, and drivers reuse the numbers of released
   handles, so each allocation gets a unique number here.
   Imported memory is charged to the process that created it. */
#define _GNU_SOURCE
#include <pthread.h>

#include "wrappers.h"

/* `other` of a HANDLE and a MAPPING is the number of their allocation; `count` of an ALLOCATION counts both. */
#define UNLOCKED PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP /* the driver may call the program back, see pools.c */
static pthread_mutex_t lock = UNLOCKED;
static u64 last_allocation;

void vmm_forget(void) { lock = (pthread_mutex_t)UNLOCKED; }

static void add_reference(u64 allocation)
{
    struct record record;
    if (records_take(ALLOCATION, allocation, &record)) {
        record.count++;
        records_put(record);
    }
}

static void drop_reference(u64 allocation)
{
    struct record record;
    if (!records_take(ALLOCATION, allocation, &record))
        return;
    if (--record.count)
        records_put(record);
    else
        account_release(record.card, record.bytes);
}

static void add_handle(u64 handle, u64 allocation)
{
    struct record record = {.kind = HANDLE, .name = handle, .other = allocation};
    struct record before;
    if (records_take(HANDLE, handle, &before))
        record.count = before.count;
    record.count++;
    records_put(record);
    add_reference(allocation);
}

static void created(u64 handle, int card, u64 bytes)
{
    records_put((struct record){.kind = ALLOCATION, .name = ++last_allocation, .card = card, .bytes = bytes});
    add_handle(handle, last_allocation);
}

/* The lock is held from before a call of the driver until it is recorded: the driver may reuse a handle at once. */
API int cuMemCreate(u64 *handle, size_t bytes, const struct allocation_prop *prop, unsigned long long flags)
{
    DRIVER(cuMemCreate);
    int device = prop ? device_of(&prop->location) : -1;
    /* Memory of the host takes none of the GPU. */
    if (device < 0)
        return driver(handle, bytes, prop, flags);
    int card = account_card(device);
    /* Before the lock: a reservation may trim pools, which can wait for the GPU. */
    if (!reserve(card, bytes))
        return account_refused_on(card, device, bytes);
    pthread_mutex_lock(&lock);
    int verdict = driver(handle, bytes, prop, flags);
    if (verdict == CUDA_OK)
        created(OUTPUT(handle), card, bytes);
    pthread_mutex_unlock(&lock);
    if (verdict != CUDA_OK)
        account_release(card, bytes);
    return verdict;
}

static void released(u64 handle)
{
    struct record record;
    if (!records_take(HANDLE, handle, &record))
        return;
    if (--record.count)
        records_put(record);
    drop_reference(record.other);
}

API int cuMemRelease(u64 handle)
{
    DRIVER(cuMemRelease);
    pthread_mutex_lock(&lock);
    int verdict = driver(handle);
    if (verdict == CUDA_OK)
        released(handle);
    pthread_mutex_unlock(&lock);
    return verdict;
}

static void mapped(u64 pointer, u64 bytes, u64 handle)
{
    struct record record;
    if (!records_get(HANDLE, handle, &record))
        return;
    records_put((struct record){.kind = MAPPING, .name = pointer, .bytes = bytes, .other = record.other});
    add_reference(record.other);
}

API int cuMemMap(u64 pointer, size_t bytes, size_t offset, u64 handle, unsigned long long flags)
{
    DRIVER(cuMemMap);
    pthread_mutex_lock(&lock);
    int verdict = driver(pointer, bytes, offset, handle, flags);
    if (verdict == CUDA_OK)
        mapped(pointer, bytes, handle);
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* One call may remove several mappings; the driver refuses to remove a part of one. Those without a record, as of
   imported memory, may be between others: then all records are searched, which takes long if there are many. */
static void unmapped(u64 pointer, u64 bytes)
{
    struct record record;
    u64 end = pointer + bytes;
    for (; pointer < end && records_take(MAPPING, pointer, &record); pointer += record.bytes)
        drop_reference(record.other);
    while (pointer < end && records_overlapping(MAPPING, pointer, end - pointer, &record)) {
        records_take(MAPPING, record.name, &record);
        drop_reference(record.other);
    }
}

API int cuMemUnmap(u64 pointer, size_t bytes)
{
    DRIVER(cuMemUnmap);
    pthread_mutex_lock(&lock);
    int verdict = driver(pointer, bytes);
    if (verdict == CUDA_OK)
        unmapped(pointer, bytes);
    pthread_mutex_unlock(&lock);
    return verdict;
}

API int cuMemRetainAllocationHandle(u64 *handle, void *pointer)
{
    DRIVER(cuMemRetainAllocationHandle);
    struct record mapping;
    pthread_mutex_lock(&lock);
    int verdict = driver(handle, pointer);
    u64 at = (u64)(uintptr_t)pointer;
    if (verdict == CUDA_OK &&
        (records_get(MAPPING, at, &mapping) || records_overlapping(MAPPING, at, 1, &mapping)))
        add_handle(OUTPUT(handle), mapping.other);
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* If the driver returns a handle that this process has, it is a further reference to the same memory. */
API int cuMemImportFromShareableHandle(u64 *handle, void *shared, u32 type)
{
    DRIVER(cuMemImportFromShareableHandle);
    struct record known;
    pthread_mutex_lock(&lock);
    int verdict = driver(handle, shared, type);
    if (verdict == CUDA_OK && records_get(HANDLE, OUTPUT(handle), &known))
        add_handle(OUTPUT(handle), known.other);
    pthread_mutex_unlock(&lock);
    return verdict;
}
