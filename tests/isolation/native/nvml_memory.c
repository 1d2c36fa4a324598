/* Prints used and total memory of the first GPU, as nvidia-smi does. It loads NVML with dlopen. */
#include <dlfcn.h>
#include <stdio.h>

struct memory {
    unsigned long long total, free, used;
};

int main(void)
{
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device = NULL;
    struct memory memory = {0, 0, 0};
    if (!nvml) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    int (*start)(void) = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
    int (*handle)(unsigned, void **) = (int (*)(unsigned, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
    int (*info)(void *, struct memory *) = (int (*)(void *, struct memory *))dlsym(nvml, "nvmlDeviceGetMemoryInfo");
    int verdict = start();
    verdict = verdict ? verdict : handle(0, &device);
    verdict = verdict ? verdict : info(device, &memory);
    if (verdict) {
        fprintf(stderr, "NVML: error %d\n", verdict);
        return 3;
    }
    printf("%lluMiB / %lluMiB\n", memory.used >> 20, memory.total >> 20);
    return 0;
}
