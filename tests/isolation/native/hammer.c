/* Threads that use a region concurrently, without a driver, for sanitizers. Usage: hammer REGION; prints the usage
   and the spent tokens at the end. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mapping.h"
#include "pace.h"

enum { THREADS = 8, TURNS = 500 };

static void *work(void *argument)
{
    u64 used;
    struct taken taken;
    for (int i = 0; i < TURNS; i++) {
        if (region_reserve(0, 1000))
            region_release(0, 1000);
        if (region_enter_context(0, 500))
            region_leave_context(0);
        if (i % 100 == 0)
            region_used(0, &used);
        if (!pace_take(0, (struct launch){(u32)i, 32}, &taken))
            pace_wait(0, taken.turn);
    }
    return argument;
}

int main(int count, char **arguments)
{
    struct limits limits = {.count = 1, .cards = {{.uuid = "GPU-hammer", .bytes = 5000}}};
    pthread_t threads[THREADS];
    const char *why;
    u64 used;
    if (count != 2 || !mapping_open(arguments[1], &limits, &why))
        return 2;
    for (int i = 0; i < LAUNCH_KINDS; i++)
        __atomic_store_n(&region->launches[0].prices[i], 1 << 20, __ATOMIC_RELAXED);
    __atomic_store_n(&region->launches[0].rate, 1000000, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    region_used(0, &used);
    printf("%llu %llu\n", (unsigned long long)used, (unsigned long long)region->launches[0].spent);
    return 0;
}
