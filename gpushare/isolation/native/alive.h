/* Whether a process is alive, from /proc. */
#ifndef GPUSHARE_ALIVE_H
#define GPUSHARE_ALIVE_H

#include <stdbool.h>

#include "abi.h"

/* The start time in clock ticks since boot; 0 if the process has ended, is a zombie without
   threads, or cannot be read. */
u64 process_start(u64 pid);

/* Whether the process that started at `start` may still use GPU memory; true if unknown. `*program` differs between
   the programs that a process executes one after the other; 0 if unknown. */
bool process_alive(u64 pid, u64 start, u64 *program);

/* Whether the process, or another one with its PID now, has certainly not ended. Takes a tenth of the time of
   `process_alive`; false on kernels before 5.3. */
bool process_runs(u64 pid);

#endif
