/* FAKE, for tests. nvmlInit, nvmlShutdown, and the prologue of every other call. */
#define _GNU_SOURCE
#include "session.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct handle {
    char uuid[TEXT];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle handles[MAX_CARDS];
static int handle_count, sessions;

/* The version of this library. A real one belongs to one driver: after the driver was replaced, each call
   fails until the process ends. */
static char own_version[TEXT];

static const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};

int session_cards(void) { return handle_count; }

const void *session_handle(int index) { return &handles[index]; }

int session_index(const void *device)
{
    for (int i = 0; i < handle_count; i++)
        if (device == &handles[i])
            return i;
    return -1;
}

const void *session_handle_of(const char *uuid)
{
    for (int i = 0; i < handle_count; i++)
        if (!strcmp(handles[i].uuid, uuid))
            return &handles[i];
    return NULL;
}

static const struct card *card_of(const char *uuid)
{
    const struct state *state = state_now();
    for (int i = 0; i < state->card_count; i++)
        if (!strcmp(state->cards[i].uuid, uuid))
            return &state->cards[i];
    return NULL;
}

u32 session_failure(const char *function, const char *uuid)
{
    const struct state *state = state_now();
    for (int i = 0; i < state->failure_count; i++) {
        const struct failure *f = &state->failures[i];
        bool here = !strcmp(f->uuid, "-") || (uuid && !strcmp(f->uuid, uuid));
        if (here && !strcmp(f->function, function))
            return f->code;
    }
    return OK;
}

static u32 driver_verdict(void)
{
    const struct state *state = state_now();
    if (!*own_version)
        memcpy(own_version, state->driver, TEXT);
    if (!state->loaded)
        return DRIVER_NOT_LOADED;
    return strcmp(own_version, state->driver) ? LIB_RM_VERSION_MISMATCH : OK;
}

/* Takes the lock and reads the state; blocks while the fake hangs. */
static u32 answer(void)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        u32 verdict = state_refresh();
        if (verdict != OK)
            return verdict;
        if (!state_now()->hang)
            return driver_verdict();
        pthread_mutex_unlock(&lock);
        nanosleep(&moment, NULL);
    }
}

static u32 device_verdict(const void *device, const char **uuid, const struct card **card)
{
    int index = session_index(device);
    if (index < 0)
        return INVALID_ARGUMENT;
    *uuid = handles[index].uuid;
    *card = card_of(*uuid);
    return !*card || (*card)->lost == 1 ? GPU_IS_LOST : OK;
}

u32 session_begin(const char *function, const void *device, const struct card **card)
{
    const char *uuid = NULL;
    u32 verdict = answer();
    if (verdict == OK && !sessions)
        verdict = UNINITIALIZED;
    if (verdict == OK && card)
        verdict = device_verdict(device, &uuid, card);
    if (verdict == OK)
        verdict = session_failure(function, uuid);
    if (verdict != OK)
        pthread_mutex_unlock(&lock);
    return verdict;
}

void session_end(void) { pthread_mutex_unlock(&lock); }

u32 session_text(char *target, u32 size, const char *text)
{
    if (!target)
        return INVALID_ARGUMENT;
    return (u32)snprintf(target, size, "%s", text) < size ? OK : INSUFFICIENT_SIZE;
}

static void hand_out(void)
{
    const struct state *state = state_now();
    handle_count = state->card_count;
    for (int i = 0; i < handle_count; i++)
        memcpy(handles[i].uuid, state->cards[i].uuid, TEXT);
}

/* Failures of all variants are described as "nvmlInit". */
API u32 nvmlInitWithFlags(u32 flags)
{
    (void)flags;
    u32 verdict = answer();
    if (verdict == OK)
        verdict = session_failure("nvmlInit", NULL);
    if (verdict == OK && sessions++ == 0)
        hand_out();
    pthread_mutex_unlock(&lock);
    return verdict;
}

API u32 nvmlInit(void) { return nvmlInitWithFlags(0); }

API u32 nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

/* Needs no driver. */
API u32 nvmlShutdown(void)
{
    answer();
    u32 verdict = sessions ? session_failure("nvmlShutdown", NULL) : UNINITIALIZED;
    if (verdict == OK)
        sessions--;
    pthread_mutex_unlock(&lock);
    return verdict;
}

API const char *nvmlErrorString(u32 result)
{
    switch (result) {
    case OK:
        return "Success";
    case NOT_SUPPORTED:
        return "Not Supported";
    case GPU_IS_LOST:
        return "GPU is lost";
    case TIMED_OUT:
        return "Timeout";
    case UNKNOWN:
        return "Unknown Error";
    default:
        return "an error of the stub NVML";
    }
}

API u32 nvmlSystemGetDriverVersion(char *version, u32 length)
{
    CALL();
    return session_text(version, length, state_now()->driver);
}

API u32 nvmlSystemGetNVMLVersion(char *version, u32 length)
{
    CALL();
    return session_text(version, length, state_now()->nvml);
}

API u32 nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    CALL();
    PUT(version, state_now()->cuda);
    return OK;
}

API u32 nvmlSystemGetCudaDriverVersion(int *version)
{
    CALL();
    PUT(version, state_now()->cuda);
    return OK;
}
