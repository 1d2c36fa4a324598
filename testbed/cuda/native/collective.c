/* FAKE, for tests. A kernel that waits on its GPU until the same kernel has started on the GPUs of the other ranks, as
   the kernels of NCCL do. It is busy meanwhile, as NVML counts it. */
#define _GNU_SOURCE
#include "collective.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 8 };
static const u64 POLL = 200000; /* ns */

/* Shared by the ranks. A rank can be one round ahead of another, which still reads the starts of the last one. */
struct meeting {
    u64 rounds[MAX_RANKS], starts[MAX_RANKS][2];
};

static struct meeting *join(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) != 0)
        return NULL;
    void *at = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static bool all_started(const struct meeting *meeting, u32 ranks, u64 round)
{
    for (u32 i = 0; i < ranks; i++)
        if (__atomic_load_n(&meeting->rounds[i], __ATOMIC_ACQUIRE) < round)
            return false;
    return true;
}

static u64 last_start(const struct meeting *meeting, u32 ranks, u64 round)
{
    u64 last = 0;
    for (u32 i = 0; i < ranks; i++)
        if (meeting->starts[i][round % 2] > last)
            last = meeting->starts[i][round % 2];
    return last;
}

int collective_run(int card, const struct collective *kernel)
{
    static struct meeting *meeting;
    if (kernel->ranks > MAX_RANKS || kernel->rank >= kernel->ranks || !(meeting || (meeting = join(kernel->path))))
        return INVALID_VALUE;
    u64 round = meeting->rounds[kernel->rank] + 1, start = machine_hold(card);
    meeting->starts[kernel->rank][round % 2] = start;
    __atomic_store_n(&meeting->rounds[kernel->rank], round, __ATOMIC_RELEASE);
    struct timespec pause = {0, (long)POLL};
    while (!all_started(meeting, kernel->ranks, round)) {
        nanosleep(&pause, NULL);
        machine_spin(card);
    }
    machine_run_until(card, last_start(meeting, kernel->ranks, round) + kernel->ns);
    return OK;
}
