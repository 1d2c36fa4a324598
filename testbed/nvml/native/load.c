/* FAKE, for tests. Processes and utilization. There is one sample of the current values per second. */
#define _GNU_SOURCE
#include <time.h>

#include "session.h"

static const u64 MIB = 1024 * 1024;
static const u64 SECOND_US = 1000 * 1000;

enum { SAMPLES = 60 };

API u32 nvmlDeviceGetUtilizationRates(const void *device, struct utilization *utilization)
{
    CALL_ON(device);
    PUT(&utilization->gpu, card->gpu_util);
    PUT(&utilization->memory, card->memory_util);
    return OK;
}

API u32 nvmlDeviceGetEncoderUtilization(const void *device, u32 *percent, u32 *period_us)
{
    CALL_ON(device);
    PUT(percent, card->encoder_util);
    PUT(period_us, (long long)SECOND_US);
    return OK;
}

API u32 nvmlDeviceGetDecoderUtilization(const void *device, u32 *percent, u32 *period_us)
{
    CALL_ON(device);
    PUT(percent, card->decoder_util);
    PUT(period_us, (long long)SECOND_US);
    return OK;
}

static int processes_of(const struct card *card, enum kind kind)
{
    int count = 0;
    for (int i = 0; i < card->process_count; i++)
        count += card->processes[i].kind == kind;
    return count;
}

/* The result is written to `first` or `second`, depending on the version of the structure. */
static u32 list(const struct card *card, enum kind kind, u32 *room, struct process_v1 *first,
                struct process_v2 *second)
{
    if (!room)
        return INVALID_ARGUMENT;
    u32 had = *room, at = 0;
    *room = (u32)processes_of(card, kind);
    if (had < *room)
        return INSUFFICIENT_SIZE;
    for (int i = 0; i < card->process_count; i++) {
        const struct process *p = &card->processes[i];
        if (p->kind != kind)
            continue;
        u64 used = (u64)p->used_mib * MIB;
        if (first)
            first[at++] = (struct process_v1){p->pid, used};
        else if (second)
            second[at++] = (struct process_v2){p->pid, used, NO_INSTANCE, NO_INSTANCE};
    }
    return OK;
}

#define LISTS(function, kind)                                                             \
    API u32 function(const void *device, u32 *count, struct process_v1 *processes)        \
    {                                                                                     \
        CALL_ON(device);                                                                  \
        return list(card, kind, count, processes, NULL);                                  \
    }                                                                                     \
    API u32 function##_v2(const void *device, u32 *count, struct process_v2 *processes)   \
    {                                                                                     \
        CALL_ON(device);                                                                  \
        return list(card, kind, count, NULL, processes);                                  \
    }                                                                                     \
    API u32 function##_v3(const void *device, u32 *count, struct process_v2 *processes)   \
    {                                                                                     \
        CALL_ON(device);                                                                  \
        return list(card, kind, count, NULL, processes);                                  \
    }

LISTS(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, MPS)

static enum kind kind_of_mode(u32 mode) { return mode == 0 ? COMPUTE : mode == 1 ? GRAPHICS : MPS; }

API u32 nvmlDeviceGetRunningProcessDetailList(const void *device, struct process_list_v1 *found)
{
    CALL_ON(device);
    if (!found)
        return INVALID_ARGUMENT;
    if (found->version != VERSION_OF(struct process_list_v1, 1))
        return VERSION_MISMATCH;
    enum kind kind = kind_of_mode(found->mode);
    u32 had = found->count, at = 0;
    found->count = (u32)processes_of(card, kind);
    if (had < found->count)
        return INSUFFICIENT_SIZE;
    for (int i = 0; found->processes && i < card->process_count; i++) {
        const struct process *p = &card->processes[i];
        if (p->kind == kind)
            found->processes[at++] =
                (struct process_detail_v1){p->pid, (u64)p->used_mib * MIB, NO_INSTANCE, NO_INSTANCE, 0};
    }
    return OK;
}

/* The time of the latest sample, in microseconds since 1970. */
static u64 latest_us(void)
{
    return (u64)time(NULL) * SECOND_US;
}

/* Busy processes; none if the caller has seen the latest sample. */
static u32 busy(const struct card *card, u64 last_seen_us)
{
    u32 count = 0;
    for (int i = 0; i < card->process_count && latest_us() > last_seen_us; i++) {
        const struct process *p = &card->processes[i];
        count += p->sm || p->memory || p->encoder || p->decoder;
    }
    return count;
}

static u32 process_loads(const struct card *card, u64 last_seen_us, u32 *room,
                         struct process_load_v1 *samples)
{
    u32 had = *room, at = 0;
    *room = busy(card, last_seen_us);
    if (!*room)
        return NOT_FOUND;
    if (!samples || had < *room)
        return INSUFFICIENT_SIZE;
    for (int i = 0; at < *room; i++) {
        const struct process *p = &card->processes[i];
        if (p->sm || p->memory || p->encoder || p->decoder)
            samples[at++] = (struct process_load_v1){
                latest_us(), p->pid, p->sm, p->memory, p->encoder, p->decoder, 0, 0};
    }
    return OK;
}

API u32 nvmlDeviceGetProcessUtilization(const void *device, struct process_sample *samples, u32 *count,
                                        u64 last_seen_us)
{
    CALL_ON(device);
    struct process_load_v1 loads[MAX_PROCESSES];
    if (!count)
        return INVALID_ARGUMENT;
    u32 verdict = process_loads(card, last_seen_us, count, samples ? loads : NULL);
    for (u32 i = 0; verdict == OK && i < *count; i++)
        samples[i] = (struct process_sample){loads[i].pid,    loads[i].time_us, loads[i].sm,
                                             loads[i].memory, loads[i].encoder, loads[i].decoder};
    return verdict;
}

API u32 nvmlDeviceGetProcessesUtilizationInfo(const void *device, struct processes_load_v1 *loads)
{
    CALL_ON(device);
    if (!loads)
        return INVALID_ARGUMENT;
    if (loads->version != VERSION_OF(struct processes_load_v1, 1))
        return VERSION_MISMATCH;
    return process_loads(card, loads->last_seen_us, &loads->count, loads->samples);
}

static long long sampled(const struct card *card, u32 type)
{
    const long long values[] = {card->power_mw,     card->gpu_util,     card->memory_util, card->encoder_util,
                                card->decoder_util, card->sm_clock,     card->memory_clock};
    return type < sizeof values / sizeof *values ? values[type] : ABSENT;
}

API u32 nvmlDeviceGetSamples(const void *device, u32 type, u64 last_seen_us, u32 *value_type, u32 *count,
                             struct sample *samples)
{
    CALL_ON(device);
    long long value = sampled(card, type);
    if (!count || !value_type || (samples && !*count))
        return INVALID_ARGUMENT;
    if (value == ABSENT)
        return NOT_SUPPORTED;
    *value_type = VALUE_UINT;
    u64 latest = latest_us();
    u64 fresh = latest > last_seen_us ? (latest - last_seen_us) / SECOND_US : 0;
    u32 offered = fresh > SAMPLES ? SAMPLES : (u32)fresh;
    if (!samples || *count > offered)
        *count = offered;
    if (!offered)
        return NOT_FOUND;
    for (u32 i = 0; samples && i < *count; i++) {
        samples[i].time_us = latest - (u64)(*count - 1 - i) * SECOND_US;
        samples[i].value.u = (u32)value;
    }
    return OK;
}
