/* FAKE, for tests. Memory of graph nodes: all graphs of a GPU share it, a launch allocates the memory of all
   nodes, and it stays allocated until it is trimmed. The fake does not know which node belongs to which graph:
   any launch counts. */
#include "driver.h"

enum { RESERVED_NOW = 2 };

struct graph_allocation {
    struct prop pool;
    unsigned char rest[72];
    const void *access;
    size_t access_count, bytes;
    u64 pointer;
};

static u64 wanted[MAX_CARDS], taken[MAX_CARDS];

API int cuGraphAddMemAllocNode(void **node, void *graph, void *const *after, size_t count,
                               struct graph_allocation *allocation)
{
    ENTER();
    (void)graph, (void)after, (void)count;
    if (!allocation || !machine_card(allocation->pool.location.id))
        return INVALID_VALUE;
    wanted[allocation->pool.location.id] += allocation->bytes;
    *node = allocation;
    return OK;
}

int graph_take(int card)
{
    u64 more = wanted[card] > taken[card] ? wanted[card] - taken[card] : 0;
    int verdict = more ? machine_take(card, more) : OK;
    if (verdict == OK)
        taken[card] += more;
    return verdict;
}

API int cuDeviceGetGraphMemAttribute(int device, int attribute, u64 *value)
{
    ENTER();
    if (!machine_card(device))
        return INVALID_DEVICE;
    *value = attribute == RESERVED_NOW ? taken[device] : 0;
    return OK;
}

API int cuDeviceGraphMemTrim(int device)
{
    ENTER();
    if (!machine_card(device))
        return INVALID_DEVICE;
    machine_give(device, taken[device]);
    taken[device] = 0;
    return OK;
}
