/* FAKE, for tests. The handle of a kernel is its run time in ns; a kernel of a module has its run time as its first
   parameter. The handle of a graph is the sum of its captured kernels. All streams of a process are captured
   together. Meanwhile the driver refuses some calls, and ends the capture: those for which an H200 with driver
   580 did so. */
#include "collective.h"
#include "driver.h"

enum { GLOBAL = 0, RELAXED = 2 }; /* CU_STREAM_CAPTURE_MODE_… */

static bool capturing, invalid;
static int capture_mode;
static __thread bool captures_here;
static __thread int thread_mode = GLOBAL;
static u64 captured;

bool stream_captures(void) { return capturing; }

bool capture_is_invalid(void) { return capturing && invalid; }

bool capture_forbids(void)
{
    bool elsewhere = capture_mode == GLOBAL && thread_mode == GLOBAL;
    bool here = captures_here && capture_mode != RELAXED && thread_mode != RELAXED;
    if (!capturing || !(elsewhere || here))
        return false;
    invalid = true;
    return true;
}

API int cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER();
    if (!mode)
        return INVALID_VALUE;
    int former = thread_mode;
    thread_mode = *mode;
    *mode = former;
    return OK;
}

/* A kernel of a module has its run time, or a collective, as its first parameter. */
#define OF_A_MODULE UINTPTR_MAX
#define A_COLLECTIVE (UINTPTR_MAX - 1)

/* Runs without the lock, because it may take long. */
static int run(u64 ns, const struct collective *collective)
{
    int device;
    {
        ENTER();
        device = driver_device();
        if (device >= 0 && capturing) {
            captured += ns;
            return OK;
        }
    }
    if (device < 0)
        return INVALID_CONTEXT;
    if (collective)
        return collective_run(device, collective);
    machine_run(device, ns);
    return OK;
}

static int run_kernel(const void *function, void **parameters)
{
    if ((uintptr_t)function == A_COLLECTIVE)
        return run(0, parameters[0]);
    return run((uintptr_t)function == OF_A_MODULE ? *(const u64 *)parameters[0] : (uintptr_t)function, NULL);
}

API int cuModuleLoadData(void **module, const void *image)
{
    ENTER();
    if (!module || !image)
        return INVALID_VALUE;
    if (driver_device() < 0)
        return INVALID_CONTEXT;
    *module = (void *)image;
    return OK;
}

API int cuModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER();
    if (!function || !module || !name)
        return INVALID_VALUE;
    *function = (void *)OF_A_MODULE;
    return OK;
}

/* Waits without the lock, because it may take long. */
API int cuCtxSynchronize(void)
{
    int device;
    {
        ENTER();
        device = driver_device();
    }
    if (device < 0)
        return INVALID_CONTEXT;
    machine_wait(device);
    return OK;
}

static bool is_shape(const u32 *grid, const u32 *block)
{
    return grid[0] && grid[1] && grid[2] && block[0] && block[1] && block[2] &&
           block[0] * block[1] * block[2] <= 1024;
}

#define KERNEL(name, ...)                                                                                 \
    API int name(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 bytes, void *stream, \
                 __VA_ARGS__)                                                                             \
    {                                                                                                     \
        (void)bytes, (void)stream;                                                                        \
        const u32 grid[] = {gx, gy, gz}, block[] = {bx, by, bz};                                          \
        return is_shape(grid, block) ? run_kernel(function, parameters) : INVALID_VALUE;               \
    }

KERNEL(cuLaunchKernel, void **parameters, __attribute__((unused)) void **extra)
KERNEL(cuLaunchKernel_ptsz, void **parameters, __attribute__((unused)) void **extra)
KERNEL(cuLaunchCooperativeKernel, void **parameters)
KERNEL(cuLaunchCooperativeKernel_ptsz, void **parameters)

API int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra)
{
    (void)extra;
    return config && is_shape(config->grid, config->block) ? run_kernel(function, parameters) : INVALID_VALUE;
}

API int cuLaunchKernelEx_ptsz(const struct launch_config *config, void *function, void **parameters, void **extra)
{
    return cuLaunchKernelEx(config, function, parameters, extra);
}

static int take_for_graph(void)
{
    ENTER();
    return driver_device() < 0 ? INVALID_CONTEXT : graph_take(driver_device());
}

API int cuGraphLaunch(void *graph, void *stream)
{
    (void)stream;
    int verdict = take_for_graph();
    return verdict == OK ? run((u64)(uintptr_t)graph, NULL) : verdict;
}

API int cuGraphLaunch_ptsz(void *graph, void *stream) { return cuGraphLaunch(graph, stream); }

API int cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)stream;
    ENTER();
    capturing = captures_here = true;
    invalid = false;
    capture_mode = mode;
    captured = 0;
    return OK;
}

API int cuStreamEndCapture(void *stream, void **graph)
{
    (void)stream;
    ENTER();
    if (!graph)
        return INVALID_VALUE;
    *graph = invalid ? NULL : (void *)(uintptr_t)captured;
    capturing = captures_here = false;
    return invalid ? CAPTURE_INVALIDATED : OK;
}

API int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    ENTER();
    if (!status)
        return INVALID_VALUE;
    *status = capturing;
    return OK;
}

API int cuStreamIsCapturing_ptsz(void *stream, int *status) { return cuStreamIsCapturing(stream, status); }
