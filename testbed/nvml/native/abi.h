/* The binary interface of NVML that callers see: result codes and the layout of structures.
   Facts taken from NVIDIA's nvml.h of CUDA 10.1, 11.0, 11.4, 11.6, 12.2, 13.0 and 13.4; names are our own. */
#ifndef STUB_NVML_ABI_H
#define STUB_NVML_ABI_H

#include <stddef.h>

typedef unsigned int u32;
typedef unsigned long long u64;

#define API __attribute__((visibility("default")))

enum result {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMED_OUT = 10,
    GPU_IS_LOST = 15,
    OPERATING_SYSTEM = 17,
    LIB_RM_VERSION_MISMATCH = 18,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

#define VALUE_UINT 1
#define VALUE_U64 3
#define NO_INSTANCE 0xFFFFFFFFu
#define EVENT_XID 0x8ULL
#define NO_LIMIT (~0ULL)

/* The first field of a versioned structure contains its size and version. */
#define VERSION_OF(type, version) ((u32)(sizeof(type) | ((version) << 24)))

struct memory {
    u64 total, free, used;
};

struct memory_v2 {
    u32 version;
    u64 total, reserved, free, used;
};

struct bar1_memory {
    u64 total, free, used;
};

/* Bytes; `name` is the folder of a cgroup. */
struct set_memory_limits_v1 {
    const char *name;
    u64 soft, hard;
};

struct get_memory_limits_v1 {
    const char *name;
    u64 soft, hard, used;
};

struct utilization {
    u32 gpu, memory;
};

struct process_v1 {
    u32 pid;
    u64 used;
};

struct process_v2 {
    u32 pid;
    u64 used;
    u32 gpu_instance, compute_instance;
};

struct process_sample {
    u32 pid;
    u64 time_us;
    u32 sm, memory, encoder, decoder;
};

struct process_load_v1 {
    u64 time_us;
    u32 pid, sm, memory, encoder, decoder, jpeg, ofa;
};

struct processes_load_v1 {
    u32 version, count;
    u64 last_seen_us;
    struct process_load_v1 *samples;
};

union value {
    double d;
    u32 u;
    unsigned long ul;
    u64 ull;
    long long ll;
};

struct sample {
    u64 time_us;
    union value value;
};

struct field_value {
    u32 field, scope;
    long long time_us, latency_us;
    u32 type, result;
    union value value;
};

struct pci_info {
    char bus_id_legacy[16];
    u32 domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct event_v1 {
    const void *device;
    u64 type, data;
};

struct event_v2 {
    const void *device;
    u64 type, data;
    u32 gpu_instance, compute_instance;
};

struct process_detail_v1 {
    u32 pid;
    u64 used;
    u32 gpu_instance, compute_instance;
    u64 protected;
};

struct process_list_v1 {
    u32 version, mode, count;
    struct process_detail_v1 *processes;
};

struct temperature_v1 {
    u32 version, sensor;
    int celsius;
};

#endif
