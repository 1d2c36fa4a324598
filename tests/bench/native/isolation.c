/* What a program sees of the driver, with or without a library before it. Usage: isolation pairs|launches
   SECONDS; calls for so long and prints how many calls there were, and the mean time of a call in ns. A pair is an
   allocation of 1 MiB and its end. The driver's time is the stub's: kernels here take none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 256 };

static int (*init)(unsigned);
static int (*retain)(void **, int);
static int (*set)(void *);
static int (*alloc)(uint64_t *, size_t);
static int (*release)(uint64_t);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                     void **);

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void check(int verdict)
{
    if (verdict != 0) {
        fprintf(stderr, "the driver answered %d\n", verdict);
        exit(1);
    }
}

static void pair(void)
{
    uint64_t pointer;
    check(alloc(&pointer, 1 << 20));
    check(release(pointer));
}

static void kernel(void) { check(launch(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL)); }

static void find(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        check(-1);
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(library, "cuCtxSetCurrent");
    *(void **)&alloc = dlsym(library, "cuMemAlloc_v2");
    *(void **)&release = dlsym(library, "cuMemFree_v2");
    *(void **)&launch = dlsym(library, "cuLaunchKernel");
}

int main(int count, char **arguments)
{
    void *context;
    if (count != 3)
        return 2;
    void (*call)(void) = !strcmp(arguments[1], "pairs") ? pair : kernel;
    find();
    check(init(0));
    check(retain(&context, 0));
    check(set(context));
    call();
    long calls = 0;
    double begin = now(), end = begin, until = begin + atof(arguments[2]);
    for (; end < until; end = now(), calls += BATCH)
        for (int i = 0; i < BATCH; i++)
            call();
    printf("%ld %.1f\n", calls, (end - begin) * 1e9 / (double)calls);
    return 0;
}
