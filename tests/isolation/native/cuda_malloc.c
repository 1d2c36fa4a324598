/* Allocates memory on each GPU once, with the output of the programs in ACK's tutorial on isolation. It loads the
   driver with dlopen, and has no knowledge of limits.

   cuda_malloc -size=<MiB> [-hold] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *driver;

/* Calls a function of the driver. */
#define CALL(name, types, ...) ((int(*) types)function(name))(__VA_ARGS__)

static void *function(const char *name)
{
    void *found = dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(3);
    }
    return found;
}

static void require(int verdict, const char *what)
{
    if (verdict == 0)
        return;
    fprintf(stderr, "%s: error %d\n", what, verdict);
    exit(3);
}

static void describe(int device)
{
    char name[64] = "";
    size_t bytes = 0;
    int version = 0;
    require(CALL("cuDeviceGetName", (char *, int, int), name, (int)sizeof name, device), "its name");
    require(CALL("cuDeviceTotalMem_v2", (size_t *, int), &bytes, device), "its size");
    require(CALL("cuDriverGetVersion", (int *), &version), "the driver's version");
    printf("Device %d: \"%s\"\n", device, name);
    printf("  CUDA Driver Version / Runtime Version          %d.%d / 10.1\n", version / 1000, version % 100 / 10);
    printf("  Total amount of global memory:                 %.0f MBytes (%zu bytes)\n", (double)(bytes >> 20),
           bytes);
}

static void take(int device, size_t mib)
{
    void *context = NULL;
    unsigned long long address = 0;
    printf("Try to malloc %zu MBytes memory on GPU %d\n", mib, device);
    int verdict = CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, device);
    if (verdict == 0)
        verdict = CALL("cuCtxSetCurrent", (void *), context);
    if (verdict == 0)
        verdict = CALL("cuMemAlloc_v2", (unsigned long long *, size_t), &address, mib << 20);
    if (verdict == 0)
        return;
    printf("CUDA error at cgpu_cuda_malloc.cu:119 code=%d(%s) \"cudaMalloc( (void**)&dev_c, malloc_size)\"\n",
           verdict, verdict == 2 ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown");
    exit(1);
}

int main(int count, char **words)
{
    size_t mib = 0;
    int hold = 0, devices = 0;
    for (int i = 1; i < count; i++) {
        hold = hold || !strcmp(words[i], "-hold");
        if (!strncmp(words[i], "-size=", 6))
            mib = strtoull(words[i] + 6, NULL, 10);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("gpu_cuda_malloc starting...\n");
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    require(CALL("cuInit", (unsigned), 0), "cuInit");
    require(CALL("cuDeviceGetCount", (int *), &devices), "the number of devices");
    printf("Detected %d CUDA Capable device(s)\n\n", devices);
    for (int device = 0; device < devices; device++) {
        describe(device);
        take(device, mib);
    }
    while (hold)
        pause();
    return 0;
}
