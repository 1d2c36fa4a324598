/* Whether a process lives, as the kernel tells it. */
#ifndef GPUSHARE_ALIVE_H
#define GPUSHARE_ALIVE_H

#include <stdbool.h>

#include "abi.h"

/* Clock ticks since boot; 0 where the process is gone, a zombie, or cannot be read. */
u64 process_start(u64 pid);

/* Whether the process that began at `start` still holds memory of a card. In doubt it does. */
bool process_alive(u64 pid, u64 start);

#endif
