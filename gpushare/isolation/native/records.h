/* What this process has of the driver: by kind and by the driver's name for it. */
#ifndef GPUSHARE_RECORDS_H
#define GPUSHARE_RECORDS_H

#include <stdbool.h>

#include "limit.h"

enum kind { LINEAR = 1, ARRAY, MIPMAP, CONTEXT, PRIMARY, HANDLE, MAPPING, ALLOCATION };

/* `bytes` and `card` are what is charged. `other` is the context that LINEAR, ARRAY and MIPMAP end with;
   what it and `count` mean elsewhere is the business of the kind. */
struct record {
    enum kind kind;
    int card;
    u64 name, bytes, count, other;
};

/* All kinds have one lock. Keep no driver call under it. */
bool records_put(struct record record);
bool records_get(enum kind kind, u64 name, struct record *found);
bool records_take(enum kind kind, u64 name, struct record *taken);

/* The first record of a kind whose [name, name + bytes) meets [from, from + length). */
bool records_meeting(enum kind kind, u64 from, u64 length, struct record *found);

/* Takes what ends with a context; adds its bytes to `freed`, by card. */
void records_take_owned(u64 context, u64 freed[MAX_CARDS]);

/* In a fork's child: nothing of the parent's is ours, and its locks may be held by threads that are gone. */
void records_forget(void);

#endif
