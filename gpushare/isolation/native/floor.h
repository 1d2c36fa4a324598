/* Binds functions that glibc has moved since 2.17 to their first versions, so that the library loads in
   old images. The compiler's command line includes it into every file. */
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#define ROBUST "GLIBC_2.12"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#define ROBUST "GLIBC_2.17"
#else
#error "the library is built for x86-64 and arm64"
#endif

#define AT(function, version) __asm__(".symver " #function "," #function "@" version)
AT(dlopen, FIRST);
AT(pthread_once, FIRST);
AT(pthread_mutex_trylock, FIRST);
AT(pthread_mutex_timedlock, FIRST);
AT(pthread_mutexattr_init, FIRST);
AT(pthread_mutexattr_destroy, FIRST);
AT(pthread_mutexattr_settype, FIRST);
AT(pthread_mutexattr_setpshared, FIRST);
AT(pthread_mutexattr_setrobust, ROBUST);
AT(pthread_mutex_consistent, ROBUST);
