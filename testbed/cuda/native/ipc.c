/* FAKE, for tests. Memory of other processes, by a handle of 64 bytes. Opening it allocates nothing: the memory
   belongs to the process that allocated it, and ends with it. */
#define _GNU_SOURCE
#include <unistd.h>

#include "driver.h"

enum { LAZY_PEER_ACCESS = 1 };

struct ipc_handle {
    u64 pid, address, bytes, card;
    unsigned char rest[32];
};

API int cuIpcGetMemHandle(struct ipc_handle *handle, u64 pointer)
{
    ENTER();
    const struct thing *thing = thing_at(LINEAR, pointer);
    if (!handle || !thing || thing->pool)
        return INVALID_VALUE;
    *handle = (struct ipc_handle){(u64)getpid(), pointer, thing->bytes, (u64)thing->card, {0}};
    return OK;
}

/* Like a driver, it rejects handles of the same process. */
static int opened(u64 *pointer, const struct ipc_handle *handle, u32 flags)
{
    ENTER();
    if (driver_device() < 0 || handle->pid == (u64)getpid())
        return INVALID_CONTEXT;
    if (!pointer || flags != LAZY_PEER_ACCESS)
        return INVALID_VALUE;
    struct thing *thing = thing_new(OPENED, (int)handle->card, 0);
    thing->used = handle->bytes;
    thing->address += 0x200000000000ull + (u64)(uintptr_t)thing;
    *pointer = thing->address;
    return OK;
}

API int cuIpcOpenMemHandle(u64 *pointer, struct ipc_handle handle, u32 flags)
{
    return opened(pointer, &handle, flags);
}

API int cuIpcOpenMemHandle_v2(u64 *pointer, struct ipc_handle handle, u32 flags)
{
    return opened(pointer, &handle, flags);
}

API int cuIpcCloseMemHandle(u64 pointer)
{
    ENTER();
    struct thing *thing = thing_at(OPENED, pointer);
    if (!thing)
        return INVALID_VALUE;
    thing_end(thing);
    return OK;
}
