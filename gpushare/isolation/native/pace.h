/* Launch control: of each card a bucket of tokens in the region, for all processes of the container. A launch
   takes a token for each of its threads, in the order in which launches come, and what it has taken too much
   the next ones wait for. The node agent sets the rate at which tokens come so that the container has its part
   of the card's time (`gpushare.isolation.regulator`).

   No lock is held, so whoever dies while it waits stops nobody. */
#ifndef GPUSHARE_PACE_H
#define GPUSHARE_PACE_H

#include <stdbool.h>

#include "abi.h"

/* Takes tokens of a card. True where the launch may go at once; else `*turn` is what to wait for. */
bool pace_take(int card, u64 tokens, u64 *turn);

/* Gives tokens back for a launch that does not wait. */
void pace_give_back(int card, u64 tokens);

/* Waits until it is the turn of a launch. Not for ever: a launch is delayed, never lost. */
void pace_wait(int card, u64 turn);

#endif
