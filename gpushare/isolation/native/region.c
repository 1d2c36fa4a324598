#define _GNU_SOURCE
#include "region.h"

#include <string.h>
#include <unistd.h>

#include "alive.h"
#include "mapping.h"

static struct region_slot *mine; /* slot of this process; NULL before its first reservation */
static struct region_slot own;   /* its content, for another slot if others give it away */

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

/* Every increase of the use is followed by this one. */
static void raise_peak(struct region_card *sums)
{
    if (sums->used > sums->peak)
        sums->peak = sums->used;
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
    for (int card = 0; card < MAX_CARDS; card++)
        raise_peak(&region->cards[card]);
}

/* Processes other than this one, by their slots. */
struct processes {
    int count;
    struct {
        struct region_slot *slot;
        u64 pid, start;
    } each[REGION_SLOTS];
};

static void list_others(struct processes *others)
{
    others->count = 0;
    for (int i = 0; i < REGION_SLOTS; i++) {
        struct region_slot *slot = &region->slots[i];
        if (!slot->pid || slot == mine)
            continue;
        others->each[others->count].slot = slot;
        others->each[others->count].pid = slot->pid;
        others->each[others->count++].start = slot->start;
    }
}

/* Whether a process executes another program than the one that had the region mapped. To read that takes
   milliseconds, so it is read once for each program. */
static bool left_region(const struct region_slot *slot, u64 pid, u64 start)
{
    static u64 known[REGION_SLOTS];
    u64 program = process_program(pid), key = program ^ pid << 48 ^ start << 16;
    u64 *found = &known[slot - region->slots];
    if (program && __atomic_load_n(found, __ATOMIC_RELAXED) == key)
        return false;
    if (mapping_left_by(pid))
        return true;
    __atomic_store_n(found, key, __ATOMIC_RELAXED);
    return false;
}

/* The memory of a process is free once it ends or executes another program. */
static void drop_living(struct processes *listed)
{
    int count = 0;
    for (int i = 0; i < listed->count; i++) {
        u64 pid = listed->each[i].pid, start = listed->each[i].start;
        if (!process_alive(pid, start) || left_region(listed->each[i].slot, pid, start))
            listed->each[count++] = listed->each[i];
    }
    listed->count = count;
}

/* Removes slots that still belong to these processes; repairs the sums if one ended while it changed them. */
static void remove_processes(const struct processes *ended)
{
    for (int i = 0; i < ended->count; i++) {
        struct region_slot *slot = ended->each[i].slot;
        if (slot->pid == ended->each[i].pid && slot->start == ended->each[i].start)
            memset(slot, 0, sizeof *slot);
    }
    recount();
}

static void remove_dead(void)
{
    struct processes ended;
    list_others(&ended);
    drop_living(&ended);
    remove_processes(&ended);
}

static struct region_slot *empty_slot(void)
{
    for (int i = 0; i < REGION_SLOTS; i++)
        if (!region->slots[i].pid)
            return &region->slots[i];
    return NULL;
}

/* Before exec, which keeps the start, this process may have had a slot; that memory is free. With another start it
   is an ended process, or one that has the same PID in another namespace; a start that could not be read is 0. */
static void remove_former_self(u64 pid, u64 start)
{
    for (int i = 0; i < REGION_SLOTS; i++) {
        struct region_slot *slot = &region->slots[i];
        if (slot->pid == pid && (slot->start == start || !slot->start || !start))
            memset(slot, 0, sizeof *slot);
    }
    recount();
}

static bool have_slot(void)
{
    if (mine)
        return true;
    if (!own.pid) {
        own.pid = (u64)getpid();
        own.start = process_start(own.pid);
    }
    remove_former_self(own.pid, own.start);
    struct region_slot *slot = empty_slot();
    if (!slot)
        return false;
    *slot = own;
    mine = slot;
    recount();
    return true;
}

static void settle_own(int card)
{
    region->cards[card].used += settle(mine, card);
    raise_peak(&region->cards[card]);
}

static bool fits(int card, u64 bytes)
{
    const struct region_card *sums = &region->cards[card];
    settle_own(card);
    return sums->used <= sums->limit && bytes <= sums->limit - sums->used;
}

static void count(int card, u64 bytes)
{
    struct region_card *sums = &region->cards[card];
    mine->used[card] += bytes;
    sums->used += bytes;
    raise_peak(sums);
}

static void uncount(int card, u64 bytes)
{
    u64 freed = bytes < mine->used[card] ? bytes : mine->used[card];
    mine->used[card] -= freed;
    region->cards[card].used -= freed < region->cards[card].used ? freed : region->cards[card].used;
}

static void leave_context(int card)
{
    if (!mine->contexts[card])
        return;
    uncount(card, mine->context_bytes[card]);
    mine->contexts[card]--;
}

/* Changes of this process that could not get the lock: its next call that gets it applies them. */
static struct {
    bool any;
    int64_t bytes[MAX_CARDS]; /* negative if more was released than counted */
    int64_t managed[MAX_CARDS];
    u32 left[MAX_CARDS]; /* contexts */
} deferred;

