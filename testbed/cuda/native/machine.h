/* The fake's cards, and who has how much of them. No CUDA call belongs here. */
#ifndef STUB_CUDA_MACHINE_H
#define STUB_CUDA_MACHINE_H

#include "abi.h"

#define MAX_CARDS 16
#define MAX_USERS 256

struct card {
    unsigned char uuid[16];
    u64 total, context;
    char name[64];
};

/* Beside the file that STUB_CUDA names: what each process has, and for how many ns it had a card's time, as a
   driver knows it. Memory of the dead is free. `peak` is the most that all the living had at once, `busy_until`
   the time by CLOCK_MONOTONIC at which a card has run all that was launched. */
struct user {
    u64 pid, start;
    u64 used[MAX_CARDS], busy[MAX_CARDS];
};

struct usage {
    u64 count; /* of places that were ever taken */
    u64 peak[MAX_CARDS], busy_until[MAX_CARDS];
    struct user users[MAX_USERS];
};

/* Reads the cards; NO_DEVICE where there are none. */
int machine_start(void);
int machine_cards(void);
const struct card *machine_card(int card);

int machine_take(int card, u64 bytes); /* OUT_OF_MEMORY where the card is full */
void machine_give(int card, u64 bytes);
u64 machine_used(int card);

/* Runs a kernel of so many ns behind all that was launched before, by whomever: a card runs one at a time.
   Returns at once but where much is waiting already. */
void machine_run(int card, u64 ns);

#endif
