/* Launch control: the region has a token bucket for each GPU, shared by all processes of the container. A token is a
   nanosecond of GPU time. A launch takes its work times the price of its kind, in order of arrival; it may overdraw
   the bucket, and later launches wait for the debt. The rate of the tokens is the compute share. The node agent
   learns the prices (`gpushare.deviceplugin.core.prices`); until then a kind is free.

   There is no lock, so a process that is killed while it waits blocks no other. */
#ifndef GPUSHARE_PACE_H
#define GPUSHARE_PACE_H

#include <stdbool.h>

#include "abi.h"

/* The work of a launch, and which launches have the same price for a unit of it. */
struct launch {
    u32 kind;
    u32 work;
};

/* What a launch has taken; `turn` is its position for `pace_wait`. */
struct taken {
    u64 tokens, turn;
};

/* Takes the tokens of a launch. True if it need not wait. */
bool pace_take(int card, struct launch launch, struct taken *taken);

/* Returns the tokens of a launch that must not wait. */
void pace_give_back(int card, struct launch launch, const struct taken *taken);

/* Waits for the turn of a launch, for a limited time: a launch is delayed, never dropped. */
void pace_wait(int card, u64 turn);

#endif
