/* Functions of libc that another library may replace: dlsym and dlvsym, of which this library exports its own, and
   clock_gettime. */
#ifndef GPUSHARE_ELF_H
#define GPUSHARE_ELF_H

#include <time.h>

typedef int (*clock_function)(clockid_t, struct timespec *);
typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);

/* NULL if the C library has none. */
dlsym_function libc_dlsym(void);
dlvsym_function libc_dlvsym(void);
clock_function libc_clock(void);

#endif
