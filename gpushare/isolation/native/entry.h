/* Entry points of the driver: the wrapped functions, and the functions that wrappers call. */
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

/* The driver's function; NULL if this driver does not have it. */
void *driver_function(enum entry entry);

/* For functions of the driver that wrappers call. */
#define ASK(name) ((asked_##name *)driver_function(ENTRY_##name))
#define driver_has(name) (driver_function(ENTRY_##name) != NULL)

/* Declares `driver`, the driver's function with the name of the wrapper. Returns from the wrapper if there is
   none: the program was linked against a newer driver. */
#define DRIVER_OR(name, verdict)                                                   \
    __typeof__(name) *driver = (__typeof__(name) *)driver_function(ENTRY_##name);  \
    if (!driver)                                                                   \
        return verdict;
#define DRIVER(name) DRIVER_OR(name, CUDA_SYMBOL_NOT_FOUND)

#endif
