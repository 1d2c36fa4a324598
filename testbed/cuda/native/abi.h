/* The part of the binary interface of the CUDA driver that the fake implements. Facts from cuda.h (CUDA 10.1 to 13.0). */
#ifndef STUB_CUDA_ABI_H
#define STUB_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef uint32_t u32;
typedef uint64_t u64;

enum result {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    NOT_FOUND = 500,
};

struct location {
    u32 type;
    int id;
};

struct prop {
    u32 type, handle_types;
    struct location location;
};

struct launch_config {
    u32 grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    u32 attribute_count;
};

struct array3d {
    size_t width, height, depth;
    u32 format, channels, flags;
};

struct array {
    size_t width, height;
    u32 format, channels;
};

#endif
