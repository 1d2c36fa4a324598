/* The region in this process: opening and mapping it, and its lock. What is counted in it is region.h's. */
#ifndef GPUSHARE_MAPPING_H
#define GPUSHARE_MAPPING_H

#include "region.h"

extern struct region *region; /* NULL before it was opened */

/* Maps the region at `path`. False where it cannot be used; `*why` says what is wrong. */
bool mapping_open(const char *path, const struct limits *limits, const char **why);

/* Whether it can still be touched and is still a region; says so once where not. */
bool mapping_intact(void);

/* Takes the lock; false where the region has become unusable. `recover` puts right what a holder that died
   may have left half done. */
bool mapping_enter(void (*recover)(void));
void mapping_leave(void);

#endif
