/* NVML as the container sees it: its limit as the size of the GPU, its own usage, and no processes, because NVML
   reports PIDs of the host. */
#include "wrappers.h"

/* False if the limit file does not have the GPU or the region cannot be used. */
static int view(const void *device, u64 *limit, u64 *used)
{
    int card = account_nvml_card(device);
    *limit = account_limit(card);
    pools_update();
    return account_used(card, used);
}

static u64 left(u64 limit, u64 used) { return limit > used ? limit - used : 0; }

API int nvmlDeviceGetMemoryInfo(const void *device, struct nvml_memory *memory)
{
    DRIVER_OR(nvmlDeviceGetMemoryInfo, NVML_FUNCTION_NOT_FOUND);
    u64 limit, used;
    int verdict = driver(device, memory);
    if (verdict != NVML_OK || !memory)
        return verdict;
    if (!view(device, &limit, &used)) {
        *memory = (struct nvml_memory){0};
        return NVML_UNKNOWN;
    }
    *memory = (struct nvml_memory){limit, left(limit, used), used};
    return NVML_OK;
}

API int nvmlDeviceGetMemoryInfo_v2(const void *device, struct nvml_memory_v2 *memory)
{
    DRIVER_OR(nvmlDeviceGetMemoryInfo_v2, NVML_FUNCTION_NOT_FOUND);
    u64 limit, used;
    int verdict = driver(device, memory);
    if (verdict != NVML_OK || !memory)
        return verdict;
    if (!view(device, &limit, &used)) {
        *memory = (struct nvml_memory_v2){.version = memory->version};
        return NVML_UNKNOWN;
    }
    *memory = (struct nvml_memory_v2){memory->version, limit, 0, left(limit, used), used};
    return NVML_OK;
}

/* The driver is called with an empty buffer, so that it still rejects an invalid handle. */
enum { INSUFFICIENT_SIZE = 7 };

#define NO_PROCESSES(name)                                          \
    API int name(const void *device, u32 *count, void *processes)   \
    {                                                               \
        DRIVER_OR(name, NVML_FUNCTION_NOT_FOUND);                   \
        if (!count)                                                 \
            return driver(device, count, processes);                \
        *count = 0;                                                 \
        int verdict = driver(device, count, NULL);                  \
        *count = 0;                                                 \
        return verdict == INSUFFICIENT_SIZE ? NVML_OK : verdict;    \
    }

NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

API int nvmlDeviceGetRunningProcessDetailList(const void *device, struct nvml_process_list *list)
{
    DRIVER_OR(nvmlDeviceGetRunningProcessDetailList, NVML_FUNCTION_NOT_FOUND);
    if (!list)
        return driver(device, list);
    void *processes = list->processes;
    list->count = 0;
    list->processes = NULL;
    int verdict = driver(device, list);
    list->count = 0;
    list->processes = processes;
    return verdict == INSUFFICIENT_SIZE ? NVML_OK : verdict;
}
