/* FAKE, for tests: a driver and an NVML that accept NULL for every pointer: each function returns 0 and writes nothing.
   A real driver of any version accepts some of them, so what the library may not do with one of these is read or write
   through a NULL of the program. */
#include <string.h>

#define GPUSHARE_LAUNCH
#include "names.h"

#define API __attribute__((visibility("default")))
#define ACCEPTS(name, base, since, per_thread) \
    API int name(void) { return 0; }
WRAPPED(ACCEPTS)
ACCEPTS(cuInit, "", 0, 0)
ACCEPTS(cuCtxSetCurrent, "", 0, 0)
ACCEPTS(cuMemExportToShareableHandle, "", 0, 0)
ACCEPTS(cuDriverGetVersion, "", 0, 0)
ACCEPTS(nvmlInit_v2, "", 0, 0)
ACCEPTS(nvmlDeviceGetHandleByIndex_v2, "", 0, 0)
ACCEPTS(cuThreadExchangeStreamCaptureMode, "", 0, 0)

/* What the library asks for itself. */
static int put(void *target, size_t size)
{
    memset(target, 0, size);
    return 0;
}

API int cuStreamIsCapturing(void *stream, int *status) { return (void)stream, put(status, sizeof *status); }
API int cuStreamIsCapturing_ptsz(void *stream, int *status) { return (void)stream, put(status, sizeof *status); }
API int cuCtxGetCurrent(void **context) { return put(context, sizeof *context); }
API int cuCtxGetDevice(int *device) { return put(device, sizeof *device); }
API int cuMemPoolGetAttribute(void *pool, int which, void *value) { return (void)pool, (void)which, put(value, 8); }
API int cuDeviceGetGraphMemAttribute(int device, int which, void *value)
{
    return (void)device, (void)which, put(value, 8);
}

/* The GPU of the tests. */
API int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    static const unsigned char known[16] = {[5] = 0x11, [4] = 0x11, [6] = 0x22, [7] = 0x22, [8] = 0x33,
                                            [9] = 0x33, [10] = 0x44, 0x44, 0x44, 0x44, 0x44, 0x44};
    (void)device;
    memcpy(uuid, known, sizeof known);
    return 0;
}

API int nvmlDeviceGetUUID(const void *device, char *uuid, unsigned length)
{
    static const char known[] = "GPU-00000000-1111-2222-3333-444444444444";
    (void)device;
    memcpy(uuid, known, length < sizeof known ? length : sizeof known);
    return 0;
}
