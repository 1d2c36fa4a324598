/* FAKE, for tests. Memory of graph nodes: all graphs of a GPU share it, a launch allocates the memory of all
   nodes, and it stays allocated until it is trimmed. The fake does not know which node belongs to which graph:
   any launch counts. */
#include "driver.h"

enum { RESERVED_NOW = 2, ALLOCATION = 10 };

struct graph_allocation {
    struct prop pool;
    unsigned char rest[72];
    const void *access;
    size_t access_count, bytes;
    u64 pointer;
};

struct graph_node {
    u32 type, reserved[3];
    union {
        struct graph_allocation allocation;
        u64 any[29];
    };
    u64 more;
};

static u64 wanted[MAX_CARDS], taken[MAX_CARDS];

void graph_add(int card, u64 bytes) { wanted[card] += bytes; }

static int add(void **node, const struct graph_allocation *allocation)
{
    const struct location *location = allocation ? &allocation->pool.location : NULL;
    int device = location ? location_device(location) : -1;
    if (!node || !location || (device >= 0 && !machine_card(device)))
        return INVALID_VALUE;
    if (device >= 0)
        graph_add(device, allocation->bytes);
    *node = (void *)allocation;
    return OK;
}

API int cuGraphAddMemAllocNode(void **node, void *graph, void *const *after, size_t count,
                               struct graph_allocation *allocation)
{
    ENTER();
    (void)graph, (void)after, (void)count;
    return add(node, allocation);
}

/* Nodes of other types take no memory. */
static int add_any(void **node, struct graph_node *params)
{
    if (params && params->type == ALLOCATION)
        return add(node, &params->allocation);
    if (!node || !params)
        return INVALID_VALUE;
    *node = params;
    return OK;
}

API int cuGraphAddNode(void **node, void *graph, void *const *after, size_t count, struct graph_node *params)
{
    ENTER();
    (void)graph, (void)after, (void)count;
    return add_any(node, params);
}

API int cuGraphAddNode_v2(void **node, void *graph, void *const *after, const void *edges, size_t count,
                          struct graph_node *params)
{
    ENTER();
    (void)graph, (void)after, (void)edges, (void)count;
    return add_any(node, params);
}

/* Its name in the library; the driver of CUDA 13.4 gives it only by its address. */
API int cuGraphAddNode_v13040(void **node, void *graph, void *const *after, const void *edges, size_t count,
                              struct graph_node *params)
{
    return cuGraphAddNode_v2(node, graph, after, edges, count, params);
}

int graph_take(int card)
{
    u64 more = wanted[card] > taken[card] ? wanted[card] - taken[card] : 0;
    int verdict = more ? machine_take(card, more) : OK;
    if (verdict == OK)
        taken[card] += more;
    return verdict;
}

/* Allocates the memory of a launch before it. */
API int cuGraphUpload(void *graph, void *stream)
{
    (void)graph, (void)stream;
    ENTER();
    return driver_device() < 0 ? INVALID_CONTEXT : graph_take(driver_device());
}

API int cuGraphUpload_ptsz(void *graph, void *stream) { return cuGraphUpload(graph, stream); }

struct instantiation {
    u64 flags;
    void *stream, *failed_node;
    u32 result;
};

enum { UPLOAD = 2 };

API int cuGraphInstantiateWithParams(void **instance, void *graph, struct instantiation *params)
{
    if (!instance || !params)
        return INVALID_VALUE;
    *instance = graph;
    return params->flags & UPLOAD ? cuGraphUpload(graph, params->stream) : OK;
}

API int cuGraphInstantiateWithParams_ptsz(void **instance, void *graph, struct instantiation *params)
{
    return cuGraphInstantiateWithParams(instance, graph, params);
}

/* A launch by a kernel (device graph launch): the host calls no function of the driver, so the real driver has none
   for it. */
API int stub_graph_launch_on_device(int card) { return graph_take(card); }

API int cuDeviceGetGraphMemAttribute(int device, int attribute, u64 *value)
{
    ENTER();
    if (!value || !machine_card(device))
        return value ? INVALID_DEVICE : INVALID_VALUE;
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
