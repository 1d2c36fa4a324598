#define _GNU_SOURCE
#include "region.h"

#include <string.h>
#include <unistd.h>

#include "alive.h"
#include "mapping.h"

static struct region_slot *mine; /* of this process; NULL before its first reservation */

void region_forget_slot(void) { mine = NULL; }

/* What the agent has measured of the process in a slot; 0 where it has not. */
static u64 measured(const struct region_slot *slot, int card)
{
    const struct region_measure *measure = &region->measures[slot - region->slots];
    bool same = __atomic_load_n(&measure->pid, __ATOMIC_ACQUIRE) == slot->pid && measure->start == slot->start;
    return same ? __atomic_load_n(&measure->context_bytes[card], __ATOMIC_RELAXED) : 0;
}

/* A process is charged with what its contexts were measured to take; tells by how much that is more. */
static u64 settle(struct region_slot *slot, int card)
{
    u64 each = measured(slot, card), before = slot->context_bytes[card];
    if (!each || each == before)
        return 0;
    u64 more = (each - before) * slot->contexts[card];
    slot->context_bytes[card] = each;
    slot->used[card] += more;
    return more;
}

/* The sums follow from the slots: after a holder died in between, or to clear away the dead. */
static void recount(void)
{
    for (int card = 0; card < MAX_CARDS; card++)
        region->cards[card].used = 0;
    for (int i = 0; i < REGION_SLOTS; i++)
        for (int card = 0; region->slots[i].pid && card < MAX_CARDS; card++) {
            settle(&region->slots[i], card);
            region->cards[card].used += region->slots[i].used[card];
        }
}

static void bury(void)
{
    for (int i = 0; i < REGION_SLOTS; i++) {
        struct region_slot *slot = &region->slots[i];
        if (slot->pid && slot != mine && !process_alive(slot->pid, slot->start))
            memset(slot, 0, sizeof *slot);
    }
    recount();
}

static struct region_slot *empty_slot(void)
{
    for (int i = 0; i < REGION_SLOTS; i++)
        if (!region->slots[i].pid)
            return &region->slots[i];
    return NULL;
}

/* Before exec this process may have been another program, whose memory is gone. */
static void bury_former_self(void)
{
    u64 self = (u64)getpid();
    for (int i = 0; i < REGION_SLOTS; i++)
        if (region->slots[i].pid == self)
            memset(&region->slots[i], 0, sizeof region->slots[i]);
    recount();
}

static bool have_slot(void)
{
    if (mine)
        return true;
    bury_former_self();
    struct region_slot *slot = empty_slot();
    if (!slot) {
        bury();
        slot = empty_slot();
    }
    if (!slot)
        return false;
    memset(slot, 0, sizeof *slot);
    slot->start = process_start((u64)getpid());
    slot->pid = (u64)getpid();
    mine = slot;
    return true;
}

static bool fits(const struct region_card *card, u64 bytes)
{
    return card->used <= card->limit && bytes <= card->limit - card->used;
}

/* Whether so much is left, when the dead have been cleared away. */
static bool room_for(int card, u64 bytes)
{
    region->cards[card].used += settle(mine, card);
    if (fits(&region->cards[card], bytes))
        return true;
    bury();
    return fits(&region->cards[card], bytes);
}

static void count(int card, u64 bytes)
{
    struct region_card *sums = &region->cards[card];
    mine->used[card] += bytes;
    sums->used += bytes;
    if (sums->used > sums->peak)
        sums->peak = sums->used;
}

bool region_reserve(int card, u64 bytes)
{
    if (!mapping_enter(bury))
        return false;
    bool room = have_slot() && room_for(card, bytes);
    if (room)
        count(card, bytes);
    mapping_leave();
    return room;
}

void region_refused(int card)
{
    if (!mapping_enter(bury))
        return;
    region->cards[card].refusals++;
    mapping_leave();
}

void region_force(int card, u64 bytes)
{
    if (!mapping_enter(bury))
        return;
    if (have_slot())
        count(card, bytes);
    mapping_leave();
}

static void uncount(int card, u64 bytes)
{
    u64 freed = bytes < mine->used[card] ? bytes : mine->used[card];
    mine->used[card] -= freed;
    region->cards[card].used -= freed < region->cards[card].used ? freed : region->cards[card].used;
}

void region_release(int card, u64 bytes)
{
    if (!mapping_enter(bury))
        return;
    if (mine)
        uncount(card, bytes);
    mapping_leave();
}

static bool enter_context(int card, u64 guess)
{
    if (!have_slot())
        return false;
    if (!mine->contexts[card])
        mine->context_bytes[card] = guess;
    region->cards[card].used += settle(mine, card);
    if (!room_for(card, mine->context_bytes[card]))
        return false;
    mine->contexts[card]++;
    count(card, mine->context_bytes[card]);
    return true;
}

bool region_enter_context(int card, u64 guess)
{
    if (!mapping_enter(bury))
        return false;
    bool room = enter_context(card, guess);
    mapping_leave();
    return room;
}

void region_leave_context(int card)
{
    if (!mapping_enter(bury))
        return;
    if (mine && mine->contexts[card]) {
        uncount(card, mine->context_bytes[card]);
        mine->contexts[card]--;
    }
    mapping_leave();
}

bool region_used(int card, u64 *bytes)
{
    if (!mapping_enter(bury))
        return false;
    bury();
    *bytes = region->cards[card].used;
    mapping_leave();
    return true;
}
