/* The wrappers, with the signatures of cuda.h and nvml.h, and the functions that they share. */
#ifndef GPUSHARE_WRAPPERS_H
#define GPUSHARE_WRAPPERS_H

#include <stdbool.h>

#include "abi.h"
#include "account.h"
#include "entry.h"
#include "records.h"

API int cuGetProcAddress(const char *base, void **function, int version, u64 flags);
API int cuGetProcAddress_v2(const char *base, void **function, int version, u64 flags, int *status);

API int cuMemAlloc(u32 *pointer, u32 bytes);
API int cuMemAlloc_v2(u64 *pointer, size_t bytes);
API int cuMemAllocPitch(u32 *pointer, u32 *pitch, u32 width, u32 height, u32 element);
API int cuMemAllocPitch_v2(u64 *pointer, size_t *pitch, size_t width, size_t height, u32 element);
API int cuMemAllocManaged(u64 *pointer, size_t bytes, u32 flags);
API int cuMemFree(u32 pointer);
API int cuMemFree_v2(u64 pointer);

API int cuMemAllocAsync(u64 *pointer, size_t bytes, void *stream);
API int cuMemAllocAsync_ptsz(u64 *pointer, size_t bytes, void *stream);
API int cuMemAllocFromPoolAsync(u64 *pointer, size_t bytes, void *pool, void *stream);
API int cuMemAllocFromPoolAsync_ptsz(u64 *pointer, size_t bytes, void *pool, void *stream);
API int cuMemFreeAsync(u64 pointer, void *stream);
API int cuMemFreeAsync_ptsz(u64 pointer, void *stream);
API int cuMemPoolCreate(void **pool, const struct pool_props *props);
API int cuMemGetDefaultMemPool(void **pool, struct location *location, u32 type);
API int cuMemGetMemPool(void **pool, struct location *location, u32 type);
API int cuDeviceGetDefaultMemPool(void **pool, int device);
API int cuDeviceGetMemPool(void **pool, int device);
API int cuMemPoolDestroy(void *pool);
API int cuMemPoolTrimTo(void *pool, size_t keep);
API int cuGraphAddMemAllocNode(void **node, void *graph, void *const *after, size_t count,
                               struct graph_allocation *allocation);
API int cuGraphAddNode(void **node, void *graph, void *const *after, size_t count, struct graph_node *params);
API int cuGraphAddNode_v2(void **node, void *graph, void *const *after, const void *edges, size_t count,
                          struct graph_node *params);
API int cuGraphAddNode_v13040(void **node, void *graph, void *const *after, const void *edges, size_t count,
                              struct graph_node *params);
API int cuGraphLaunch(void *graph, void *stream);
API int cuGraphLaunch_ptsz(void *graph, void *stream);
API int cuGraphUpload(void *graph, void *stream);
API int cuGraphUpload_ptsz(void *graph, void *stream);
API int cuGraphInstantiateWithParams(void **instance, void *graph, void *params);
API int cuGraphInstantiateWithParams_ptsz(void **instance, void *graph, void *params);
API int cuDeviceGraphMemTrim(int device);

API int cuMemCreate(u64 *handle, size_t bytes, const struct allocation_prop *prop, unsigned long long flags);
API int cuMemRelease(u64 handle);
API int cuMemMap(u64 pointer, size_t bytes, size_t offset, u64 handle, unsigned long long flags);
API int cuMemUnmap(u64 pointer, size_t bytes);
API int cuMemRetainAllocationHandle(u64 *handle, void *pointer);
API int cuMemImportFromShareableHandle(u64 *handle, void *shared, u32 type);

API int cuArrayCreate(void **array, const struct array_v1 *shape);
API int cuArrayCreate_v2(void **array, const struct array *shape);
API int cuArray3DCreate(void **array, const struct array3d_v1 *shape);
API int cuArray3DCreate_v2(void **array, const struct array3d *shape);
API int cuArrayDestroy(void *array);
API int cuMipmappedArrayCreate(void **array, const struct array3d *shape, u32 levels);
API int cuMipmappedArrayDestroy(void *array);

