#define _GNU_SOURCE
#include "entry.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "elf.h"
#include "wrappers.h"

#define DECLARE(name, base, since, per_thread) extern char wrapper_##name[] __asm__(#name);
WRAPPED(DECLARE)
#undef DECLARE

struct entry_point {
    const char *name, *base;
    int since, per_thread;
    void *wrapper, *driver;
};

static struct entry_point points[ENTRIES] = {
#define POINT(name, base, since, per_thread) {#name, base, since, per_thread, wrapper_##name, NULL},
    WRAPPED(POINT)
#undef POINT
#define POINT(name, parameters) {#name, "", 0, 0, NULL, NULL},
    ASKED(POINT)
#undef POINT
};

static bool may_be_ours(const char *name)
{
    return name && ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v'));
}

static struct entry_point *point_of(const char *name)
{
    for (int i = 0; may_be_ours(name) && i < ENTRIES; i++)
        if (points[i].wrapper && !strcmp(points[i].name, name))
            return &points[i];
    return NULL;
}

static void *known(const struct entry_point *point) { return __atomic_load_n(&point->driver, __ATOMIC_ACQUIRE); }

/* The loaded library of the driver. RTLD_NODELETE keeps it loaded: a program may close it and load it again at
   another address, while this library has addresses of its functions. */
static void *library_of(const struct entry_point *point)
{
    const char *name = point->name[0] == 'c' ? "libcuda.so.1" : "libnvidia-ml.so.1";
    return dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void learn(struct entry_point *point, void *driver)
{
    /* The first one stays: a later library may be one that calls this library. */
    if (!driver || driver == point->wrapper || known(point))
        return;
    library_of(point);
    __atomic_store_n(&point->driver, driver, __ATOMIC_RELEASE);
}

/* The next definition in the search order if the program is linked to the driver, else the loaded library. The last
   lookup leaves the text of dlerror, which programs read if there is none. */
static void *search(const struct entry_point *point)
{
    dlsym_function lookup = libc_dlsym();
    void *found = lookup ? lookup(RTLD_NEXT, point->name) : NULL;
    void *library = lookup && !found ? library_of(point) : NULL;
    return found || !lookup ? found : lookup(library ? library : RTLD_NEXT, point->name);
}

void *driver_function(enum entry entry)
{
    struct entry_point *point = &points[entry];
    if (!known(point))
        learn(point, search(point));
    return known(point);
}

/* Whether a library between this one and the driver looks up what it passes its calls on to: the wrapper would call
   that library again. */
static bool passes_on(const struct entry_point *point, const void *caller)
{
    Dl_info asking, next;
    void *function = known(point);
    return function && dladdr(caller, &asking) && dladdr(function, &next) && asking.dli_fbase == next.dli_fbase;
}

/* The wrapper, if the driver has the function. */
static void *wrapped(struct entry_point *point, void *found, const void *caller)
{
    if (!found || passes_on(point, caller))
        return found;
    learn(point, found);
    return driver_function((enum entry)(point - points)) ? point->wrapper : NULL;
}

/* The result for RTLD_NEXT depends on the caller, which libc finds by its return address. So libc's function is
   called by a jump: otherwise another interposing library would find itself. */
__attribute__((optimize("optimize-sibling-calls"))) API void *dlsym(void *handle, const char *name)
{
    dlsym_function lookup = libc_dlsym();
    if (!lookup)
        return NULL;
    struct entry_point *point = handle == RTLD_NEXT ? NULL : point_of(name);
    if (point)
        return wrapped(point, lookup(handle, name), __builtin_return_address(0));
    return lookup(handle, name);
}

__attribute__((optimize("optimize-sibling-calls"))) API void *dlvsym(void *handle, const char *name,
                                                                     const char *version)
{
    dlvsym_function lookup = libc_dlvsym();
    if (!lookup)
        return NULL;
    struct entry_point *point = handle == RTLD_NEXT ? NULL : point_of(name);
    if (point)
        return wrapped(point, lookup(handle, name, version), __builtin_return_address(0));
    return lookup(handle, name, version);
}

static struct entry_point *point_of_function(const char *base, const void *function)
{
    for (int i = 0; may_be_ours(base) && i < ENTRIES; i++)
        if (points[i].wrapper && !strncmp(points[i].name, base, strlen(base)) &&
            driver_function((enum entry)i) == function)
            return &points[i];
    return NULL;
}

/* The newest function of that name in the requested CUDA version. */
static struct entry_point *point_of_base(const char *base, int version, u64 flags)
{
    struct entry_point *best = NULL;
    int per_thread = (flags & PER_THREAD_STREAM) != 0;
    for (int i = 0; i < ENTRIES; i++) {
        struct entry_point *point = &points[i];
        bool meant = point->wrapper && !strcmp(point->base, base) && point->since <= version;
        if (meant && point->per_thread <= per_thread && (!best || point->since + point->per_thread >= best->since))
            best = point;
    }
    return best;
}

/* Replaces the function that the driver returned. If it is an export of the driver, it identifies the wrapper. */
static void exchange(const char *base, int version, u64 flags, void **function, const void *caller)
{
    struct entry_point *point = point_of_function(base, *function);
    if (!point)
        point = point_of_base(base, version, flags);
    if (!point || passes_on(point, caller))
        return;
    learn(point, *function);
    *function = point->wrapper;
}

API int cuGetProcAddress(const char *base, void **function, int version, u64 flags)
{
    DRIVER(cuGetProcAddress);
    int verdict = driver(base, function, version, flags);
    if (verdict == CUDA_OK && base && function && *function)
        exchange(base, version, flags, function, __builtin_return_address(0));
    return verdict;
}

API int cuGetProcAddress_v2(const char *base, void **function, int version, u64 flags, int *status)
{
    DRIVER(cuGetProcAddress_v2);
    int verdict = driver(base, function, version, flags, status);
    if (verdict == CUDA_OK && base && function && *function)
        exchange(base, version, flags, function, __builtin_return_address(0));
    return verdict;
}