static void defer(int card, int64_t bytes, u32 left)
{
    __atomic_fetch_add(&deferred.bytes[card], bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&deferred.left[card], left, __ATOMIC_RELAXED);
    __atomic_store_n(&deferred.any, true, __ATOMIC_RELEASE);
}

static void defer_managed(int card, int64_t change)
{
    __atomic_fetch_add(&deferred.managed[card], change, __ATOMIC_RELAXED);
    __atomic_store_n(&deferred.any, true, __ATOMIC_RELEASE);
}

static void apply_deferred(void)
{
    if (!__atomic_load_n(&deferred.any, __ATOMIC_RELAXED) || !have_slot())
        return;
    __atomic_store_n(&deferred.any, false, __ATOMIC_SEQ_CST);
    for (int card = 0; card < MAX_CARDS; card++) {
        int64_t bytes = __atomic_exchange_n(&deferred.bytes[card], 0, __ATOMIC_RELAXED);
        u32 left = __atomic_exchange_n(&deferred.left[card], 0, __ATOMIC_RELAXED);
        mine->managed[card] += (u64)__atomic_exchange_n(&deferred.managed[card], 0, __ATOMIC_RELAXED);
        if (bytes > 0)
            count(card, (u64)bytes);
        else if (bytes < 0)
            uncount(card, -(u64)bytes);
        for (; left && mine->contexts[card]; left--)
            leave_context(card);
    }
}

void region_forget_slot(void)
{
    mine = NULL;
    memset(&own, 0, sizeof own);
    memset(&deferred, 0, sizeof deferred);
}

/* Other processes remove the slot of this one if it looks dead to them, as in its own PID namespace. */
static void check_slot(void)
{
    if (!mine || (mine->pid == own.pid && mine->start == own.start))
        return;
    mine = NULL;
    have_slot();
}

/* Acquires the lock. False if it is not available. */
static bool enter(void)
{
    if (!mapping_enter(remove_dead))
        return false;
    check_slot();
    apply_deferred();
    return true;
}

static void leave(void)
{
    if (mine)
        own = *mine;
    mapping_leave();
}

/* Acquires the lock after the slots of ended processes are removed. The lock is not held while /proc is read,
   which can take long. */
static bool enter_without_dead(void)
{
    struct processes ended;
    if (!enter())
        return false;
    list_others(&ended);
    if (ended.count) {
        leave();
        drop_living(&ended);
        if (!enter())
            return false;
    }
    remove_processes(&ended);
    return true;
}

static bool reserve(bool (*enter_region)(void), int card, u64 bytes)
{
    if (!enter_region())
        return false;
    bool reserved = have_slot() && fits(card, bytes);
    if (reserved)
        count(card, bytes);
    leave();
    return reserved;
}

bool region_reserve(int card, u64 bytes)
{
    return reserve(enter, card, bytes) || reserve(enter_without_dead, card, bytes);
}

void region_refused(int card)
{
    if (!enter())
        return;
    region->cards[card].refusals++;
    leave();
}

void region_managed(int card, int64_t change)
{
    if (!enter()) {
        defer_managed(card, change);
        return;
    }
    if (mine)
        mine->managed[card] += (u64)change;
    leave();
}

static bool force(bool (*enter_region)(void), int card, u64 bytes)
{
    if (!enter_region())
        return false;
    bool forced = have_slot();
    if (forced)
        count(card, bytes);
    leave();
    return forced;
}

void region_force(int card, u64 bytes)
{
    if (!force(enter, card, bytes) && !force(enter_without_dead, card, bytes))
        defer(card, (int64_t)bytes, 0);
}

void region_release(int card, u64 bytes)
{
    if (!enter()) {
        defer(card, -(int64_t)bytes, 0);
        return;
    }
    if (mine)
        uncount(card, bytes);
    leave();
}

/* The smallest size measured in this container: a process that has loaded much code measures larger than one that
   begins. */
static u64 expected_context(int card, u64 estimate)
{
    u64 least = 0;
    for (int i = 0; i < REGION_SLOTS; i++) {
        u64 each = region->slots[i].pid ? measured(&region->slots[i], card) : 0;
        if (each && (!least || each < least))
            least = each;
    }
    return least ? least : estimate;
}

static bool add_context(int card, u64 estimate)
{
    if (!have_slot())
        return false;
    if (!mine->contexts[card])
        mine->context_bytes[card] = expected_context(card, estimate);
    settle_own(card);
    if (!fits(card, mine->context_bytes[card]))
        return false;
    mine->contexts[card]++;
    count(card, mine->context_bytes[card]);
    return true;
}

static bool enter_context(bool (*enter_region)(void), int card, u64 estimate)
{
    if (!enter_region())
        return false;
    bool entered = add_context(card, estimate);
    leave();
    return entered;
}

bool region_enter_context(int card, u64 estimate)
{
    return enter_context(enter, card, estimate) || enter_context(enter_without_dead, card, estimate);
}

void region_leave_context(int card)
{
    if (!enter()) {
        defer(card, 0, 1);
        return;
    }
    if (mine)
        leave_context(card);
    leave();
}

bool region_used(int card, u64 *bytes)
{
    if (!enter_without_dead())
        return false;
    *bytes = region->cards[card].used;
    leave();
    return true;
}