API int cuMemGetInfo(u32 *left, u32 *total);
API int cuMemGetInfo_v2(size_t *left, size_t *total);
API int cuDeviceTotalMem(u32 *bytes, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);

API int cuDevicePrimaryCtxRetain(void **context, int device);
API int cuDevicePrimaryCtxRelease(int device);
API int cuDevicePrimaryCtxRelease_v2(int device);
API int cuDevicePrimaryCtxReset(int device);
API int cuDevicePrimaryCtxReset_v2(int device);
API int cuCtxCreate(void **context, u32 flags, int device);
API int cuCtxCreate_v2(void **context, u32 flags, int device);
API int cuCtxCreate_v3(void **context, void *affinities, int count, u32 flags, int device);
API int cuCtxCreate_v4(void **context, void *params, u32 flags, int device);
API int cuGLCtxCreate(void **context, u32 flags, int device);
API int cuGLCtxCreate_v2(void **context, u32 flags, int device);
API int cuVDPAUCtxCreate(void **context, u32 flags, int device, u32 vdpau, void *lookup);
API int cuVDPAUCtxCreate_v2(void **context, u32 flags, int device, u32 vdpau, void *lookup);
API int cuCtxDetach(void *context);
API int cuCtxDestroy(void *context);
API int cuCtxDestroy_v2(void *context);

/* Only in the build with launch control. */
API int cuLaunchKernel(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes,
                       void *stream, void **parameters, void **extra);
API int cuLaunchKernel_ptsz(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared_bytes,
                            void *stream, void **parameters, void **extra);
API int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra);
API int cuLaunchKernelEx_ptsz(const struct launch_config *config, void *function, void **parameters,
                              void **extra);
API int cuLaunchCooperativeKernel(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz,
                                  u32 shared_bytes, void *stream, void **parameters);
API int cuLaunchCooperativeKernel_ptsz(void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz,
                                       u32 shared_bytes, void *stream, void **parameters);

/* Takes the tokens of an instance of a graph; `is_capturing` is the driver's function for this kind of stream. */
void launch_pays_for_graph(const void *graph, void *stream, enum entry is_capturing);

API int nvmlDeviceGetMemoryInfo(const void *device, struct nvml_memory *memory);
API int nvmlDeviceGetMemoryInfo_v2(const void *device, struct nvml_memory_v2 *memory);
API int nvmlDeviceGetRunningProcessDetailList(const void *device, struct nvml_process_list *list);

/* What the driver has written for the program; 0 if the program passed NULL. Which outputs may be NULL depends on the
   driver, so no wrapper may rely on one. */
#define OUTPUT(pointer) ((pointer) ? (u64)(uintptr_t)*(pointer) : 0)

/* After a call of the driver: records the reserved bytes under `name`, or releases them if the call failed. If
   there is no memory for the record, the charge stays until the process ends. */
int keep(int verdict, enum kind kind, u64 name, int card, u64 bytes);
int keep_managed(int verdict, u64 name, int card, u64 bytes); /* of kind LINEAR */

/* After the driver has freed an object: releases its charge, or restores the record if the call failed. */
int drop(int verdict, int was_known, struct record record);

/* Releases the charges of all memory that belonged to a destroyed context. */
void end_context(u64 context);

/* The device of a location; -1 if it has none, as memory of the host. */
static inline int device_of(const struct location *location)
{
    if (location->type == LOCATION_DOMAIN)
        return location->id & 0xff;
    return location->type == LOCATION_DEVICE ? location->id : -1;
}

/* Reserves bytes. If they do not fit, the pools release unused memory first. */
bool reserve(int card, u64 bytes);

/* Update the charges of pools and graphs; make those of a GPU release unused memory. */
void pools_update(void);
void pools_trim(int card);

/* Charges the memory that launched graphs use on a GPU. Called before anything is reserved there. */
void pools_settle_graphs(int card);

/* The same after a launch. */
void pools_charge_graphs(void);

/* Whether the memory of a graph's node fits. From the first call on, the memory of graphs is charged. */
bool pools_node_fits(int device, int card, u64 bytes);

/* In a forked child, where threads that held locks no longer exist. */
void pools_forget(void);
void vmm_forget(void);
void contexts_forget(void);

#endif
