/* Tokens for launches of kernels and graphs. A launch that is captured into a graph does not run, and is not
   delayed. */
#include "pace.h"
#include "region.h"
#include "wrappers.h"

static u64 times(u64 a, u64 b)
{
    u64 product;
    return __builtin_mul_overflow(a, b, &product) ? UINT32_MAX : product;
}

/* Spreads similar keys over all kinds: the golden ratio in 64 bits (Knuth, The Art of Computer Programming, 6.4). */
static u32 kind_of(u64 key) { return (u32)(key * 0x9e3779b97f4a7c15ull >> 57); }

_Static_assert(LAUNCH_KINDS == 1 << (64 - 57), "kind_of returns all kinds");

static u32 log2_of(u64 number) { return 63 - (u32)__builtin_clzll(number | 1); }

/* The work of a kernel is its number of threads. Kernels of one kind have the same size of blocks and about as many
   of them: all processes of the container know that of each other's kernels, and no call of the driver is needed.
   Bounded, so that an invalid shape, which the driver rejects, does not delay later launches for hours. */
static struct launch kernel(u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes)
{
    u64 blocks = times((u64)gx * gy, gz), threads = times((u64)bx * by, bz), all = times(blocks, threads);
    u64 key = (u64)shared_bytes << 32 ^ times(threads, 64) ^ log2_of(blocks);
    return (struct launch){kind_of(key), all < UINT32_MAX ? (u32)all : UINT32_MAX};
}

/* The threads of a step of a language model, so that a graph begins with a price near that of its kernels. The driver
   lists no nodes of an instance. */
static const u32 GRAPH = 1 << 25;

/* Each instance has a separate price. */
static struct launch graph_launch(const void *graph) { return (struct launch){kind_of(~(u64)(uintptr_t)graph), GRAPH}; }

/* Whether the stream captures; true if unknown, because a wait during a capture could block others forever. */
static bool captures(void *stream, asked_cuStreamIsCapturing *ask)
{
    int status;
    return ask && (ask(stream, &status) != CUDA_OK || status != 0);
}

static void pay(struct launch launch, void *stream, enum entry is_capturing)
{
    struct taken taken;
    int card = account_shared_card();
    if (card == NO_CARD)
        return;
    bool paid = pace_take(card, launch, &taken);
    if (captures(stream, (asked_cuStreamIsCapturing *)driver_function(is_capturing)))
        pace_give_back(card, launch, &taken);
    else if (!paid)
        pace_wait(card, taken.turn);
}

#define KERNEL(name, is_capturing)                                                                            \
    API int name(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes,            \
                 void *stream, void **parameters, void **extra)                                               \
    {                                                                                                         \
        DRIVER(name);                                                                                         \
        pay(kernel(gx, gy, gz, bx, by, bz, shared_bytes), stream, ENTRY_##is_capturing);                                   \
        return driver(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra);             \
    }

KERNEL(cuLaunchKernel, cuStreamIsCapturing)
KERNEL(cuLaunchKernel_ptsz, cuStreamIsCapturing_ptsz)

#define KERNEL_EX(name, is_capturing)                                                                         \
    API int name(const struct launch_config *config, void *function, void **parameters, void **extra)         \
    {                                                                                                         \
        DRIVER(name);                                                                                         \
        const u32 *g = config ? config->grid : NULL, *b = config ? config->block : NULL;                      \
        if (config)                                                                                           \
            pay(kernel(g[0], g[1], g[2], b[0], b[1], b[2], config->shared_bytes), config->stream,             \
                ENTRY_##is_capturing);                                                                        \
        return driver(config, function, parameters, extra);                                                   \
    }

KERNEL_EX(cuLaunchKernelEx, cuStreamIsCapturing)
KERNEL_EX(cuLaunchKernelEx_ptsz, cuStreamIsCapturing_ptsz)

#define COOPERATIVE(name, is_capturing)                                                                       \
    API int name(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes,            \
                 void *stream, void **parameters)                                                             \
    {                                                                                                         \
        DRIVER(name);                                                                                         \
        pay(kernel(gx, gy, gz, bx, by, bz, shared_bytes), stream, ENTRY_##is_capturing);                                   \
        return driver(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters);                    \
    }

COOPERATIVE(cuLaunchCooperativeKernel, cuStreamIsCapturing)
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, cuStreamIsCapturing_ptsz)

void launch_pays_for_graph(const void *graph, void *stream, enum entry is_capturing)
{
    pay(graph_launch(graph), stream, is_capturing);
}
