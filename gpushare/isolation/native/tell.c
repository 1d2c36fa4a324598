#define _GNU_SOURCE
#include "tell.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tell_once(int *told, const char *format, ...)
{
    char line[512] = "gpushare: ";
    va_list values;
    int kept = errno;
    if (__atomic_exchange_n(told, 1, __ATOMIC_RELAXED))
        return;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, values);
    va_end(values);
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written; /* whoever closed stderr is told nothing */
    errno = kept;
}
