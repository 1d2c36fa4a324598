/* libc's own dlsym and dlvsym, although this library exports functions of these names. */
#ifndef GPUSHARE_ELF_H
#define GPUSHARE_ELF_H

typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);

/* NULL where the C library has none. */
dlsym_function libc_dlsym(void);
dlvsym_function libc_dlvsym(void);

#endif
