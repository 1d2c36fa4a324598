/* dlsym and dlvsym of libc: this library exports functions of the same names. */
#ifndef GPUSHARE_ELF_H
#define GPUSHARE_ELF_H

typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);

/* NULL if the C library has none. */
dlsym_function libc_dlsym(void);
dlvsym_function libc_dlvsym(void);

#endif
