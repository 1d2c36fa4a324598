/* Launch control: the region has a token bucket for each GPU, shared by all processes of the container. A launch
   takes one token per thread, in order of arrival; it may overdraw the bucket, and later launches wait for the
   debt. The node agent sets the rate of the tokens so that the container gets its compute share
   (`gpushare.deviceplugin.core.regulator`).

   There is no lock, so a process that is killed while it waits blocks no other. */
#ifndef GPUSHARE_PACE_H
#define GPUSHARE_PACE_H

#include <stdbool.h>

#include "abi.h"

/* Takes tokens of a GPU. True if the launch need not wait; else `*turn` is its position for `pace_wait`. */
bool pace_take(int card, u64 tokens, u64 *turn);

/* Returns the tokens of a launch that must not wait. */
void pace_give_back(int card, u64 tokens);

/* Waits for the turn of a launch, for a limited time: a launch is delayed, never dropped. */
void pace_wait(int card, u64 turn);

#endif
