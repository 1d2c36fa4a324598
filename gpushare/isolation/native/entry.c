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

struct way {
    const char *name, *base;
    int since, per_thread;
    void *wrapper, *driver;
};

static struct way ways[ENTRIES] = {
#define WAY(name, base, since, per_thread) {#name, base, since, per_thread, wrapper_##name, NULL},
    WRAPPED(WAY)
#undef WAY
#define WAY(name, parameters) {#name, "", 0, 0, NULL, NULL},
    ASKED(WAY)
#undef WAY
};

static bool may_be_ours(const char *name)
{
    return name && ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v'));
}

static struct way *way_of(const char *name)
{
    for (int i = 0; may_be_ours(name) && i < ENTRIES; i++)
        if (ways[i].wrapper && !strcmp(ways[i].name, name))
            return &ways[i];
    return NULL;
}

static void *known(const struct way *way) { return __atomic_load_n(&way->driver, __ATOMIC_ACQUIRE); }

/* The driver's library where it is loaded. It stays loaded from here on: a program may close it and open it
   again elsewhere, while we keep addresses in it. */
static void *library_of(const struct way *way)
{
    const char *name = way->name[0] == 'c' ? "libcuda.so.1" : "libnvidia-ml.so.1";
    return dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void learn(struct way *way, void *driver)
{
    if (!driver || driver == way->wrapper || known(way))
        return;
    library_of(way);
    __atomic_store_n(&way->driver, driver, __ATOMIC_RELEASE);
}

/* Behind us in the search order where the program is linked to the driver; else in the loaded library. */
static void *search(const struct way *way)
{
    dlsym_function look = libc_dlsym();
    void *found = look ? look(RTLD_NEXT, way->name) : NULL;
    void *library = look && !found ? library_of(way) : NULL;
    return library ? look(library, way->name) : found;
}

void *driver_function(enum entry entry)
{
    struct way *way = &ways[entry];
    if (!known(way))
        learn(way, search(way));
    return known(way);
}

/* A wrapper stands only for what the driver has. */
static void *wrapped(struct way *way, void *found)
{
    if (!found)
        return NULL;
    learn(way, found);
    return driver_function((enum entry)(way - ways)) ? way->wrapper : NULL;
}

/* With RTLD_NEXT the answer depends on who asks: libc's function is jumped to, so that it sees the
   caller's return address. Another library that interposes would find itself otherwise. */
__attribute__((optimize("optimize-sibling-calls"))) API void *dlsym(void *handle, const char *name)
{
    dlsym_function look = libc_dlsym();
    if (!look)
        return NULL;
    struct way *way = handle == RTLD_NEXT ? NULL : way_of(name);
    if (way)
        return wrapped(way, look(handle, name));
    return look(handle, name);
}

__attribute__((optimize("optimize-sibling-calls"))) API void *dlvsym(void *handle, const char *name,
                                                                     const char *version)
{
    dlvsym_function look = libc_dlvsym();
    if (!look)
        return NULL;
    struct way *way = handle == RTLD_NEXT ? NULL : way_of(name);
    if (way)
        return wrapped(way, look(handle, name, version));
    return look(handle, name, version);
}

static struct way *way_of_function(const char *base, const void *function)
{
    for (int i = 0; may_be_ours(base) && i < ENTRIES; i++)
        if (ways[i].wrapper && !strncmp(ways[i].name, base, strlen(base)) &&
            driver_function((enum entry)i) == function)
            return &ways[i];
    return NULL;
}

/* The newest of that name which the asked CUDA version has. */
static struct way *way_of_base(const char *base, int version, u64 flags)
{
    struct way *best = NULL;
    int per_thread = (flags & PER_THREAD_STREAM) != 0;
    for (int i = 0; i < ENTRIES; i++) {
        struct way *way = &ways[i];
        bool meant = way->wrapper && !strcmp(way->base, base) && way->since <= version;
        if (meant && way->per_thread <= per_thread && (!best || way->since + way->per_thread >= best->since))
            best = way;
    }
    return best;
}

/* The driver has answered; it knows best which function it meant, where that is one of its exports. */
static void exchange(const char *base, int version, u64 flags, void **function)
{
    struct way *way = way_of_function(base, *function);
    if (!way)
        way = way_of_base(base, version, flags);
    if (!way)
        return;
    learn(way, *function);
    *function = way->wrapper;
}

API int cuGetProcAddress(const char *base, void **function, int version, u64 flags)
{
    DRIVER(cuGetProcAddress);
    int verdict = driver(base, function, version, flags);
    if (verdict == CUDA_OK && base && function && *function)
        exchange(base, version, flags, function);
    return verdict;
}

API int cuGetProcAddress_v2(const char *base, void **function, int version, u64 flags, int *status)
{
    DRIVER(cuGetProcAddress_v2);
    int verdict = driver(base, function, version, flags, status);
    if (verdict == CUDA_OK && base && function && *function)
        exchange(base, version, flags, function);
    return verdict;
}
