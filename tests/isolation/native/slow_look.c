/* Preloaded: the first look whether process 1 << 29 is alive prints a line, and waits for a byte of input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

int kill(pid_t pid, int number)
{
    static int looks;
    char byte;
    if (pid == 1 << 29 && !looks++ && write(1, "looks\n", 6) == 6 && read(0, &byte, 1) < 0)
        return -1;
    return ((int (*)(pid_t, int))dlsym(RTLD_NEXT, "kill"))(pid, number);
}
