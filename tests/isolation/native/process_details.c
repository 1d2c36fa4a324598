/* FAKE, for tests: an NVML with the only function of driver 535 and later that lists processes and that the stub does
   not have. It has one process. */
typedef unsigned int u32;

struct process {
    u32 pid;
    unsigned long long bytes;
    u32 gpu_instance, compute_instance;
    unsigned long long protected_bytes;
};

struct list {
    u32 version, mode, count;
    struct process *processes;
};

enum { OK = 0, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25, VERSION_1 = 0x1000018 };

int nvmlDeviceGetRunningProcessDetailList(const void *device, struct list *list)
{
    if (!device || !list)
        return INVALID_ARGUMENT;
    if (list->version != VERSION_1)
        return VERSION_MISMATCH;
    u32 room = list->count;
    list->count = 1;
    if (!room)
        return INSUFFICIENT_SIZE;
    list->processes[0] = (struct process){.pid = 4711, .bytes = 1 << 30};
    return OK;
}
