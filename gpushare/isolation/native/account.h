/* What this process may take, by the card's number in the limit file. Everything is set up at the first
   call, so that a process that never touches CUDA does no work. */
#ifndef GPUSHARE_ACCOUNT_H
#define GPUSHARE_ACCOUNT_H

#include <stdbool.h>

#include "abi.h"

enum { NO_CARD = -1 };

/* The card of a CUDA device, of the device of the current context, of an NVML handle. NO_CARD where the
   limit file does not have it or cannot be used: nothing is given out there. */
int account_card(int device);
int account_current_card(void);
int account_nvml_card(const void *device);

bool account_reserve(int card, u64 bytes);
void account_release(int card, u64 bytes);
void account_force(int card, u64 bytes);

/* A context on a card takes memory before anything is allocated in it. */
bool account_enter_context(int card);
void account_leave_context(int card);

/* What to answer where nothing could be reserved, on the current context's card or on a device that was
   named: out of memory, which is counted; the driver's own error where it knows of no such device. */
int account_refused(int card);
int account_refused_on(int card, int device);

/* The current context's card where the container may have a part of its time only; else NO_CARD. */
int account_shared_card(void);

u64 account_limit(int card);
bool account_used(int card, u64 *bytes);

#endif
