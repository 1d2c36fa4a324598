#define _GNU_SOURCE
#include "alive.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { STATE_FIELD = 3, THREADS_FIELD = 20, START_FIELD = 22, STACK_FIELD = 28 };

struct status {
    char state;
    u64 threads, start;
    u64 stack; /* its address, which is random */
};

static bool read_stat(u64 pid, char *content, size_t size)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    int fd = kernel_open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : kernel_read(fd, content, size - 1);
    if (fd >= 0)
        kernel_close(fd);
    if (length > 0)
        content[length] = '\0';
    return length > 0;
}

/* The number in a field of stat; `at` is the blank before the state. */
static bool number_in(const char *at, int wanted, u64 *number)
{
    unsigned long long value;
    for (int field = STATE_FIELD; at && field < wanted; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %llu", &value) != 1)
        return false;
    *number = value;
    return true;
}

/* The command name in brackets may contain blanks and brackets: fields are counted from its end. */
static bool parse_stat(const char *content, struct status *status)
{
    const char *end = strrchr(content, ')');
    return end && sscanf(end, ") %c", &status->state) == 1 &&
           number_in(end + 1, THREADS_FIELD, &status->threads) && number_in(end + 1, START_FIELD, &status->start) &&
           number_in(end + 1, STACK_FIELD, &status->stack);
}

/* A process whose first thread has ended is a zombie too, but its other threads run. */
static bool ended(const struct status *status)
{
    return status->state == 'X' || (status->state == 'Z' && status->threads <= 1);
}

u64 process_start(u64 pid)
{
    char content[1024];
    struct status status;
    if (!read_stat(pid, content, sizeof content) || !parse_stat(content, &status))
        return 0;
    return ended(&status) ? 0 : status.start;
}

/* Its descriptor becomes readable when all its threads have ended. */
bool process_runs(u64 pid)
{
    struct timespec no_wait = {0, 0};
    struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0), .events = POLLIN};
    if (process.fd < 0)
        return false;
    long ready = syscall(SYS_ppoll, &process, 1, &no_wait, NULL, 0);
    kernel_close(process.fd);
    return ready == 0;
}

bool process_alive(u64 pid, u64 start, u64 *program)
{
    char content[1024];
    struct status status;
    *program = 0;
    if (pid == 0 || pid > 1u << 30 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH))
        return false;
    if (!read_stat(pid, content, sizeof content) || !parse_stat(content, &status))
        return true; /* without /proc, or with hidepid */
    u64 now = status.start;
    *program = status.stack;
    return !ended(&status) && (start == 0 || now == start);
}
