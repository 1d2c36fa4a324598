#define _GNU_SOURCE
#include "region.h"

#include <string.h>
#include <unistd.h>

#include "alive.h"
#include "mapping.h"

static struct region_slot *mine; /* slot of this process; NULL before its first reservation */

void region_forget_slot(void) { mine = NULL; }

/* The size of a context of the process in a slot, as the agent measured it; 0 if it has not. */
static u64 measured(const struct region_slot *slot, int card)
{
    const struct region_measure *measure = &region->measures[slot - region->slots];
    bool same = __atomic_load_n(&measure->pid, __ATOMIC_ACQUIRE) == slot->pid && measure->start == slot->start;
    return same ? __atomic_load_n(&measure->context_bytes[card], __ATOMIC_RELAXED) : 0;
}

/* Charges a process with the measured size of its contexts; returns the increase. */
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

/* Recomputes the sums from the slots. */
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

/* Removes the slots of processes that have ended; repairs the sums if one ended while it changed them. */
static void remove_dead(void)
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

/* Before exec this process may have had a slot; that memory is free. */
static void remove_former_self(void)
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
    remove_former_self();
    struct region_slot *slot = empty_slot();
    if (!slot) {
        remove_dead();
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

/* Whether that many bytes are free, after the slots of ended processes are removed if necessary. */
static bool has_free(int card, u64 bytes)
{
    region->cards[card].used += settle(mine, card);
    if (fits(&region->cards[card], bytes))
        return true;
    remove_dead();
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
    if (!mapping_enter(remove_dead))
        return false;
    bool reserved = have_slot() && has_free(card, bytes);
    if (reserved)
        count(card, bytes);
    mapping_leave();
    return reserved;
}

void region_refused(int card)
{
    if (!mapping_enter(remove_dead))
        return;
    region->cards[card].refusals++;
    mapping_leave();
}

void region_force(int card, u64 bytes)
{
    if (!mapping_enter(remove_dead))
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
    if (!mapping_enter(remove_dead))
        return;
    if (mine)
        uncount(card, bytes);
    mapping_leave();
}

static bool enter_context(int card, u64 estimate)
{
    if (!have_slot())
        return false;
    if (!mine->contexts[card])
        mine->context_bytes[card] = estimate;
    region->cards[card].used += settle(mine, card);
    if (!has_free(card, mine->context_bytes[card]))
        return false;
    mine->contexts[card]++;
    count(card, mine->context_bytes[card]);
    return true;
}

bool region_enter_context(int card, u64 estimate)
{
    if (!mapping_enter(remove_dead))
        return false;
    bool entered = enter_context(card, estimate);
    mapping_leave();
    return entered;
}

void region_leave_context(int card)
{
    if (!mapping_enter(remove_dead))
        return;
    if (mine && mine->contexts[card]) {
        uncount(card, mine->context_bytes[card]);
        mine->contexts[card]--;
    }
    mapping_leave();
}

bool region_used(int card, u64 *bytes)
{
    if (!mapping_enter(remove_dead))
        return false;
    remove_dead();
    *bytes = region->cards[card].used;
    mapping_leave();
    return true;
}
