/* The parts of the binary interfaces of the CUDA driver and of NVML that the library uses. Values and layouts
   are those of NVIDIA's cuda.h (CUDA 10.1 to 13.0) and nvml.h; the names of the types are not. */
#ifndef GPUSHARE_ABI_H
#define GPUSHARE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

enum cuda_result {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_SYMBOL_NOT_FOUND = 302,
    CUDA_INVALID_HANDLE = 400,
};

enum nvml_result { NVML_OK = 0, NVML_INVALID_ARGUMENT = 2, NVML_FUNCTION_NOT_FOUND = 13, NVML_UNKNOWN = 999 };

enum { CAPTURE_RELAXED = 2 }; /* CU_STREAM_CAPTURE_MODE_… */

/* CU_MEMPOOL_ATTR_… and CU_GRAPH_MEM_ATTR_… */
enum { POOL_RESERVED_NOW = 5, POOL_USED_NOW = 7, GRAPH_USED_NOW = 0, GRAPH_RESERVED_NOW = 2 };

/* CU_MEM_LOCATION_TYPE_…; a domain, since CUDA 13.5, is a part of the device with the number in the first byte. */
enum { LOCATION_DEVICE = 1, LOCATION_DOMAIN = 6 };

enum { MANAGED_MEMORY = 2 }; /* CU_MEM_ALLOCATION_TYPE_… */

/* CUDA_ARRAY3D_…: sparse and deferred arrays have no memory until some is mapped. */
enum { ARRAY_LAYERED = 0x01, ARRAY_CUBEMAP = 0x04, ARRAY_SPARSE = 0x40, ARRAY_DEFERRED = 0x80 };

enum { PER_THREAD_STREAM = 2 }; /* flag of cuGetProcAddress */

struct location {
    u32 type;
    int id;
};

struct allocation_prop {
    u32 type, handle_types;
    struct location location;
};

struct pool_props {
    u32 type, handle_types;
    struct location location;
    unsigned char rest[72];
};

struct graph_allocation {
    struct pool_props pool;
    const void *access;
    size_t access_count, bytes;
    u64 pointer;
};

/* CUgraphNodeParams; the type of a node that allocates memory is 10. */
struct graph_node {
    u32 type, reserved[3];
    union {
        struct graph_allocation allocation;
        u64 any[29];
    };
    u64 more;
};

struct array {
    size_t width, height;
    u32 format, channels;
};

struct array3d {
    size_t width, height, depth;
    u32 format, channels, flags;
};

struct array_v1 {
    u32 width, height, format, channels;
};

struct array3d_v1 {
    u32 width, height, depth, format, channels, flags;
};

struct launch_config {
    u32 grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    u32 attribute_count;
};

struct uuid {
    unsigned char bytes[16];
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    u32 version;
    unsigned long long total, reserved, free, used;
};

struct nvml_process_list {
    u32 version, mode, count;
    void *processes;
};

#endif
