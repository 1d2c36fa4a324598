/* The GPU memory of this process, by `card`: the index of a GPU in the limit file. Limit file and region are
   opened at the first call, so a process that does not use CUDA opens nothing. */
#ifndef GPUSHARE_ACCOUNT_H
#define GPUSHARE_ACCOUNT_H

#include <stdbool.h>

#include "abi.h"

enum { NO_CARD = -1 };

/* The index of a CUDA device, of the device of the current context, and of an NVML handle. NO_CARD if the limit
   file does not have the GPU or cannot be used: all reservations fail then. */
int account_card(int device);
int account_current_card(void);
int account_nvml_card(const void *device);

bool account_reserve(int card, u64 bytes);
bool account_reserve_again(int card, u64 bytes); /* right after a refusal, when pools have released memory */
void account_release(int card, u64 bytes);
void account_force(int card, u64 bytes);

/* Marks counted memory as managed, or with a negative number as no longer managed. */
void account_managed(int card, int64_t change);

/* A context uses GPU memory before anything is allocated in it. */
bool account_enter_context(int card);
bool account_enter_context_again(int card);
void account_leave_context(int card);

/* The result of a call whose reservation of `bytes` failed: out of memory, which is counted as a refusal, or the error
   of the driver if there is no current context or no such device. */
int account_refused(int card, u64 bytes);
int account_refused_on(int card, int device, u64 bytes);
int account_context_refused(int card, int device);

/* The GPU of the current context if the container has a compute share of it, else NO_CARD. */
int account_shared_card(void);

u64 account_limit(int card);
bool account_used(int card, u64 *bytes);

#endif
