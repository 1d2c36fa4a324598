/* Says whether the isolation library is in this process: "held" or "free". Without headers and start files, so
   that it is built for C libraries which this machine has only to run: musl, and glibc of 32 bits. */
int open(const char *, int, ...);
long read(int, void *, unsigned long);
long write(int, const void *, unsigned long);
char *strstr(const char *, const char *);
_Noreturn void _exit(int);

static char maps[1 << 16];

/* What is left of the stack's alignment is not enough for all C libraries. */
__attribute__((force_align_arg_pointer, noreturn)) void _start(void)
{
    int file = open("/proc/self/maps", 0);
    long length = 0, more;
    while ((more = read(file, maps + length, sizeof maps - 1 - (unsigned long)length)) > 0)
        length += more;
    write(1, strstr(maps, "libgpushare") ? "held\n" : "free\n", 5);
    _exit(length > 0 ? 0 : 1);
}
