/* The ways in: every wrapped function by its number, its wrapper, and the driver's own. */
#ifndef GPUSHARE_ENTRY_H
#define GPUSHARE_ENTRY_H

#include "names.h"

#include "abi.h"

enum entry {
#define NUMBER(name, base, since, per_thread) ENTRY_##name,
    WRAPPED(NUMBER)
#undef NUMBER
#define NUMBER(name, parameters) ENTRY_##name,
    ASKED(NUMBER)
#undef NUMBER
    ENTRIES
};

#define TYPE(name, parameters) typedef int(asked_##name) parameters;
ASKED(TYPE)
#undef TYPE

/* The driver's function; NULL where this driver has none. */
void *driver_function(enum entry entry);

/* For functions that the wrappers ask. */
#define ASK(name) ((asked_##name *)driver_function(ENTRY_##name))
#define driver_has(name) (driver_function(ENTRY_##name) != NULL)

/* In a wrapper: the driver's function of the same name. Leaves the wrapper where there is none, which only
   a program that is linked against a newer driver sees. */
#define DRIVER_OR(name, verdict)                                                   \
    __typeof__(name) *driver = (__typeof__(name) *)driver_function(ENTRY_##name);  \
    if (!driver)                                                                   \
        return verdict;
#define DRIVER(name) DRIVER_OR(name, CUDA_SYMBOL_NOT_FOUND)

#endif
