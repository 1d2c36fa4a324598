/* What the tenant is told, on stderr: each thing once a process. */
#ifndef GPUSHARE_TELL_H
#define GPUSHARE_TELL_H

/* Says "gpushare: …" where `*told` is 0, and sets it. */
void tell_once(int *told, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
