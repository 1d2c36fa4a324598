/* Preloaded behind the library, so between it and the driver. With `fails`, queries of pools, and requests and releases
   of linear memory and arrays, return that code; `trims` counts how often pools were trimmed, and a request from a pool fails or takes `extra` bytes more once. With
   `calls_back`, the next request of memory or of a context, or query of a pool, first calls the program back, as CUPTI does
   for profilers: here it asks for the free memory and for too much memory, releases an unknown handle, and retains the
   primary context. With `forks`, it forks
   instead, and the child retains the primary context. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int fails, calls_back, forks, trims, out_of_memory;
long extra;

static void call_back(void)
{
    size_t left, total;
    void *context;
    int (*info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2");
    int (*release)(uint64_t) = (int (*)(uint64_t))dlsym(RTLD_DEFAULT, "cuMemRelease");
    int (*request)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxRetain");
    if (forks) {
        forks = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(retain(&context, 0));
        waitpid(child, NULL, 0);
    }
    if (!calls_back)
        return;
    calls_back = 0;
    info(&left, &total);
    request(&(uint64_t){0}, (size_t)1 << 40);
    release(0);
    retain(&context, 0);
}

#define BEHIND(name, types, ...)                                         \
    int name types                                                       \
    {                                                                    \
        call_back();                                                     \
        return ((int(*) types)dlsym(RTLD_NEXT, #name))(__VA_ARGS__);     \
    }

/* A pool whose unused memory is in pieces. */
int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream)
{
    size_t more = (size_t)extra;
    int verdict = out_of_memory;
    call_back();
    extra = out_of_memory = 0;
    return verdict ? verdict
                   : ((int (*)(uint64_t *, size_t, void *))dlsym(RTLD_NEXT, "cuMemAllocAsync"))(pointer, bytes + more,
                                                                                             stream);
}

int cuMemPoolTrimTo(void *pool, size_t keep)
{
    trims++;
    return ((int (*)(void *, size_t))dlsym(RTLD_NEXT, "cuMemPoolTrimTo"))(pool, keep);
}

BEHIND(cuMemCreate, (uint64_t * handle, size_t bytes, const void *properties, unsigned long long flags), handle, bytes,
       properties, flags)

BEHIND(cuDevicePrimaryCtxRetain, (void **context, int device), context, device)
BEHIND(cuCtxCreate_v2, (void **context, unsigned flags, int device), context, flags, device)

/* A version of a function that the driver gives by its address only. It adds no node. */
static int add_node(void **node, void *graph, void *const *after, const void *edges, size_t count, void *params)
{
    (void)node, (void)graph, (void)after, (void)edges, (void)count, (void)params;
    return 13040;
}

int cuGetProcAddress(const char *base, void **function, int version, uint64_t flags)
{
    if (version < 13040 || strcmp(base, "cuGraphAddNode"))
        return ((int (*)(const char *, void **, int, uint64_t))dlsym(RTLD_NEXT, "cuGetProcAddress"))(base, function,
                                                                                                    version, flags);
    *function = (void *)add_node;
    return 0;
}

#define FAILS(name, types, ...) \
    int name types { return fails ? fails : ((int(*) types)dlsym(RTLD_NEXT, #name))(__VA_ARGS__); }

FAILS(cuMemAlloc_v2, (uint64_t * pointer, size_t bytes), pointer, bytes)
FAILS(cuMemFree_v2, (uint64_t pointer), pointer)
FAILS(cuArrayCreate_v2, (void **array, const void *shape), array, shape)
FAILS(cuArrayDestroy, (void *array), array)

int cuMemPoolGetAttribute(void *pool, int attribute, void *value)
{
    call_back();
    return fails ? fails
                 : ((int (*)(void *, int, void *))dlsym(RTLD_NEXT, "cuMemPoolGetAttribute"))(pool, attribute, value);
}

FAILS(cuDeviceGetGraphMemAttribute, (int device, int attribute, void *value), device, attribute, value)
FAILS(cuDeviceGetMemPool, (void **pool, int device), pool, device)
