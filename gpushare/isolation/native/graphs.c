/* Graphs. Memory of a graph belongs to no pool, and is taken when the graph is launched, when nothing can be
   refused. So a node that does not fit is refused when it is added, and the memory of graphs is charged after each
   launch. */
#include "wrappers.h"

enum { ALLOCATION_NODE = 10 };

/* CUDA_OK if the node may be added. Memory of the host is not limited. */
static int check(const struct graph_allocation *allocation)
{
    int device = allocation ? device_of(&allocation->pool.location) : -1;
    if (device < 0)
        return CUDA_OK;
    int card = account_card(device);
    u64 bytes = allocation->bytes;
    return pools_node_fits(device, card, bytes) ? CUDA_OK : account_refused_on(card, device, bytes);
}

static int check_any(const struct graph_node *node)
{
    return node && node->type == ALLOCATION_NODE ? check(&node->allocation) : CUDA_OK;
}

API int cuGraphAddMemAllocNode(void **node, void *graph, void *const *after, size_t count,
                               struct graph_allocation *allocation)
{
    DRIVER(cuGraphAddMemAllocNode);
    int verdict = check(allocation);
    return verdict ? verdict : driver(node, graph, after, count, allocation);
}

API int cuGraphAddNode(void **node, void *graph, void *const *after, size_t count, struct graph_node *params)
{
    DRIVER(cuGraphAddNode);
    int verdict = check_any(params);
    return verdict ? verdict : driver(node, graph, after, count, params);
}

#define ADD(name)                                                                                            \
    API int name(void **node, void *graph, void *const *after, const void *edges, size_t count,              \
                 struct graph_node *params)                                                                  \
    {                                                                                                        \
        DRIVER(name);                                                                                        \
        int verdict = check_any(params);                                                                     \
        return verdict ? verdict : driver(node, graph, after, edges, count, params);                         \
    }

ADD(cuGraphAddNode_v2)
ADD(cuGraphAddNode_v13040)

#ifndef GPUSHARE_LAUNCH
#define launch_pays_for_graph(graph, stream, is_capturing) (void)0
#endif

#define LAUNCH(name, is_capturing)                                      \
    API int name(void *graph, void *stream)                             \
    {                                                                   \
        DRIVER(name);                                                   \
        launch_pays_for_graph(graph, stream, ENTRY_##is_capturing);     \
        int verdict = driver(graph, stream);                            \
        pools_charge_graphs();                                          \
        return verdict;                                                 \
    }

LAUNCH(cuGraphLaunch, cuStreamIsCapturing)
LAUNCH(cuGraphLaunch_ptsz, cuStreamIsCapturing_ptsz)

/* Takes the memory of a launch before it. */
#define UPLOAD(name)                           \
    API int name(void *graph, void *stream)    \
    {                                          \
        DRIVER(name);                          \
        int verdict = driver(graph, stream);   \
        pools_charge_graphs();                 \
        return verdict;                        \
    }

UPLOAD(cuGraphUpload)
UPLOAD(cuGraphUpload_ptsz)

/* Uploads the graph too, by a flag. */
#define INSTANTIATE(name)                                           \
    API int name(void **instance, void *graph, void *params)        \
    {                                                               \
        DRIVER(name);                                               \
        int verdict = driver(instance, graph, params);              \
        pools_charge_graphs();                                      \
        return verdict;                                             \
    }

INSTANTIATE(cuGraphInstantiateWithParams)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz)

API int cuDeviceGraphMemTrim(int device)
{
    DRIVER(cuDeviceGraphMemTrim);
    int verdict = driver(device);
    pools_update();
    return verdict;
}
