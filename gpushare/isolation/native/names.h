/* The wrapped functions, and the functions of the driver that wrappers call. */
#ifndef GPUSHARE_NAMES_H
#define GPUSHARE_NAMES_H

/* Only the build with launch control wraps launches of kernels. */
#ifdef GPUSHARE_LAUNCH
#define LAUNCHED(W)                                                                \
    W(cuLaunchKernel, "cuLaunchKernel", 4000, 0)                                   \
    W(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, 1)                              \
    W(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0)                              \
    W(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, 1)                         \
    W(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 0)             \
    W(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, 1)
#else
#define LAUNCHED(W)
#endif

/* W(name, its name in cuGetProcAddress, first CUDA version in which that name means it, per-thread stream). The driver
   has no export for the cuGraphAddNode of CUDA 13.4; the name is ours. */
#define WRAPPED(W)                                                                 \
    LAUNCHED(W)                                                                    \
    W(cuGetProcAddress, "cuGetProcAddress", 11030, 0)                              \
    W(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0)                           \
    W(cuMemAlloc, "cuMemAlloc", 2000, 0)                                           \
    W(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                        \
    W(cuMemAllocPitch, "cuMemAllocPitch", 2000, 0)                                 \
    W(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                              \
    W(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                             \
    W(cuMemFree, "cuMemFree", 2000, 0)                                             \
    W(cuMemFree_v2, "cuMemFree", 3020, 0)                                          \
    W(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                                \
    W(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1)                           \
    W(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0)                \
    W(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1)           \
    W(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                                  \
    W(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1)                             \
    W(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0)                                \
    W(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0)                              \
    W(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0)                                \
    W(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, 0)            \
    W(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, 0)                          \
    W(cuMemGetDefaultMemPool, "cuMemGetDefaultMemPool", 13000, 0)                  \
    W(cuMemGetMemPool, "cuMemGetMemPool", 13000, 0)                                \
    W(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, 0)                  \
    W(cuGraphAddNode, "cuGraphAddNode", 12020, 0)                                  \
    W(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0)                               \
    W(cuGraphAddNode_v13040, "cuGraphAddNode", 13040, 0)                           \
    W(cuGraphLaunch, "cuGraphLaunch", 10000, 0)                                    \
    W(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1)                               \
    W(cuGraphUpload, "cuGraphUpload", 11010, 0)                                    \
    W(cuGraphUpload_ptsz, "cuGraphUpload", 11010, 1)                               \
    W(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0)      \
    W(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 1) \
    W(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0)                      \
    W(cuMemCreate, "cuMemCreate", 10020, 0)                                        \
    W(cuMemRelease, "cuMemRelease", 10020, 0)                                      \
    W(cuMemMap, "cuMemMap", 10020, 0)                                              \
    W(cuMemUnmap, "cuMemUnmap", 10020, 0)                                          \
    W(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0)        \
    W(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0)  \
    W(cuArrayCreate, "cuArrayCreate", 2000, 0)                                     \
    W(cuArrayCreate_v2, "cuArrayCreate", 3020, 0)                                  \
    W(cuArray3DCreate, "cuArray3DCreate", 2000, 0)                                 \
    W(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0)                              \
    W(cuArrayDestroy, "cuArrayDestroy", 2000, 0)                                   \
    W(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0)                   \
    W(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0)                 \
    W(cuMemGetInfo, "cuMemGetInfo", 2000, 0)                                       \
    W(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0)                                    \
    W(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, 0)                               \
    W(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0)                            \
    W(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)               \
    W(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0)             \
    W(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0)         \
    W(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0)                 \
    W(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)             \
    W(cuCtxCreate, "cuCtxCreate", 2000, 0)                                         \
    W(cuCtxCreate_v2, "cuCtxCreate", 3020, 0)                                      \
    W(cuCtxCreate_v3, "cuCtxCreate", 11040, 0)                                     \
    W(cuCtxCreate_v4, "cuCtxCreate", 12050, 0)                                     \
    W(cuGLCtxCreate, "cuGLCtxCreate", 2000, 0)                                     \
    W(cuGLCtxCreate_v2, "cuGLCtxCreate", 3020, 0)                                  \
    W(cuVDPAUCtxCreate, "cuVDPAUCtxCreate", 3010, 0)                               \
    W(cuVDPAUCtxCreate_v2, "cuVDPAUCtxCreate", 3020, 0)                            \
    W(cuCtxDetach, "cuCtxDetach", 2000, 0)                                         \
    W(cuCtxDestroy, "cuCtxDestroy", 2000, 0)                                       \
    W(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0)                                    \
    W(nvmlDeviceGetMemoryInfo, "", 0, 0)                                           \
    W(nvmlDeviceGetMemoryInfo_v2, "", 0, 0)                                        \
    W(nvmlDeviceGetComputeRunningProcesses, "", 0, 0)                              \
    W(nvmlDeviceGetComputeRunningProcesses_v2, "", 0, 0)                           \
    W(nvmlDeviceGetComputeRunningProcesses_v3, "", 0, 0)                           \
    W(nvmlDeviceGetGraphicsRunningProcesses, "", 0, 0)                             \
    W(nvmlDeviceGetGraphicsRunningProcesses_v2, "", 0, 0)                          \
    W(nvmlDeviceGetGraphicsRunningProcesses_v3, "", 0, 0)                          \
    W(nvmlDeviceGetMPSComputeRunningProcesses, "", 0, 0)                           \
    W(nvmlDeviceGetMPSComputeRunningProcesses_v2, "", 0, 0)                        \
    W(nvmlDeviceGetMPSComputeRunningProcesses_v3, "", 0, 0)                        \
    W(nvmlDeviceGetRunningProcessDetailList, "", 0, 0)

/* A(name, parameters): called, not wrapped. */
#define ASKED(A)                                                            \
    A(cuThreadExchangeStreamCaptureMode, (int *mode))                       \
    A(cuStreamIsCapturing, (void *stream, int *status))                     \
    A(cuStreamIsCapturing_ptsz, (void *stream, int *status))                \
    A(cuCtxGetCurrent, (void **context))                                    \
    A(cuCtxGetDevice, (int *device))                                        \
    A(cuDeviceGetUuid, (struct uuid * uuid, int device))                    \
    A(cuMemPoolGetAttribute, (void *pool, int attribute, void *value))      \
    A(cuDeviceGetGraphMemAttribute, (int device, int attribute, void *value)) \
    A(nvmlDeviceGetUUID, (const void *device, char *uuid, u32 length))

#endif
