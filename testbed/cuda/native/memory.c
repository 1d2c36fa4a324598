/* FAKE, for tests. Memory with an address, and arrays. */
#include "driver.h"

static int allocate(u64 *pointer, u64 bytes)
{
    if (driver_device() < 0)
        return INVALID_CONTEXT;
    if (!pointer || !bytes)
        return INVALID_VALUE;
    struct thing *thing = thing_new(LINEAR, driver_device(), bytes);
    if (!thing)
        return OUT_OF_MEMORY;
    thing->context = driver_context();
    *pointer = thing->address;
    return OK;
}

API int cuMemAlloc_v2(u64 *pointer, size_t bytes)
{
    ENTER();
    return capture_forbids() ? CAPTURE_UNSUPPORTED : allocate(pointer, bytes);
}

API int cuMemAllocManaged(u64 *pointer, size_t bytes, u32 flags)
{
    ENTER();
    int verdict = flags ? allocate(pointer, bytes) : INVALID_VALUE;
    if (verdict == OK) {
        thing_at(LINEAR, *pointer)->managed = true;
        machine_managed(driver_device(), (int64_t)bytes);
    }
    return verdict;
}

API int cuMemAllocPitch_v2(u64 *pointer, size_t *pitch, size_t width, size_t height, u32 element)
{
    ENTER();
    (void)element;
    if (!pitch)
        return INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return allocate(pointer, *pitch * height);
}

void pool_free(struct thing *thing);

int free_memory(u64 pointer)
{
    struct thing *thing = thing_at(LINEAR, pointer);
    if (!thing)
        return INVALID_VALUE;
    if (thing->pool)
        pool_free(thing);
    thing_end(thing);
    return OK;
}

API int cuMemFree_v2(u64 pointer)
{
    ENTER();
    return pointer ? free_memory(pointer) : OK;
}

static int create_array(void **array, u64 elements, u32 format, u32 channels)
{
    u64 size = format == 1 || format == 8 ? 1 : format == 2 || format == 9 || format == 16 ? 2 : 4;
    if (driver_device() < 0)
        return INVALID_CONTEXT;
    if (!array)
        return INVALID_VALUE;
    struct thing *thing = thing_new(ARRAY, driver_device(), elements * size * channels);
    if (thing)
        thing->context = driver_context();
    *array = thing;
    return thing ? OK : OUT_OF_MEMORY;
}

static u64 at_least_one(u64 length) { return length ? length : 1; }

API int cuArrayCreate_v2(void **array, const struct array *shape)
{
    ENTER();
    if (!shape)
        return INVALID_VALUE;
    return create_array(array, shape->width * at_least_one(shape->height), shape->format, shape->channels);
}

API int cuArray3DCreate_v2(void **array, const struct array3d *shape)
{
    ENTER();
    if (!shape)
        return INVALID_VALUE;
    u64 elements = shape->width * at_least_one(shape->height) * at_least_one(shape->depth);
    return create_array(array, elements, shape->format, shape->channels);
}

/* Each level halves the lengths, and the depth unless the array is layered (flag 1). */
API int cuMipmappedArrayCreate(void **array, const struct array3d *shape, u32 levels)
{
    ENTER();
    if (!shape)
        return INVALID_VALUE;
    u64 elements = 0;
    for (u32 i = 0; i < levels; i++)
        elements += at_least_one(shape->width >> i) * at_least_one(shape->height >> i) *
                    at_least_one(shape->flags & 1 ? shape->depth : shape->depth >> i);
    return create_array(array, elements, shape->format, shape->channels);
}

static int destroy_array(const void *array)
{
    struct thing *thing = thing_is(ARRAY, array);
    if (!thing)
        return INVALID_HANDLE;
    thing_end(thing);
    return OK;
}

API int cuMipmappedArrayDestroy(void *array)
{
    ENTER();
    return destroy_array(array);
}

API int cuArrayDestroy(void *array)
{
    ENTER();
    return destroy_array(array);
}
