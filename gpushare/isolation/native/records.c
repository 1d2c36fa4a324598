#define _GNU_SOURCE
#include "records.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

/* A hash table with open addressing and linear probing, at most half full. An empty slot has kind 0. */
static struct record *slots;
static size_t capacity, filled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t home_of(enum kind kind, u64 name)
{
    return (size_t)(((name ^ (u64)kind << 56) * 0x9e3779b97f4a7c15ull) >> 20) & (capacity - 1);
}

static struct record *lookup(enum kind kind, u64 name)
{
    if (!capacity)
        return NULL;
    size_t at = home_of(kind, name);
    while (slots[at].kind && (slots[at].kind != kind || slots[at].name != name))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static bool grow(void)
{
    struct record *old = slots;
    size_t old_capacity = capacity;
    struct record *fresh = calloc(capacity ? capacity * 2 : FIRST_CAPACITY, sizeof *fresh);
    if (!fresh)
        return false;
    slots = fresh;
    capacity = capacity ? capacity * 2 : FIRST_CAPACITY;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].kind)
            *lookup(old[i].kind, old[i].name) = old[i];
    free(old);
    return true;
}

/* Empties a slot, and moves later records into the gap so that lookups still find them. */
static void remove_at(size_t gap)
{
    size_t at = gap;
    for (;;) {
        at = (at + 1) & (capacity - 1);
        if (!slots[at].kind)
            break;
        size_t home = home_of(slots[at].kind, slots[at].name);
        if (((at - home) & (capacity - 1)) >= ((at - gap) & (capacity - 1))) {
            slots[gap] = slots[at];
            gap = at;
        }
    }
    slots[gap].kind = 0;
    filled--;
}

bool records_put(struct record record)
{
    pthread_mutex_lock(&lock);
    bool good = (filled + 1) * 2 <= capacity || grow();
    if (good) {
        struct record *slot = lookup(record.kind, record.name);
        filled += !slot->kind;
        *slot = record;
    }
    pthread_mutex_unlock(&lock);
    return good;
}

bool records_get(enum kind kind, u64 name, struct record *found)
{
    pthread_mutex_lock(&lock);
    struct record *slot = lookup(kind, name);
    bool known = slot && slot->kind;
    if (known)
        *found = *slot;
    pthread_mutex_unlock(&lock);
    return known;
}

bool records_take(enum kind kind, u64 name, struct record *taken)
{
    pthread_mutex_lock(&lock);
    struct record *slot = lookup(kind, name);
    bool known = slot && slot->kind;
    if (known) {
        *taken = *slot;
        remove_at((size_t)(slot - slots));
    }
    pthread_mutex_unlock(&lock);
    return known;
}

bool records_overlapping(enum kind kind, u64 from, u64 length, struct record *found)
{
    bool known = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < capacity && !known; i++) {
        const struct record *r = &slots[i];
        known = r->kind == kind && r->name < from + length && from < r->name + r->bytes;
        if (known)
            *found = *r;
    }
    pthread_mutex_unlock(&lock);
    return known;
}

static bool owned(const struct record *record, u64 context)
{
    return record->kind >= LINEAR && record->kind <= MIPMAP && record->other == context;
}

/* An emptied slot is visited again: another record may have moved there. */
void records_take_owned(u64 context, u64 freed[MAX_CARDS], u64 managed[MAX_CARDS])
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < capacity;)
        if (owned(&slots[i], context)) {
            freed[slots[i].card] += slots[i].bytes;
            managed[slots[i].card] += slots[i].managed ? slots[i].bytes : 0;
            remove_at(i);
        } else {
            i++;
        }
    pthread_mutex_unlock(&lock);
}

void records_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    slots = NULL;
    capacity = filled = 0;
}
