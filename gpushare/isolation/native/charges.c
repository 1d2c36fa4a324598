/* Charges of allocations, as all wrappers make and release them. */
#include "wrappers.h"

bool reserve(int card, u64 bytes)
{
    pools_settle_graphs(card);
    if (account_reserve(card, bytes))
        return true;
    pools_trim(card);
    return account_reserve_again(card, bytes);
}

/* Releases bytes, of which `managed` are managed memory. */
static void release(int card, u64 bytes, u64 managed)
{
    account_managed(card, -(int64_t)managed);
    account_release(card, bytes);
}

static void release_record(const struct record *record)
{
    release(record->card, record->bytes, record->managed ? record->bytes : 0);
}

static u64 current_context(void)
{
    void *context = NULL;
    if (driver_has(cuCtxGetCurrent))
        ASK(cuCtxGetCurrent)(&context);
    return (u64)(uintptr_t)context;
}

void end_context(u64 context)
{
    u64 freed[MAX_CARDS] = {0}, managed[MAX_CARDS] = {0};
    records_take_owned(context, freed, managed);
    for (int card = 0; card < MAX_CARDS; card++)
        if (freed[card])
            release(card, freed[card], managed[card]);
}

/* An object that still has the name ended without a call of this library: the driver has given the name again. */
static int keep_record(int verdict, struct record record)
{
    struct record former;
    if (verdict != CUDA_OK) {
        account_release(record.card, record.bytes);
        return verdict;
    }
    if (records_take(record.kind, record.name, &former))
        release_record(&former);
    record.other = current_context();
    records_put(record);
    return verdict;
}

int keep(int verdict, enum kind kind, u64 name, int card, u64 bytes)
{
    return keep_record(verdict, (struct record){.kind = kind, .card = card, .name = name, .bytes = bytes});
}

int keep_managed(int verdict, u64 name, int card, u64 bytes)
{
    struct record record = {.kind = LINEAR, .card = card, .name = name, .bytes = bytes, .managed = true};
    int kept = keep_record(verdict, record);
    if (verdict == CUDA_OK)
        account_managed(card, (int64_t)bytes);
    return kept;
}

int drop(int verdict, int was_known, struct record record)
{
    if (was_known && verdict == CUDA_OK)
        release_record(&record);
    else if (was_known)
        records_put(record);
    return verdict;
}
