/* FAKE, for tests. Virtual memory management: physical memory exists until its last handle and its last mapping
   are released. A handle is exported to other processes as a file with its description. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

enum { POSIX_FILE = 1 };

/* The content of the file. */
struct shared {
    u64 pid, handle, bytes;
    int card;
};

static struct thing *physical(u64 handle)
{
    struct thing *thing = thing_is(PHYSICAL, (void *)(uintptr_t)handle);
    return thing && thing->handles ? thing : NULL;
}

static void end_unheld(struct thing *thing)
{
    if (thing->handles == 0 && thing->maps == 0)
        thing_end(thing);
}

API int cuMemCreate(u64 *handle, size_t bytes, const struct prop *prop, unsigned long long flags)
{
    ENTER();
    if (flags || !handle || !prop || !machine_card(location_device(&prop->location)))
        return INVALID_VALUE;
    struct thing *thing = thing_new(PHYSICAL, location_device(&prop->location), bytes);
    if (!thing)
        return OUT_OF_MEMORY;
    thing->used = bytes;
    *handle = (u64)(uintptr_t)thing;
    return OK;
}

API int cuMemRelease(u64 handle)
{
    ENTER();
    struct thing *thing = physical(handle);
    if (!thing)
        return INVALID_VALUE;
    thing->handles--;
    end_unheld(thing);
    return OK;
}

/* The caller chose the address; those of the fake are in another range. */
API int cuMemMap(u64 pointer, size_t bytes, size_t offset, u64 handle, unsigned long long flags)
{
    ENTER();
    struct thing *thing = physical(handle), *next = thing_after(MAPPED, pointer);
    if (!thing || offset || flags || bytes != thing->used || (next && next->address < pointer + bytes))
        return INVALID_VALUE;
    struct thing *mapping = thing_new(MAPPED, thing->card, 0);
    mapping->address = pointer;
    mapping->used = bytes;
    mapping->physical = thing;
    thing->maps++;
    return OK;
}

/* Several mappings together, but no part of one. */
static bool is_mapped(u64 pointer, u64 end)
{
    const struct thing *mapping = thing_at(MAPPED, pointer);
    while (mapping && mapping->address + mapping->used < end)
        mapping = thing_at(MAPPED, mapping->address + mapping->used);
    return mapping && mapping->address + mapping->used == end;
}

API int cuMemUnmap(u64 pointer, size_t bytes)
{
    ENTER();
    if (!is_mapped(pointer, pointer + bytes))
        return INVALID_VALUE;
    for (u64 at = pointer; at < pointer + bytes;) {
        struct thing *mapping = thing_at(MAPPED, at), *thing = mapping->physical;
        at += mapping->used;
        thing_end(mapping);
        thing->maps--;
        end_unheld(thing);
    }
    return OK;
}

API int cuMemRetainAllocationHandle(u64 *handle, void *pointer)
{
    ENTER();
    const struct thing *mapping = thing_at(MAPPED, (u64)(uintptr_t)pointer);
    if (!mapping || !handle)
        return INVALID_VALUE;
    mapping->physical->handles++;
    *handle = (u64)(uintptr_t)mapping->physical;
    return OK;
}

API int cuMemExportToShareableHandle(void *file, u64 handle, u32 type, unsigned long long flags)
{
    ENTER();
    const struct thing *thing = physical(handle);
    if (!file || !thing || type != POSIX_FILE || flags)
        return INVALID_VALUE;
    struct shared shared = {(u64)getpid(), handle, thing->used, thing->card};
    int made = memfd_create("stub-cuda", MFD_CLOEXEC);
    if (made < 0 || write(made, &shared, sizeof shared) != sizeof shared)
        return NO_DEVICE;
    *(int *)file = made;
    return OK;
}

/* The exporting process gets its existing handle. Others allocate nothing: the memory belongs to the exporting
   process, and ends with it. */
API int cuMemImportFromShareableHandle(u64 *handle, void *file, u32 type)
{
    ENTER();
    struct shared shared;
    if (!handle || type != POSIX_FILE || pread((int)(uintptr_t)file, &shared, sizeof shared, 0) != sizeof shared)
        return INVALID_VALUE;
    struct thing *thing = shared.pid == (u64)getpid() ? physical(shared.handle) : NULL;
    if (thing)
        thing->handles++;
    else
        thing = thing_new(PHYSICAL, shared.card, 0);
    thing->used = shared.bytes;
    *handle = (u64)(uintptr_t)thing;
    return OK;
}
