/* What the wrappers share. Each has the signature of cuda.h or nvml.h. */
#ifndef GPUSHARE_WRAPPERS_H
#define GPUSHARE_WRAPPERS_H

#include <stdbool.h>

#include "abi.h"
#include "account.h"
#include "entry.h"
#include "records.h"

/* Wrappers that others call by their type, or before their definition. */
API int cuMemPoolTrimTo(void *pool, size_t keep);
API int cuMemPoolDestroy(void *pool);
API int cuDeviceGetMemPool(void **pool, int device);
API int cuDeviceGraphMemTrim(int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDevicePrimaryCtxRetain(void **context, int device);

/* Takes the tokens of an instance of a graph; `is_capturing` is the driver's function for this kind of stream. */
void launch_pays_for_graph(const void *graph, void *stream, enum entry is_capturing);

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
