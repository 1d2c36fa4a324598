/* The region in this process: opens, maps and locks it. region.h has the operations on its content. */
#ifndef GPUSHARE_MAPPING_H
#define GPUSHARE_MAPPING_H

#include "region.h"

extern struct region *region; /* NULL until it is open */

/* Maps the region at `path`. False if it cannot be used; `*why` is the reason. */
bool mapping_open(const char *path, const struct limits *limits, const char **why);

/* Whether another process, which had the region mapped, certainly has it no longer: it executes another program. */
bool mapping_left_by(u64 pid);

/* Whether the region can still be used. The first failure is reported on stderr. */
bool mapping_intact(void);

/* Acquires the lock; false if the region cannot be used. `recover` is called if the previous owner of the lock
   ended without releasing it, and repairs its unfinished changes. */
bool mapping_enter(void (*recover)(void));
void mapping_leave(void);

#endif
