/* A thread is cancelled, and calls the driver before it ends; then the first thread does. Linked to the driver; prints
   the result of the last call. Without the library no such call is a point at which a thread is cancelled. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

extern int cuInit(unsigned);
extern int cuDevicePrimaryCtxRetain(void **, int);
extern int cuCtxSetCurrent(void *);
extern int cuMemAllocAsync(uint64_t *, size_t, void *);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                          void **, void **);

static int last;

static int use(void)
{
    void *context;
    uint64_t pointer;
    int verdict = cuDevicePrimaryCtxRetain(&context, 0);
    verdict = verdict ? verdict : cuCtxSetCurrent(context);
    verdict = verdict ? verdict : cuMemAllocAsync(&pointer, (size_t)5000 << 20, NULL);
    for (int i = 0; i < 3; i++)
        cuLaunchKernel((void *)1, 1000, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    return verdict;
}

static void *work(void *argument)
{
    pthread_cancel(pthread_self());
    last = use();
    return argument;
}

int main(void)
{
    pthread_t thread;
    void *ended;
    cuInit(0);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, &ended);
    printf("%d %d", ended == PTHREAD_CANCELED, last);
    fflush(stdout);
    printf(" %d\n", use());
    return 0;
}
