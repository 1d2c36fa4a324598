/* System calls of the library. The functions of libc for them are points at which a thread can be cancelled, which
   would leave locks behind, and other preloaded libraries replace them. */
#ifndef GPUSHARE_KERNEL_H
#define GPUSHARE_KERNEL_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline int kernel_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static inline ssize_t kernel_read(int fd, void *content, size_t size) { return syscall(SYS_read, fd, content, size); }

static inline ssize_t kernel_write(int fd, const void *content, size_t size)
{
    return syscall(SYS_write, fd, content, size);
}

static inline void kernel_close(int fd) { syscall(SYS_close, fd); }

/* Slower than a function of libc, which needs no system call. */
static inline void kernel_time(clockid_t clock, struct timespec *at) { syscall(SYS_clock_gettime, clock, at); }

/* A signal may shorten it. */
static inline void kernel_sleep(const struct timespec *length) { syscall(SYS_nanosleep, length, NULL); }

#endif
