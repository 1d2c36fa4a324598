/* Objects of the driver that this process has created, by kind and by `name`: their address or handle. */
#ifndef GPUSHARE_RECORDS_H
#define GPUSHARE_RECORDS_H

#include <stdbool.h>

#include "limit.h"

enum kind { LINEAR = 1, ARRAY, MIPMAP, CONTEXT, PRIMARY, HANDLE, MAPPING, ALLOCATION, POOL };

/* `bytes` are charged on `card`. For LINEAR, ARRAY and MIPMAP, `other` is the context that they belong to; vmm.c
   and contexts.c define `other` and `count` of the other kinds. `managed` is for LINEAR. */
struct record {
    enum kind kind;
    int card;
    u64 name, bytes, count, other;
    bool managed;
};

/* All kinds share one lock, which is not held during calls of the driver. */
bool records_put(struct record record);
bool records_get(enum kind kind, u64 name, struct record *found);
bool records_take(enum kind kind, u64 name, struct record *taken);

/* Any record of a kind whose [name, name + bytes) overlaps [from, from + length). */
bool records_overlapping(enum kind kind, u64 from, u64 length, struct record *found);

/* Removes the records that belong to a context, and adds their bytes to `freed`, by card; those of managed memory
   also to `managed`. */
void records_take_owned(u64 context, u64 freed[MAX_CARDS], u64 managed[MAX_CARDS]);

/* In a forked child: nothing of the parent belongs to it, and threads that held locks no longer exist. */
void records_forget(void);

#endif
