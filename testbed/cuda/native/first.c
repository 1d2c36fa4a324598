/* FAKE, for tests. The first versions of functions, from before CUDA 3.2: with addresses and sizes of 32 bits. cuda.h no
   longer declares them, but the library of the driver still has them. */
#include "driver.h"

int cuArray3DCreate_v2(void **array, const struct array3d *shape);
int cuArrayCreate_v2(void **array, const struct array *shape);
int cuCtxCreate_v2(void **context, u32 flags, int device);
int cuCtxDestroy_v2(void *context);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuMemAllocPitch_v2(u64 *pointer, size_t *pitch, size_t width, size_t height, u32 element);
int cuMemAlloc_v2(u64 *pointer, size_t bytes);
int cuMemFree_v2(u64 pointer);
int cuMemGetInfo_v2(size_t *left, size_t *total);

struct array_v1 {
    u32 width, height, format, channels;
};

struct array3d_v1 {
    u32 width, height, depth, format, channels, flags;
};

/* Gives new memory an address of 32 bits. */
static void move_down(u64 address, u32 *pointer)
{
    static u32 next = 1 << 20;
    driver_lock();
    thing_at(LINEAR, address)->address = *pointer = next;
    next += 1 << 20;
    driver_unlock(NULL);
}

API int cuMemAlloc(u32 *pointer, u32 bytes)
{
    u64 address;
    int verdict = cuMemAlloc_v2(pointer ? &address : NULL, bytes);
    if (verdict == OK)
        move_down(address, pointer);
    return verdict;
}

API int cuMemAllocPitch(u32 *pointer, u32 *pitch, u32 width, u32 height, u32 element)
{
    u64 address;
    size_t row;
    int verdict = cuMemAllocPitch_v2(pointer ? &address : NULL, pitch ? &row : NULL, width, height, element);
    if (verdict == OK) {
        move_down(address, pointer);
        *pitch = (u32)row;
    }
    return verdict;
}

API int cuMemFree(u32 pointer) { return cuMemFree_v2(pointer); }

static void put(u32 *target, size_t number)
{
    if (target)
        *target = number > UINT32_MAX ? UINT32_MAX : (u32)number;
}

API int cuMemGetInfo(u32 *left, u32 *total)
{
    size_t left_now, all;
    int verdict = cuMemGetInfo_v2(&left_now, &all);
    if (verdict == OK) {
        put(left, left_now);
        put(total, all);
    }
    return verdict;
}

API int cuDeviceTotalMem(u32 *bytes, int device)
{
    size_t all;
    int verdict = cuDeviceTotalMem_v2(bytes ? &all : NULL, device);
    if (verdict == OK)
        put(bytes, all);
    return verdict;
}

API int cuArrayCreate(void **array, const struct array_v1 *shape)
{
    if (!shape)
        return INVALID_VALUE;
    return cuArrayCreate_v2(array, &(struct array){shape->width, shape->height, shape->format, shape->channels});
}

API int cuArray3DCreate(void **array, const struct array3d_v1 *shape)
{
    if (!shape)
        return INVALID_VALUE;
    return cuArray3DCreate_v2(array, &(struct array3d){shape->width, shape->height, shape->depth, shape->format,
                                                       shape->channels, shape->flags});
}

API int cuCtxCreate(void **context, u32 flags, int device) { return cuCtxCreate_v2(context, flags, device); }

API int cuCtxDestroy(void *context) { return cuCtxDestroy_v2(context); }

API int cuGLCtxCreate(void **context, u32 flags, int device) { return cuCtxCreate_v2(context, flags, device); }

API int cuVDPAUCtxCreate(void **context, u32 flags, int device, u32 vdpau, const void *lookup)
{
    (void)vdpau, (void)lookup;
    return cuCtxCreate_v2(context, flags, device);
}
