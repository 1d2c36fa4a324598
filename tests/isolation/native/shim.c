/* A library that programs are linked to instead of the driver, as that of TensorFlow: it has functions with the names
   of the driver's, which look these up at their first call: with dlsym, or with BY_ADDRESS by cuGetProcAddress. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

static void *driver(void) { return dlopen("libcuda.so.1", RTLD_NOW); }

#ifdef BY_ADDRESS
int cuGetProcAddress(const char *base, void **function, int version, uint64_t flags)
{
    static int (*next)(const char *, void **, int, uint64_t);
    if (!next)
        next = (int (*)(const char *, void **, int, uint64_t))dlsym(driver(), "cuGetProcAddress");
    return next(base, function, version, flags);
}

static void *look_up(const char *name, const char *base)
{
    void *found = NULL;
    (void)name;
    cuGetProcAddress(base, &found, 12000, 0);
    return found;
}
#else
static void *look_up(const char *name, const char *base)
{
    (void)base;
    return dlsym(driver(), name);
}
#endif

#define PASS_ON(name, base, types, ...)               \
    int name types                                    \
    {                                                 \
        static int(*next) types;                      \
        if (!next)                                    \
            next = (int(*) types)look_up(#name, base); \
        return next(__VA_ARGS__);                     \
    }

PASS_ON(cuInit, "cuInit", (unsigned flags), flags)
PASS_ON(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **context, int device), context, device)
PASS_ON(cuCtxSetCurrent, "cuCtxSetCurrent", (void *context), context)
PASS_ON(cuMemAlloc_v2, "cuMemAlloc", (uint64_t * pointer, size_t bytes), pointer, bytes)
PASS_ON(cuLaunchKernel, "cuLaunchKernel",
        (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
         unsigned shared_bytes, void *stream, void **parameters, void **extra),
        function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra)
