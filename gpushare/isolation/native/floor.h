/* Binds functions to their first symbol versions, so that the library loads with glibc 2.17 and later. The
   Makefile includes this header into every file. */
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
AT(dladdr, FIRST);
AT(pthread_once, FIRST);
AT(pthread_mutex_trylock, FIRST);
AT(pthread_mutex_timedlock, FIRST);
AT(pthread_mutexattr_init, FIRST);
AT(pthread_mutexattr_destroy, FIRST);
AT(pthread_mutexattr_settype, FIRST);
AT(pthread_mutexattr_setpshared, FIRST);
AT(pthread_mutexattr_setrobust, ROBUST);
AT(pthread_mutex_consistent, ROBUST);
