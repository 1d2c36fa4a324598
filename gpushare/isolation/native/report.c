#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"

/* If no one reads stderr, SIGPIPE would end the program. It goes to the thread that writes, and is removed. */
static void write_line(const char *line)
{
    static const struct timespec no_wait;
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, &pipe, &before);
    bool failed = kernel_write(STDERR_FILENO, line, strlen(line)) < 0 && errno == EPIPE;
    if (failed && !sigismember(&pending, SIGPIPE))
        syscall(SYS_rt_sigtimedwait, &pipe, NULL, &no_wait, _NSIG / 8);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void report_once(int *reported, const char *format, ...)
{
    char line[512] = "gpushare: ";
    va_list values;
    int saved = errno;
    if (__atomic_exchange_n(reported, 1, __ATOMIC_RELAXED))
        return;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, values);
    va_end(values);
    strcat(line, "\n");
    write_line(line);
    errno = saved;
}
