/* A program without knowledge of limits. Usage: client WAY MIB [NS]; allocates memory, launches a kernel that
   takes NS nanoseconds, and prints the results of the driver. WAY is how it finds the functions of the driver:
   "dlsym", "dlvsym", "next", "address", "address_v2" or, if it is linked to the driver, "direct". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*init_t)(unsigned);
typedef int (*retain_t)(void **, int);
typedef int (*set_t)(void *);
typedef int (*alloc_t)(uint64_t *, size_t);
typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                        void **, void **);
typedef int (*address_t)(const char *, void **, int, uint64_t);
typedef int (*address_v2_t)(const char *, void **, int, uint64_t, int *);

#ifdef LINKED
extern int cuInit(unsigned);
extern int cuDevicePrimaryCtxRetain(void **, int);
extern int cuCtxSetCurrent(void *);
extern int cuMemAlloc_v2(uint64_t *, size_t);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                          void **, void **);
#endif

static const char *way;
static void *library;

static void *find(const char *name, const char *base)
{
    void *found = NULL;
    int status = -1;
    if (!strcmp(way, "dlvsym"))
        return dlvsym(library, name, "libcuda.so.1");
    if (!strcmp(way, "next"))
        return dlsym(RTLD_NEXT, name);
    if (!strcmp(way, "address"))
        ((address_t)dlsym(library, "cuGetProcAddress"))(base, &found, 12000, 0);
    else if (!strcmp(way, "address_v2"))
        ((address_v2_t)dlsym(library, "cuGetProcAddress_v2"))(base, &found, 12000, 0, &status);
    else
        found = dlsym(library, name);
    return found;
}

static void *own(const char *name)
{
#ifdef LINKED
    return !strcmp(name, "cuInit")                     ? (void *)cuInit
           : !strcmp(name, "cuDevicePrimaryCtxRetain") ? (void *)cuDevicePrimaryCtxRetain
           : !strcmp(name, "cuCtxSetCurrent")          ? (void *)cuCtxSetCurrent
           : !strcmp(name, "cuLaunchKernel")           ? (void *)cuLaunchKernel
                                                       : (void *)cuMemAlloc_v2;
#else
    (void)name;
    return NULL;
#endif
}

static void *function(const char *name, const char *base)
{
    void *found = !strcmp(way, "direct") ? own(name) : find(name, base);
    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

int main(int count, char **arguments)
{
    void *context;
    uint64_t pointer;
    if (count < 3)
        return 2;
    way = arguments[1];
    library = dlopen("libcuda.so.1", RTLD_NOW | (!strcmp(way, "next") ? RTLD_GLOBAL : RTLD_LOCAL));
    ((init_t)function("cuInit", "cuInit"))(0);
    ((retain_t)function("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((set_t)function("cuCtxSetCurrent", "cuCtxSetCurrent"))(context);
    alloc_t alloc = (alloc_t)function("cuMemAlloc_v2", "cuMemAlloc");
    printf("%d\n", alloc(&pointer, (size_t)atoll(arguments[2]) << 20));
    if (count > 3) {
        launch_t launch = (launch_t)function("cuLaunchKernel", "cuLaunchKernel");
        printf("%d\n", launch((void *)atoll(arguments[3]), 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    }
    return 0;
}
