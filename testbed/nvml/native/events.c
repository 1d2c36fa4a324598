/* FAKE, for tests. Event sets: events after the registration of a GPU, oldest first. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"

struct set {
    u64 types[MAX_CARDS]; /* by handle */
    u64 seen;             /* number of the last event that was delivered, or that preceded the set */
    int registered;
};

static const u64 moment_ms = 50;

API u32 nvmlDeviceGetSupportedEventTypes(const void *device, u64 *types)
{
    CALL_ON(device);
    PUT(types, card->events);
    return OK;
}

API u32 nvmlEventSetCreate(struct set **set)
{
    CALL();
    if (!set)
        return INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    return *set ? OK : UNKNOWN;
}

static u64 last_event(void)
{
    const struct state *state = state_now();
    return state->event_count ? state->events[state->event_count - 1].number : 0;
}

API u32 nvmlDeviceRegisterEvents(const void *device, u64 types, struct set *set)
{
    CALL_ON(device);
    if (!set)
        return INVALID_ARGUMENT;
    if (card->events == ABSENT || types & ~(u64)card->events)
        return NOT_SUPPORTED;
    if (!set->registered++)
        set->seen = last_event();
    set->types[session_index(device)] |= types;
    return OK;
}

/* An event without a GPU, or of a GPU without a handle in this session, goes to every set. */
static bool wanted(const struct set *set, const struct event *event, const void **device)
{
    *device = session_handle_of(event->uuid);
    return !*device || (set->types[session_index(*device)] & event->type);
}

static bool deliver(struct set *set, struct event_v1 *data)
{
    const struct state *state = state_now();
    for (int i = 0; i < state->event_count; i++) {
        const struct event *event = &state->events[i];
        if (event->number <= set->seen)
            continue;
        set->seen = event->number;
        if (wanted(set, event, &data->device)) {
            data->type = event->type;
            data->data = event->data;
            return true;
        }
    }
    return false;
}

static u32 look(const char *function, struct set *set, struct event_v1 *data)
{
    u32 verdict = session_begin(function, NULL, NULL);
    if (verdict != OK)
        return verdict;
    verdict = deliver(set, data) ? OK : TIMED_OUT;
    session_end();
    return verdict;
}

static u64 now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000 + (u64)now.tv_nsec / 1000000;
}

static u32 wait_for(const char *function, struct set *set, struct event_v1 *data, u32 timeout_ms)
{
    u64 until = now_ms() + timeout_ms;
    if (!set || !data)
        return INVALID_ARGUMENT;
    for (;;) {
        u32 verdict = look(function, set, data);
        u64 now = now_ms();
        if (verdict != TIMED_OUT || now >= until)
            return verdict;
        u64 pause_ms = until - now < moment_ms ? until - now : moment_ms;
        nanosleep(&(struct timespec){.tv_nsec = (long)pause_ms * 1000000}, NULL);
    }
}

API u32 nvmlEventSetWait(struct set *set, struct event_v1 *data, u32 timeout_ms)
{
    return wait_for(__func__, set, data, timeout_ms);
}

API u32 nvmlEventSetWait_v2(struct set *set, struct event_v2 *data, u32 timeout_ms)
{
    struct event_v1 found = {0};
    if (!data)
        return INVALID_ARGUMENT;
    u32 verdict = wait_for(__func__, set, &found, timeout_ms);
    if (verdict == OK)
        *data = (struct event_v2){found.device, found.type, found.data, NO_INSTANCE, NO_INSTANCE};
    return verdict;
}

API u32 nvmlEventSetFree(struct set *set)
{
    CALL();
    free(set);
    return OK;
}
