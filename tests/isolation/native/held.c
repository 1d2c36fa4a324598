/* Prints whether the isolation library is loaded into this process: "held" or "free". It uses no headers and no
   start files, so it can be built without the development files of a C library: musl, and glibc for 32 bits. */
int open(const char *, int, ...);
long read(int, void *, unsigned long);
long write(int, const void *, unsigned long);
char *strstr(const char *, const char *);
_Noreturn void _exit(int);

static char maps[1 << 16];

/* Some C libraries need a larger alignment of the stack than the caller guarantees. */
__attribute__((force_align_arg_pointer, noreturn)) void _start(void)
{
    int file = open("/proc/self/maps", 0);
    long length = 0, more;
    while ((more = read(file, maps + length, sizeof maps - 1 - (unsigned long)length)) > 0)
        length += more;
    write(1, strstr(maps, "libgpushare") ? "held\n" : "free\n", 5);
    _exit(length > 0 ? 0 : 1);
}
