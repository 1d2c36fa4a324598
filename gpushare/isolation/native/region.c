#define _GNU_SOURCE
#include "region.h"

#include <string.h>
#include <unistd.h>

#include "alive.h"
#include "kernel.h"
#include "mapping.h"
#include "report.h"

static struct region_slot *mine; /* slot of this process; NULL before its first reservation */
static struct region_slot own;   /* its content, for another slot if others give it away */
static bool counted_crowded;     /* whether this process is among `crowded` */
static u64 looked_at;            /* time of the last look at all processes, in ns; 0 for none */

static const u64 LOOK_LASTS_NS = 100000000;

/* The size of a context of the process in a slot, as the agent measured it; 0 if it has not. */
static u64 measured(const struct region_slot *slot, int card)
{
    const struct region_measure *measure = &region->measures[slot - region->slots];
    bool same = __atomic_load_n(&measure->pid, __ATOMIC_ACQUIRE) == slot->pid && measure->start == slot->start;
    return same ? __atomic_load_n(&measure->context_bytes[card], __ATOMIC_RELAXED) : 0;
}

/* Every increase of the use is followed by this one. */
static void raise_peak(struct region_card *sums)
{
    if (sums->used > sums->peak)
        sums->peak = sums->used;
}

/* What the limit of a GPU counts. */
static u64 counted(const struct region_card *sums)
{
    return sums->used > sums->forgiven ? sums->used - sums->forgiven : 0;
}

/* Charges a process with the measured size of its contexts. */
static void settle(struct region_slot *slot, int card)
{
    struct region_card *sums = &region->cards[card];
    u64 each = measured(slot, card), before = slot->context_bytes[card], bit = 1ull << card;
    if (!each || !slot->contexts[card])
        return;
    bool first = !(slot->corrected & bit);
    slot->corrected |= bit;
    /* May wrap around: the sums are unsigned, and a smaller size subtracts. */
    u64 more = (each - before) * slot->contexts[card];
    slot->context_bytes[card] = each;
    slot->used[card] += more;
    sums->used += more;
    raise_peak(sums);
    if (first && each > before && counted(sums) > sums->limit) {
        slot->forgiven[card] += more;
        sums->forgiven += more;
    }
}

/* Any program of the container can write it. */
static int reached(void)
{
    u32 count = __atomic_load_n(&region->reached, __ATOMIC_RELAXED);
    return count < REGION_SLOTS ? (int)count : REGION_SLOTS;
}

/* Recomputes the sums from the slots. */
static void recount(void)
{
    for (int i = 0; i < reached(); i++)
        for (int card = 0; region->slots[i].pid && card < MAX_CARDS; card++)
            settle(&region->slots[i], card);
    for (int card = 0; card < MAX_CARDS; card++)
        region->cards[card].used = region->cards[card].forgiven = 0;
    for (int i = 0; i < reached(); i++)
        for (int card = 0; region->slots[i].pid && card < MAX_CARDS; card++) {
            region->cards[card].used += region->slots[i].used[card];
            region->cards[card].forgiven += region->slots[i].forgiven[card];
        }
    for (int card = 0; card < MAX_CARDS; card++)
        raise_peak(&region->cards[card]);
}

/* Ended processes, by their slots. */
enum { MOST_ENDED = 64 };

struct processes {
    int count;
    struct process {
        struct region_slot *slot;
        u64 pid, start;
    } each[MOST_ENDED];
};

/* Whether a process executes another program than the one that had the region mapped. To read that takes
   milliseconds, so it is read once for each program. */
static bool left_region(const struct process *process, u64 program)
{
    static u64 known[REGION_SLOTS];
    u64 key = program ^ process->pid << 48 ^ process->start << 16;
    u64 *found = &known[process->slot - region->slots];
    if (program && __atomic_load_n(found, __ATOMIC_RELAXED) == key)
        return false;
    if (mapping_left_by(process->pid))
        return true;
    __atomic_store_n(found, key, __ATOMIC_RELAXED);
    return false;
}

/* The memory of a process is free once it ends or executes another program. */
static bool holds_memory(const struct process *process)
{
    u64 program;
    return process_alive(process->pid, process->start, &program) && !left_region(process, program);
}

static u64 now(void)
{
    struct timespec at;
    kernel_time(CLOCK_MONOTONIC, &at);
    return (u64)at.tv_sec * 1000000000 + (u64)at.tv_nsec;
}

/* Looks at each process other than this one, without the lock: to read /proc can take long. A slot may change
   meanwhile, so its process is compared again before it is removed. `lately`: after a look a moment ago, only what
   ends a process is looked for. */
static void find_ended(struct processes *ended, bool lately)
{
    ended->count = 0;
    for (int i = 0; i < reached() && ended->count < MOST_ENDED; i++) {
        struct region_slot *slot = &region->slots[i];
        struct process process = {slot, __atomic_load_n(&slot->pid, __ATOMIC_RELAXED),
                                  __atomic_load_n(&slot->start, __ATOMIC_RELAXED)};
        if (!process.pid || slot == __atomic_load_n(&mine, __ATOMIC_RELAXED))
            continue;
        if (!(lately && process_runs(process.pid)) && !holds_memory(&process))
            ended->each[ended->count++] = process;
    }
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
    find_ended(&ended, false);
    remove_processes(&ended);
}

