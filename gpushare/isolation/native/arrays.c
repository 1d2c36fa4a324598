/* CUDA arrays. The driver does not report their size, so it is computed from their elements. */
#include "wrappers.h"

static const u64 TOO_LARGE = ~0ull;

/* CUarray_format: 8-bit ones are 1 and 8, 16-bit ones 2, 9 and half 16, 32-bit ones 3, 10 and float 32.
   Others, such as compressed ones, use less than 4 bytes per channel. */
static u64 element(u32 format, u32 channels)
{
    u64 size = format == 1 || format == 8 ? 1 : format == 2 || format == 9 || format == 16 ? 2 : 4;
    return size * (channels ? channels : 1);
}

static u64 times(u64 a, u64 b)
{
    u64 product;
    return __builtin_mul_overflow(a, b ? b : 1, &product) ? TOO_LARGE : product;
}

static u64 size_of(const struct array3d *shape)
{
    if (!shape || shape->flags & (ARRAY_SPARSE | ARRAY_DEFERRED))
        return 0;
    return times(times(times(shape->width, shape->height), shape->depth), element(shape->format, shape->channels));
}

static u64 half(u64 length) { return length > 1 ? length / 2 : length; }

/* Each level has half the lengths of the previous one, and the same number of layers. */
static u64 size_of_levels(const struct array3d *shape, u32 levels)
{
    struct array3d level = shape ? *shape : (struct array3d){0};
    u64 sum = 0;
    for (u32 i = 0; shape && i < levels && i < 64; i++) {
        if (__builtin_add_overflow(sum, size_of(&level), &sum))
            return TOO_LARGE;
        level.width = half(level.width);
        level.height = half(level.height);
        if (!(level.flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)))
            level.depth = half(level.depth);
    }
    return sum;
}

#define CREATE(kind, array, size, ...)                        \
    int card = account_current_card();                        \
    u64 bytes = size;                                         \
    if (!reserve(card, bytes))                        \
        return account_refused(card, bytes);                      \
    int verdict = driver(array, __VA_ARGS__);                 \
    return keep(verdict, kind, verdict ? 0 : OUTPUT(array), card, bytes)

API int cuArrayCreate(void **array, const struct array_v1 *shape)
{
    DRIVER(cuArrayCreate);
    struct array3d full = {0};
    if (shape)
        full = (struct array3d){shape->width, shape->height, 0, shape->format, shape->channels, 0};
    CREATE(ARRAY, array, size_of(&full), shape);
}

API int cuArrayCreate_v2(void **array, const struct array *shape)
{
    DRIVER(cuArrayCreate_v2);
    struct array3d full = {0};
    if (shape)
        full = (struct array3d){shape->width, shape->height, 0, shape->format, shape->channels, 0};
    CREATE(ARRAY, array, size_of(&full), shape);
}

API int cuArray3DCreate(void **array, const struct array3d_v1 *shape)
{
    DRIVER(cuArray3DCreate);
    struct array3d full = {0};
    if (shape)
        full = (struct array3d){shape->width,  shape->height,   shape->depth,
                                shape->format, shape->channels, shape->flags};
    CREATE(ARRAY, array, size_of(&full), shape);
}

API int cuArray3DCreate_v2(void **array, const struct array3d *shape)
{
    DRIVER(cuArray3DCreate_v2);
    CREATE(ARRAY, array, size_of(shape), shape);
}

API int cuMipmappedArrayCreate(void **array, const struct array3d *shape, u32 levels)
{
    DRIVER(cuMipmappedArrayCreate);
    CREATE(MIPMAP, array, size_of_levels(shape, levels), shape, levels);
}

API int cuArrayDestroy(void *array)
{
    DRIVER(cuArrayDestroy);
    struct record record;
    int known = records_take(ARRAY, (u64)(uintptr_t)array, &record);
    return drop(driver(array), known, record);
}

API int cuMipmappedArrayDestroy(void *array)
{
    DRIVER(cuMipmappedArrayDestroy);
    struct record record;
    int known = records_take(MIPMAP, (u64)(uintptr_t)array, &record);
    return drop(driver(array), known, record);
}
