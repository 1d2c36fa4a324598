/* Virtual memory management: physical memory is charged until its last handle and its last mapping are
   gone. To create, map and release at once is legal and common, and so is a driver that gives a released
   handle's number to the next one; hence each allocation has a number of our own.
   Imported memory is charged where it was made. */
#include <pthread.h>

#include "wrappers.h"

/* Records: HANDLE handle → other; MAPPING address → other; ALLOCATION other → count of both. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static u64 last;

void vmm_forget(void) { pthread_mutex_init(&lock, NULL); }

static void hold(u64 allocation)
{
    struct record record;
    if (records_take(ALLOCATION, allocation, &record)) {
        record.count++;
        records_put(record);
    }
}

static void let_go(u64 allocation)
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
    hold(allocation);
}

static void created(u64 handle, int card, u64 bytes)
{
    records_put((struct record){.kind = ALLOCATION, .name = ++last, .card = card, .bytes = bytes});
    add_handle(handle, last);
}

/* Under the lock from before the driver frees until the book says so: its number may be given out again. */
API int cuMemCreate(u64 *handle, size_t bytes, const struct allocation_prop *prop, unsigned long long flags)
{
    DRIVER(cuMemCreate);
    if (!prop || prop->location.type != LOCATION_DEVICE)
        return driver(handle, bytes, prop, flags);
    int card = account_card(prop->location.id);
    if (!reserve(card, bytes))
        return account_refused_on(card, prop->location.id);
    pthread_mutex_lock(&lock);
    int verdict = driver(handle, bytes, prop, flags);
    if (verdict == CUDA_OK)
        created(*handle, card, bytes);
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
    let_go(record.other);
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
    hold(record.other);
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

/* One call may end several mappings; the driver refuses to end a part of one. */
static void unmapped(u64 pointer, u64 bytes)
{
    struct record record;
    while (records_meeting(MAPPING, pointer, bytes, &record)) {
        records_take(MAPPING, record.name, &record);
        let_go(record.other);
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
    if (verdict == CUDA_OK && records_meeting(MAPPING, (u64)(uintptr_t)pointer, 1, &mapping))
        add_handle(*handle, mapping.other);
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* Where the driver answers with a handle that this process has, it is one more of the same memory. */
API int cuMemImportFromShareableHandle(u64 *handle, void *shared, u32 type)
{
    DRIVER(cuMemImportFromShareableHandle);
    struct record known;
    pthread_mutex_lock(&lock);
    int verdict = driver(handle, shared, type);
    if (verdict == CUDA_OK && records_get(HANDLE, *handle, &known))
        add_handle(*handle, known.other);
    pthread_mutex_unlock(&lock);
    return verdict;
}
