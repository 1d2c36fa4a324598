#define _GNU_SOURCE
#include "account.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "entry.h"
#include "limit.h"
#include "mapping.h"
#include "records.h"
#include "report.h"
#include "wrappers.h"

#ifndef GPUSHARE_FOLDER
#define GPUSHARE_FOLDER "/.gpushare"
#endif

#define LIMIT_FILE GPUSHARE_FOLDER "/limit"
#define REGION_FILE GPUSHARE_FOLDER "/region"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct limits limits;
static bool usable, shares_time;
static pid_t owner;

/* A forked child has its own slot and no GPU memory. This handler does not run in a child of vfork, which shares
   the memory of its parent: `ready` recognises it by its PID. */
static void in_child(void)
{
    owner = getpid();
    region_forget_slot();
    records_forget();
    pools_forget();
    vmm_forget();
    contexts_forget();
}

static bool is_share(const struct card_limit *card) { return card->core_percent > 0 && card->core_percent < 100; }

static void set_up(void)
{
    static int reported;
    const char *file = LIMIT_FILE, *why;
    usable = limits_read(file, &limits, &why);
    if (usable) {
        file = REGION_FILE;
        usable = mapping_open(file, &limits, &why);
    }
    if (!usable)
        report_once(&reported, "%s: %s; GPU memory allocations fail", file, why);
    for (int i = 0; usable && i < limits.count; i++)
        shares_time = shares_time || is_share(&limits.cards[i]);
    owner = getpid();
    pthread_atfork(NULL, NULL, in_child);
}

static bool ready(int card)
{
    pthread_once(&once, set_up);
    return usable && card != NO_CARD && getpid() == owner;
}

static int card_of(const char *uuid)
{
    static int reported;
    pthread_once(&once, set_up);
    int card = usable ? limits_find(&limits, uuid) : NO_CARD;
    if (usable && card == NO_CARD)
        report_once(&reported, "%s has no limit for GPU %s: memory allocations on it fail", LIMIT_FILE, uuid);
    return card;
}

static int look_up(int device)
{
    struct uuid uuid;
    char text[UUID_TEXT] = "GPU-";
    if (!driver_has(cuDeviceGetUuid) || ASK(cuDeviceGetUuid)(&uuid, device) != CUDA_OK)
        return NO_CARD;
    char *at = text + strlen(text);
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid.bytes[i]);
    return card_of(text);
}

/* Cached for allocations: the number of a device means the same GPU until the process ends. */
int account_card(int device)
{
    static int cache[MAX_CARDS]; /* 1 + card; 0 if not known yet */
    if (device < 0 || device >= MAX_CARDS)
        return look_up(device);
    int card = __atomic_load_n(&cache[device], __ATOMIC_RELAXED) - 1;
    /* A failed look-up is not cached: before cuInit the driver knows no device. */
    if (card == NO_CARD) {
        card = look_up(device);
        __atomic_store_n(&cache[device], card + 1, __ATOMIC_RELAXED);
    }
    return card;
}

int account_current_card(void)
{
    int device;
    if (!driver_has(cuCtxGetDevice) || ASK(cuCtxGetDevice)(&device) != CUDA_OK)
        return NO_CARD;
    return account_card(device);
}

int account_nvml_card(const void *device)
{
    char uuid[96];
    if (!driver_has(nvmlDeviceGetUUID) || ASK(nvmlDeviceGetUUID)(device, uuid, sizeof uuid) != NVML_OK)
        return NO_CARD;
    return card_of(uuid);
}

bool account_reserve(int card, u64 bytes) { return ready(card) && region_reserve(card, bytes); }

bool account_reserve_again(int card, u64 bytes) { return ready(card) && region_reserve_again(card, bytes); }

/* Without `ready`: memory that the driver has freed belonged to this process, and getpid is a system call. */
void account_release(int card, u64 bytes)
{
    if (usable && card != NO_CARD && bytes)
        region_release(card, bytes);
}

void account_force(int card, u64 bytes)
{
    if (ready(card) && bytes)
        region_force(card, bytes);
}

/* Without `ready`, as in `account_release`. */
void account_managed(int card, int64_t change)
{
    if (usable && card != NO_CARD && change)
        region_managed(card, change);
}

/* The memory of a device, of which the container has a share. 0 if the driver does not tell. */
static u64 memory_of(int device)
{
    __typeof__(cuDeviceTotalMem_v2) *ask =
        (__typeof__(cuDeviceTotalMem_v2) *)driver_function(ENTRY_cuDeviceTotalMem_v2);
    size_t bytes = 0;
    return ask && ask(&bytes, device) == CUDA_OK ? bytes : 0;
}

static int out_of_memory(int driver_verdict) { return driver_verdict == CUDA_OK ? CUDA_OUT_OF_MEMORY : driver_verdict; }

int account_refused(int card, u64 bytes)
{
    int device = -1, verdict = driver_has(cuCtxGetDevice) ? ASK(cuCtxGetDevice)(&device) : CUDA_OK;
    if (ready(card))
        region_refused(card, bytes, memory_of(device));
    return out_of_memory(verdict);
}

static int known_device(int device)
{
    struct uuid uuid;
    return driver_has(cuDeviceGetUuid) ? ASK(cuDeviceGetUuid)(&uuid, device) : CUDA_OK;
}

int account_refused_on(int card, int device, u64 bytes)
{
    if (ready(card))
        region_refused(card, bytes, memory_of(device));
    return out_of_memory(known_device(device));
}

int account_context_refused(int card, int device)
{
    if (ready(card))
        region_context_refused(card, limits.cards[card].context_bytes, memory_of(device));
    return out_of_memory(known_device(device));
}

int account_shared_card(void)
{
    pthread_once(&once, set_up);
    int card = shares_time ? account_current_card() : NO_CARD;
    return card != NO_CARD && is_share(&limits.cards[card]) ? card : NO_CARD;
}

u64 account_limit(int card) { return ready(card) ? limits.cards[card].bytes : 0; }

bool account_enter_context(int card)
{
    return ready(card) && region_enter_context(card, limits.cards[card].context_bytes);
}

bool account_enter_context_again(int card)
{
    return ready(card) && region_enter_context_again(card, limits.cards[card].context_bytes);
}

void account_leave_context(int card)
{
    if (ready(card))
        region_leave_context(card);
}

bool account_used(int card, u64 *bytes) { return ready(card) && region_used(card, bytes); }
