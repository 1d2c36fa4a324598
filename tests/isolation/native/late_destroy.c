/* Two threads, for a race: one destroys a context, the other creates one with the same address as soon as the driver
   has destroyed the first, prints the MiB in use, and destroys it. Built as a library, this file delays the return
   from the driver's function that destroys; else it is the program, which is linked to the driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

enum { DESTROYED = 100 }; /* descriptor of a pipe: a byte when the driver has destroyed the first */

#ifdef DELAY
int cuCtxDestroy_v2(void *context)
{
    static int calls;
    int (*driver)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cuCtxDestroy_v2");
    int verdict = driver(context);
    if (!calls++ && write(DESTROYED, "", 1) == 1)
        usleep(400000);
    return verdict;
}
#else
#include <pthread.h>

extern int cuInit(unsigned);
extern int cuCtxCreate_v2(void **, unsigned, int);
extern int cuCtxDestroy_v2(void *);
extern int cuMemGetInfo_v2(size_t *, size_t *);

static void *first;

static void *destroy(void *argument)
{
    cuCtxDestroy_v2(first);
    return argument;
}

int main(void)
{
    void *second = NULL;
    pthread_t thread;
    char byte;
    int ends[2];
    size_t left = 0, total = 0;
    if (pipe(ends) != 0 || dup2(ends[1], DESTROYED) != DESTROYED)
        return 1;
    cuInit(0);
    cuCtxCreate_v2(&first, 0, 0);
    pthread_create(&thread, NULL, destroy, NULL);
    if (read(ends[0], &byte, 1) == 1)
        cuCtxCreate_v2(&second, 0, 0);
    pthread_join(thread, NULL);
    cuMemGetInfo_v2(&left, &total);
    printf("%d %zu ", first == second, (total - left) >> 20);
    printf("%d\n", cuCtxDestroy_v2(second));
    return 0;
}
#endif
