/* Charges of allocations, as all wrappers make and release them. */
#include "wrappers.h"

bool reserve(int card, u64 bytes)
{
    pools_settle_graphs(card);
    if (account_reserve(card, bytes))
        return true;
    pools_trim(card);
    return account_reserve(card, bytes);
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
    u64 freed[MAX_CARDS] = {0};
    records_take_owned(context, freed);
    for (int card = 0; card < MAX_CARDS; card++)
        if (freed[card])
            account_release(card, freed[card]);
}

/* An object that still has the name ended without a call of this library: the driver has given the name again. */
int keep(int verdict, enum kind kind, u64 name, int card, u64 bytes)
{
    struct record former;
    if (verdict != CUDA_OK) {
        account_release(card, bytes);
        return verdict;
    }
    if (records_take(kind, name, &former))
        account_release(former.card, former.bytes);
    records_put((struct record){
        .kind = kind, .card = card, .name = name, .bytes = bytes, .other = current_context()});
    return verdict;
}

int drop(int verdict, int was_known, struct record record)
{
    if (was_known && verdict == CUDA_OK)
        account_release(record.card, record.bytes);
    else if (was_known)
        records_put(record);
    return verdict;
}
