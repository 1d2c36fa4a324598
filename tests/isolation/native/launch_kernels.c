/* Launches kernels in an endless loop, each of which takes that many nanoseconds of GPU time. It loads the driver
   with dlopen, and has no knowledge of limits.

   launch_kernels <nanoseconds> */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *driver;

/* Calls a function of the driver; the program ends if it fails. */
#define CALL(name, types, ...) require(((int(*) types)dlsym(driver, name))(__VA_ARGS__), name)

static void require(int verdict, const char *what)
{
    if (verdict == 0)
        return;
    fprintf(stderr, "%s: error %d\n", what, verdict);
    exit(3);
}

int main(int count, char **arguments)
{
    void *context = NULL, *kernel = (void *)(intptr_t)(count > 1 ? atoll(arguments[1]) : 0);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    require(!driver, "libcuda.so.1");
    CALL("cuInit", (unsigned), 0);
    CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CALL("cuCtxSetCurrent", (void *), context);
    for (;;)
        CALL("cuLaunchKernel",
             (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
             kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}
