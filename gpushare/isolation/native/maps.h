/* The files that a process has mapped, from /proc. */
#ifndef GPUSHARE_MAPS_H
#define GPUSHARE_MAPS_H

#include <stdbool.h>

#include "abi.h"

/* A file by the numbers in maps, which may differ from those of stat. */
struct mapped_file {
    unsigned major, minor;
    unsigned long long inode; /* 0 if unknown */
};

/* The file that this process has mapped at an address. */
void maps_file_at(const void *address, struct mapped_file *file);

/* Whether a process certainly has not mapped the file. */
bool maps_lack(u64 pid, const struct mapped_file *file);

#endif
