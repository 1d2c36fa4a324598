/* FAKE, for tests. Sensors: temperature, power, clocks, errors, bus. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "session.h"

NUMBER_OF(nvmlDeviceGetFanSpeed, fan, u32)
NUMBER_OF(nvmlDeviceGetPowerUsage, power_mw, u32)
NUMBER_OF(nvmlDeviceGetPowerManagementLimit, power_limit_mw, u32)
NUMBER_OF(nvmlDeviceGetEnforcedPowerLimit, power_limit_mw, u32)
NUMBER_OF(nvmlDeviceGetTotalEnergyConsumption, energy_mj, u64)
NUMBER_OF(nvmlDeviceGetPerformanceState, pstate, u32)
NUMBER_OF(nvmlDeviceGetCurrentClocksThrottleReasons, throttle_reasons, u64)
NUMBER_OF(nvmlDeviceGetCurrentClocksEventReasons, throttle_reasons, u64)
NUMBER_OF(nvmlDeviceGetPcieReplayCounter, pcie_replays, u32)
NUMBER_OF(nvmlDeviceGetCurrPcieLinkGeneration, pcie_gen, u32)
NUMBER_OF(nvmlDeviceGetCurrPcieLinkWidth, pcie_width, u32)
NUMBER_OF(nvmlDeviceGetMaxPcieLinkGeneration, pcie_max_gen, u32)
NUMBER_OF(nvmlDeviceGetMaxPcieLinkWidth, pcie_max_width, u32)

API u32 nvmlDeviceGetTemperature(const void *device, u32 sensor, u32 *celsius)
{
    CALL_ON(device);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    PUT(celsius, card->temperature);
    return OK;
}

API u32 nvmlDeviceGetTemperatureV(const void *device, struct temperature_v1 *temperature)
{
    CALL_ON(device);
    if (!temperature || temperature->sensor != 0)
        return INVALID_ARGUMENT;
    if (temperature->version != VERSION_OF(struct temperature_v1, 1))
        return VERSION_MISMATCH;
    PUT(&temperature->celsius, card->temperature);
    return OK;
}

/* Kinds of clock: graphics and SM run together, memory, video. */
static long long clock_of(u32 kind, long long sm, long long memory, long long video)
{
    const long long clocks[] = {sm, sm, memory, video};
    return kind < 4 ? clocks[kind] : ABSENT;
}

API u32 nvmlDeviceGetClockInfo(const void *device, u32 kind, u32 *mhz)
{
    CALL_ON(device);
    PUT(mhz, clock_of(kind, card->sm_clock, card->memory_clock, card->video_clock));
    return OK;
}

API u32 nvmlDeviceGetMaxClockInfo(const void *device, u32 kind, u32 *mhz)
{
    CALL_ON(device);
    PUT(mhz, clock_of(kind, card->max_sm_clock, card->max_memory_clock, card->max_video_clock));
    return OK;
}

API u32 nvmlDeviceGetEccMode(const void *device, u32 *now, u32 *pending)
{
    CALL_ON(device);
    PUT(now, card->ecc);
    PUT(pending, card->ecc);
    return OK;
}

/* Since the driver was loaded (counter 0), or over the lifetime of the GPU (1). */
static long long ecc_errors(const struct card *card, u32 kind, u32 counter)
{
    const long long found[2][2] = {{card->ecc_corrected, card->ecc_corrected_ever},
                                   {card->ecc_uncorrected, card->ecc_uncorrected_ever}};
    return kind < 2 && counter < 2 && card->ecc == 1 ? found[kind][counter] : ABSENT;
}

API u32 nvmlDeviceGetTotalEccErrors(const void *device, u32 kind, u32 counter, u64 *count)
{
    CALL_ON(device);
    PUT(count, ecc_errors(card, kind, counter));
    return OK;
}

API u32 nvmlDeviceGetRemappedRows(const void *device, u32 *corrected, u32 *uncorrected, u32 *pending,
                                  u32 *failed)
{
    CALL_ON(device);
    PUT(corrected, card->remapped_corrected);
    PUT(uncorrected, card->remapped_uncorrected);
    PUT(pending, card->remap_pending);
    PUT(failed, card->remap_failed);
    return OK;
}

API u32 nvmlDeviceGetPcieThroughput(const void *device, u32 counter, u32 *kib_per_s)
{
    CALL_ON(device);
    if (counter > 1)
        return INVALID_ARGUMENT;
    PUT(kib_per_s, counter == 0 ? card->pcie_tx_kib : card->pcie_rx_kib);
    return OK;
}

#define FIELD_RECOVERY_ACTION 230

/* NVML_FI_DEV_…: the fields without a function, and related ones. */
static long long field(const struct card *card, u32 id, u32 *type)
{
    *type = id >= 3 && id <= 6 ? VALUE_U64 : VALUE_UINT;
    switch (id) {
    case 3:
        return ecc_errors(card, 0, 0);
    case 4:
        return ecc_errors(card, 1, 0);
    case 5:
        return ecc_errors(card, 0, 1);
    case 6:
        return ecc_errors(card, 1, 1);
    case 82:
        return card->memory_temperature;
    case 83:
        *type = VALUE_U64;
        return card->energy_mj;
    case 91:
        return card->nvlinks;
    case 94:
        return card->pcie_replays;
    case FIELD_RECOVERY_ACTION:
        return card->recovery_action;
    default:
        return ABSENT;
    }
}

/* A number that is not in the header of the driver is invalid, other fields may be missing on the GPU. */
static u32 field_verdict(const struct card *card, u32 id, long long number)
{
    char function[TEXT];
    snprintf(function, sizeof function, "nvmlDeviceGetFieldValues[%u]", id);
    u32 described = session_failure(function, card->uuid);
    if (described != OK)
        return described;
    if (id == FIELD_RECOVERY_ACTION && !state_now()->recovery_action_known)
        return INVALID_ARGUMENT;
    return number == ABSENT ? NOT_SUPPORTED : OK;
}

/* Succeeds although fields fail; the value of one that fails is left as it is. */
API u32 nvmlDeviceGetFieldValues(const void *device, int count, struct field_value *values)
{
    CALL_ON(device);
    if (count < 0 || !values)
        return INVALID_ARGUMENT;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        long long number = field(card, values[i].field, &values[i].type);
        values[i].time_us = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
        values[i].latency_us = 0;
        values[i].result = field_verdict(card, values[i].field, number);
        if (values[i].result == OK)
            values[i].value.ull = (u64)number;
    }
    return OK;
}