/* NULL if all are in use. */
static struct region_slot *empty_slot(void)
{
    for (int i = 0; i < reached(); i++)
        if (!region->slots[i].pid)
            return &region->slots[i];
    int next = reached();
    if (next == REGION_SLOTS)
        return NULL;
    region->reached = (u32)next + 1;
    return &region->slots[next];
}

/* Before exec, which keeps the start, this process may have had a slot; that memory is free. With another start it
   is an ended process, or one that has the same PID in another namespace; a start that could not be read is 0. */
static void remove_former_self(u64 pid, u64 start)
{
    for (int i = 0; i < reached(); i++) {
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
    __atomic_store_n(&mine, slot, __ATOMIC_RELAXED);
    recount();
    return true;
}

static bool fits(int card, u64 bytes)
{
    const struct region_card *sums = &region->cards[card];
    settle(mine, card);
    return counted(sums) <= sums->limit && bytes <= sums->limit - counted(sums);
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
    /* Clamped: a container may write its region, and a sum below 0 would be a huge one. */
    u64 freed = bytes < mine->used[card] ? bytes : mine->used[card];
    mine->used[card] -= freed;
    region->cards[card].used -= freed < region->cards[card].used ? freed : region->cards[card].used;
}

static void leave_context(int card)
{
    if (!mine->contexts[card])
        return;
    u64 share = mine->forgiven[card] / mine->contexts[card];
    uncount(card, mine->context_bytes[card]);
    mine->forgiven[card] -= share;
    region->cards[card].forgiven -= share < region->cards[card].forgiven ? share : region->cards[card].forgiven;
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
    counted_crowded = false;
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

/* Whether all processes were looked at a moment ago. Near the limit a program may be refused thousands of times a
   second, and a look takes 12 us for each process. */
static bool looked_lately(void)
{
    u64 last = __atomic_load_n(&looked_at, __ATOMIC_RELAXED);
    return last && now() - last < LOOK_LASTS_NS;
}

/* Acquires the lock after the slots of ended processes are removed. For a moment after a look, those of processes that
   have executed another program stay. */
static bool enter_without_dead(void)
{
    struct processes ended;
    bool lately = looked_lately();
    if (!mapping_intact())
        return false;
    do {
        find_ended(&ended, lately);
        if (!lately && ended.count < MOST_ENDED)
            __atomic_store_n(&looked_at, now(), __ATOMIC_RELAXED);
        if (!enter())
            return false;
        remove_processes(&ended);
        if (ended.count < MOST_ENDED)
            return true;
        leave();
    } while (true);
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

/* After a refusal: tells the user and the node agent if the reason is that no slot was free. Always false. */
static bool no_slot(void)
{
    static int reported;
    if (mine || !enter())
        return false;
    bool full = !have_slot();
    if (full && !counted_crowded)
        region->crowded++;
    counted_crowded = counted_crowded || full;
    leave();
    if (full)
        report_once(&reported,
                    "%d processes of this container use GPUs, and more cannot be counted: GPU memory allocations of this "
                    "one fail until one of them ends",
                    REGION_SLOTS);
    return false;
}

bool region_reserve(int card, u64 bytes)
{
    return reserve(enter, card, bytes) || reserve(enter_without_dead, card, bytes) || no_slot();
}

bool region_reserve_again(int card, u64 bytes) { return reserve(enter, card, bytes); }

/* A request that no limit admits, since it is larger than what is left of the GPU, is counted only. */
static void count_refusal(int card, u64 bytes, u64 memory)
{
    struct region_card *sums = &region->cards[card];
    u64 needed;
    sums->refusals++;
    if (__builtin_add_overflow(counted(sums), bytes, &needed) || needed > memory)
        return;
    if (bytes > sums->refused)
        sums->refused = bytes;
    if (needed > sums->needed)
        sums->needed = needed;
}

void region_refused(int card, u64 bytes, u64 memory)
{
    if (!enter())
        return;
    if (mine)
        count_refusal(card, bytes, memory);
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
    for (int i = 0; i < reached(); i++) {
        u64 each = region->slots[i].pid ? measured(&region->slots[i], card) : 0;
        if (each && (!least || each < least))
            least = each;
    }
    return least ? least : estimate;
}

void region_context_refused(int card, u64 estimate, u64 memory)
{
    if (!enter())
        return;
    if (mine)
        count_refusal(card, expected_context(card, estimate), memory);
    leave();
}

static bool add_context(int card, u64 estimate)
{
    if (!have_slot())
        return false;
    if (!mine->contexts[card])
        mine->context_bytes[card] = expected_context(card, estimate);
    settle(mine, card);
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
    return enter_context(enter, card, estimate) || enter_context(enter_without_dead, card, estimate) || no_slot();
}

bool region_enter_context_again(int card, u64 estimate) { return enter_context(enter, card, estimate); }

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
    *bytes = counted(&region->cards[card]);
    leave();
    return true;
}
