/* What a program sees of the driver, with or without a library before it. Usage: isolation pairs|launches
   SECONDS; calls for so long and prints how many calls there were, and the mean time of a call in ns. A pair is an
   allocation of 1 MiB and its end. Kernels take no time; the wait for them after each batch is not measured. */
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
static int (*wait)(void);
static int (*load)(void **, const void *);
static int (*function_of)(void **, void *, const char *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                     void **);

static const char module[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                             ".visible .entry none(.param .u64 duration) { ret; }\n";
static void *function;

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

static void kernel(void)
{
    uint64_t duration = 0;
    void *parameters[] = {&duration};
    check(launch(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

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
    *(void **)&wait = dlsym(library, "cuCtxSynchronize");
    *(void **)&load = dlsym(library, "cuModuleLoadData");
    *(void **)&function_of = dlsym(library, "cuModuleGetFunction");
    *(void **)&launch = dlsym(library, "cuLaunchKernel");
}

static void open_gpu(void)
{
    void *context, *loaded;
    check(init(0));
    check(retain(&context, 0));
    check(set(context));
    check(load(&loaded, module));
    check(function_of(&function, loaded, "none"));
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    void (*call)(void) = !strcmp(arguments[1], "pairs") ? pair : kernel;
    find();
    open_gpu();
    call();
    long calls = 0;
    double spent = 0, until = now() + atof(arguments[2]);
    for (double begin = now(); begin < until; begin = now(), calls += BATCH) {
        for (int i = 0; i < BATCH; i++)
            call();
        spent += now() - begin;
        check(wait());
    }
    printf("%ld %.1f\n", calls, spent * 1e9 / (double)calls);
    return 0;
}
