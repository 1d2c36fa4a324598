/* Allocates memory on the first GPU, bypassing preloaded libraries, and keeps it. It is compiled twice: the program
   loads the library beside it with dlmopen, into a namespace without preloaded libraries.

   aside_malloc <MiB> */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef ASIDE

#define CALL(name, types, ...) ((int(*) types)dlsym(driver, name))(__VA_ARGS__)

int take(size_t mib)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    unsigned long long address = 0;
    if (!driver)
        return -1;
    int verdict = CALL("cuInit", (unsigned), 0);
    verdict = verdict ? verdict : CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    verdict = verdict ? verdict : CALL("cuCtxSetCurrent", (void *), context);
    return verdict ? verdict : CALL("cuMemAlloc_v2", (unsigned long long *, size_t), &address, mib << 20);
}

#else

int main(int count, char **words)
{
    void *aside = dlmopen(LM_ID_NEWLM, "/bin/aside_malloc.so", RTLD_NOW);
    if (!aside) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    int (*take)(size_t) = (int (*)(size_t))dlsym(aside, "take");
    printf("taken: %d\n", take(count > 1 ? strtoull(words[1], NULL, 10) : 0));
    fflush(stdout);
    for (;;)
        pause();
}

#endif
