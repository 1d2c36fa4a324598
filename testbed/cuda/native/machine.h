/* The fake's cards, and who has how much of them. No CUDA call belongs here. */
#ifndef STUB_CUDA_MACHINE_H
#define STUB_CUDA_MACHINE_H

#include "abi.h"

#define MAX_CARDS 16
#define MAX_USERS 256

struct card {
    unsigned char uuid[16];
    u64 total, context;
};

/* In the file that STUB_CUDA names, after its lines: what each process has, as a driver knows it. Memory
   of the dead is free. `peak` is the most that all the living had at once. */
struct user {
    u64 pid, start;
    u64 used[MAX_CARDS];
};

struct usage {
    u64 peak[MAX_CARDS];
    struct user users[MAX_USERS];
};

/* Reads the cards; NO_DEVICE where there are none. */
int machine_start(void);
int machine_cards(void);
const struct card *machine_card(int card);

int machine_take(int card, u64 bytes); /* OUT_OF_MEMORY where the card is full */
void machine_give(int card, u64 bytes);
u64 machine_used(int card);

#endif
