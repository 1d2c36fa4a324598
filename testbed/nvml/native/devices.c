/* FAKE, for tests. The GPUs and their constant properties. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "session.h"

static const u64 MIB = 1024 * 1024;

API u32 nvmlDeviceGetCount_v2(u32 *count)
{
    CALL();
    PUT(count, (long long)session_cards());
    return OK;
}

API u32 nvmlDeviceGetCount(u32 *count) { return nvmlDeviceGetCount_v2(count); }

API u32 nvmlDeviceGetHandleByIndex_v2(u32 index, const void **device)
{
    {
        CALL();
        if (!device || index >= (u32)session_cards())
            return INVALID_ARGUMENT;
    }
    *device = session_handle((int)index);
    CALL_ON(*device);
    return OK;
}

API u32 nvmlDeviceGetHandleByIndex(u32 index, const void **device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API u32 nvmlDeviceGetHandleByUUID(const char *uuid, const void **device)
{
    {
        CALL();
        if (!device || !uuid)
            return INVALID_ARGUMENT;
        *device = session_handle_of(uuid);
        if (!*device)
            return NOT_FOUND;
    }
    CALL_ON(*device);
    return OK;
}

API u32 nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, const void **device)
{
    CALL();
    if (!device || !bus_id)
        return INVALID_ARGUMENT;
    const struct state *state = state_now();
    for (int i = 0; i < state->card_count; i++)
        if (!strcasecmp(state->cards[i].pci, bus_id) && session_handle_of(state->cards[i].uuid)) {
            *device = session_handle_of(state->cards[i].uuid);
            return OK;
        }
    return NOT_FOUND;
}

API u32 nvmlDeviceGetHandleByPciBusId(const char *bus_id, const void **device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

API u32 nvmlDeviceGetIndex(const void *device, u32 *index)
{
    CALL_ON(device);
    PUT(index, (long long)session_index(device));
    return OK;
}

API u32 nvmlDeviceGetName(const void *device, char *name, u32 length)
{
    CALL_ON(device);
    return session_text(name, length, card->name);
}

API u32 nvmlDeviceGetUUID(const void *device, char *uuid, u32 length)
{
    CALL_ON(device);
    return session_text(uuid, length, card->uuid);
}

API u32 nvmlDeviceGetSerial(const void *device, char *serial, u32 length)
{
    CALL_ON(device);
    return *card->serial ? session_text(serial, length, card->serial) : NOT_SUPPORTED;
}

NUMBER_OF(nvmlDeviceGetMinorNumber, minor, u32)
NUMBER_OF(nvmlDeviceGetBrand, brand, u32)
NUMBER_OF(nvmlDeviceGetArchitecture, arch, u32)
NUMBER_OF(nvmlDeviceGetNumaNodeId, numa_id, u32)
NUMBER_OF(nvmlDeviceGetPersistenceMode, persistence, u32)

API u32 nvmlDeviceGetCudaComputeCapability(const void *device, int *major, int *minor)
{
    CALL_ON(device);
    PUT(major, card->cc_major);
    PUT(minor, card->cc_minor);
    return OK;
}

API u32 nvmlDeviceGetMigMode(const void *device, u32 *now, u32 *pending)
{
    CALL_ON(device);
    PUT(now, card->mig);
    PUT(pending, card->mig);
    return OK;
}

/* A GPU in MIG mode has no instances here: callers do not use GPUs in this mode. */
API u32 nvmlDeviceGetMaxMigDeviceCount(const void *device, u32 *count)
{
    CALL_ON(device);
    PUT(count, (long long)(card->mig == 1 ? 7 : 0));
    return OK;
}

API u32 nvmlDeviceGetMigDeviceHandleByIndex(const void *device, u32 index, const void **instance)
{
    CALL_ON(device);
    (void)index;
    (void)instance;
    return card->mig == 1 ? NOT_FOUND : NOT_SUPPORTED;
}

API u32 nvmlDeviceIsMigDeviceHandle(const void *device, u32 *is)
{
    CALL_ON(device);
    PUT(is, 0LL);
    return OK;
}

API u32 nvmlDeviceGetPciInfo_v3(const void *device, struct pci_info *pci)
{
    CALL_ON(device);
    if (!pci)
        return INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    if (sscanf(card->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        return UNKNOWN;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%.31s", card->pci);
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFFu,
             pci->bus & 0xFFu, pci->device & 0xFFu);
    return OK;
}

API u32 nvmlDeviceGetPciInfo_v2(const void *device, struct pci_info *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

API u32 nvmlDeviceGetPciInfo(const void *device, struct pci_info *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

/* Since driver 510, the first version counts the reserve of the driver as used; before, it excludes it. */
API u32 nvmlDeviceGetMemoryInfo(const void *device, struct memory *memory)
{
    CALL_ON(device);
    if (!memory)
        return INVALID_ARGUMENT;
    if (card->total_mib == ABSENT)
        return NOT_SUPPORTED;
    u64 total = (u64)card->total_mib, reserved = (u64)card->reserved_mib, used = (u64)card->used_mib;
    if (state_now()->v1_counts_reserve)
        used += reserved;
    else
        total -= reserved;
    *memory = (struct memory){total * MIB, (total - used) * MIB, used * MIB};
    return OK;
}

API u32 nvmlDeviceGetMemoryInfo_v2(const void *device, struct memory_v2 *memory)
{
    CALL_ON(device);
    if (!memory)
        return INVALID_ARGUMENT;
    if (memory->version != VERSION_OF(struct memory_v2, 2))
        return VERSION_MISMATCH;
    if (card->total_mib == ABSENT)
        return NOT_SUPPORTED;
    u64 total = (u64)card->total_mib, reserved = (u64)card->reserved_mib, used = (u64)card->used_mib;
    memory->total = total * MIB;
    memory->reserved = reserved * MIB;
    memory->free = (total - reserved - used) * MIB;
    memory->used = used * MIB;
    return OK;
}

API u32 nvmlDeviceGetBAR1MemoryInfo(const void *device, struct bar1_memory *memory)
{
    CALL_ON(device);
    PUT(&memory->total, card->bar1_total_mib);
    PUT(&memory->used, card->bar1_used_mib);
    memory->free = (memory->total - memory->used) * MIB;
    memory->total *= MIB;
    memory->used *= MIB;
    return OK;
}
