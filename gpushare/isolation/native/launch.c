/* Tokens for launches of kernels and graphs. A launch that is captured into a graph does not run, and is not
   delayed. */
#include "pace.h"
#include "wrappers.h"

/* Tokens of a graph. Its number of threads is unknown; the rate adapts to the GPU time that it uses. */
static const u64 GRAPH = 1 << 20;

static u64 times(u64 a, u64 b)
{
    u64 product;
    return __builtin_mul_overflow(a, b, &product) ? UINT32_MAX : product;
}

/* Bounded, so that an invalid shape, which the driver rejects, does not delay later launches for hours. */
static u64 threads(u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz)
{
    u64 all = times(times(times((u64)gx * gy, gz), (u64)bx * by), bz);
    return all < UINT32_MAX ? all : UINT32_MAX;
}

/* Whether the stream captures; true if unknown, because a wait during a capture could block others forever. */
static bool captures(void *stream, asked_cuStreamIsCapturing *ask)
{
    int status;
    return ask && (ask(stream, &status) != CUDA_OK || status != 0);
}

static void pay(u64 tokens, void *stream, enum entry is_capturing)
{
    u64 turn;
    int card = account_shared_card();
    if (card == NO_CARD)
        return;
    bool paid = pace_take(card, tokens, &turn);
    if (captures(stream, (asked_cuStreamIsCapturing *)driver_function(is_capturing)))
        pace_give_back(card, tokens);
    else if (!paid)
        pace_wait(card, turn);
}

#define KERNEL(name, is_capturing)                                                                            \
    API int name(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes,            \
                 void *stream, void **parameters, void **extra)                                               \
    {                                                                                                         \
        DRIVER(name);                                                                                         \
        pay(threads(gx, gy, gz, bx, by, bz), stream, ENTRY_##is_capturing);                                   \
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
            pay(threads(g[0], g[1], g[2], b[0], b[1], b[2]), config->stream, ENTRY_##is_capturing);           \
        return driver(config, function, parameters, extra);                                                   \
    }

KERNEL_EX(cuLaunchKernelEx, cuStreamIsCapturing)
KERNEL_EX(cuLaunchKernelEx_ptsz, cuStreamIsCapturing_ptsz)

#define COOPERATIVE(name, is_capturing)                                                                       \
    API int name(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes,            \
                 void *stream, void **parameters)                                                             \
    {                                                                                                         \
        DRIVER(name);                                                                                         \
        pay(threads(gx, gy, gz, bx, by, bz), stream, ENTRY_##is_capturing);                                   \
        return driver(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters);                    \
    }

COOPERATIVE(cuLaunchCooperativeKernel, cuStreamIsCapturing)
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, cuStreamIsCapturing_ptsz)

void launch_pays_for_graph(void *stream, enum entry is_capturing) { pay(GRAPH, stream, is_capturing); }
