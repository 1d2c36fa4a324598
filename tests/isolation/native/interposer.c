/* Another interposing library, like those of profilers: reports allocations and passes them on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    int (*next)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    printf("seen ");
    fflush(stdout);
    return next ? next(pointer, bytes) : -1;
}
