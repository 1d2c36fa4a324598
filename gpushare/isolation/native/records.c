#define _GNU_SOURCE
#include "records.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256 };

/* Open addressing, linear probing; kind 0 is an empty place. At most half of it is filled. */
static struct record *places;
static size_t room, filled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(enum kind kind, u64 name)
{
    return (size_t)(((name ^ (u64)kind << 56) * 0x9e3779b97f4a7c15ull) >> 20) & (room - 1);
}

static struct record *lookup(enum kind kind, u64 name)
{
    if (!room)
        return NULL;
    size_t at = place_of(kind, name);
    while (places[at].kind && (places[at].kind != kind || places[at].name != name))
        at = (at + 1) & (room - 1);
    return &places[at];
}

static bool grow(void)
{
    struct record *old = places;
    size_t old_room = room;
    struct record *fresh = calloc(room ? room * 2 : FIRST_ROOM, sizeof *fresh);
    if (!fresh)
        return false;
    places = fresh;
    room = room ? room * 2 : FIRST_ROOM;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].kind)
            *lookup(old[i].kind, old[i].name) = old[i];
    free(old);
    return true;
}

/* Closes the gap, so that what stands behind it is found. */
static void remove_at(size_t gap)
{
    size_t at = gap;
    for (;;) {
        at = (at + 1) & (room - 1);
        if (!places[at].kind)
            break;
        size_t home = place_of(places[at].kind, places[at].name);
        if (((at - home) & (room - 1)) >= ((at - gap) & (room - 1))) {
            places[gap] = places[at];
            gap = at;
        }
    }
    places[gap].kind = 0;
    filled--;
}

bool records_put(struct record record)
{
    pthread_mutex_lock(&lock);
    bool good = (filled + 1) * 2 <= room || grow();
    if (good) {
        struct record *place = lookup(record.kind, record.name);
        filled += !place->kind;
        *place = record;
    }
    pthread_mutex_unlock(&lock);
    return good;
}

bool records_get(enum kind kind, u64 name, struct record *found)
{
    pthread_mutex_lock(&lock);
    struct record *place = lookup(kind, name);
    bool known = place && place->kind;
    if (known)
        *found = *place;
    pthread_mutex_unlock(&lock);
    return known;
}

bool records_take(enum kind kind, u64 name, struct record *taken)
{
    pthread_mutex_lock(&lock);
    struct record *place = lookup(kind, name);
    bool known = place && place->kind;
    if (known) {
        *taken = *place;
        remove_at((size_t)(place - places));
    }
    pthread_mutex_unlock(&lock);
    return known;
}

bool records_meeting(enum kind kind, u64 from, u64 length, struct record *found)
{
    bool known = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < room && !known; i++) {
        const struct record *r = &places[i];
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

/* A place that was emptied is looked at again: what stood behind it may have moved there. */
void records_take_owned(u64 context, u64 freed[MAX_CARDS])
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < room;)
        if (owned(&places[i], context)) {
            freed[places[i].card] += places[i].bytes;
            remove_at(i);
        } else {
            i++;
        }
    pthread_mutex_unlock(&lock);
}

void records_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    places = NULL;
    room = filled = 0;
}
