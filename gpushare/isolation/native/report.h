/* Messages on stderr of the program. */
#ifndef GPUSHARE_REPORT_H
#define GPUSHARE_REPORT_H

/* Writes "gpushare: …" if `*reported` is 0, and sets it: each message appears once per process. */
void report_once(int *reported, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
