#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"

void report_once(int *reported, const char *format, ...)
{
    char line[512] = "gpushare: ";
    va_list values;
    int saved = errno;
    if (__atomic_exchange_n(reported, 1, __ATOMIC_RELAXED))
        return;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, values);
    va_end(values);
    strcat(line, "\n");
    ssize_t written = kernel_write(STDERR_FILENO, line, strlen(line));
    (void)written; /* stderr may be closed */
    errno = saved;
}
