/* The prologue of every NVML function of the fake. The functions do not belong here. */
#ifndef STUB_NVML_SESSION_H
#define STUB_NVML_SESSION_H

#include "state.h"

/* Begins a call to `function`, on the GPU of `device` if `card` is not NULL. Blocks while the fake
   hangs, reads the state, and returns the described failure. Takes the lock if and only if it returns
   OK; `*card` is then set, and is valid until `session_end`. */
u32 session_begin(const char *function, const void *device, const struct card **card);
void session_end(void);

/* The code that `function` shall return for that GPU (NULL: any), or OK. The caller has the lock. */
u32 session_failure(const char *function, const char *uuid);

/* nvmlInit creates the handles; they keep their GPU, by UUID, until the last nvmlShutdown. */
int session_cards(void);
const void *session_handle(int index);
int session_index(const void *device);
const void *session_handle_of(const char *uuid);

static inline void session_leave(const u32 *refused)
{
    if (*refused == OK)
        session_end();
}

/* Prologue of a function: returns from it if the call is rejected, and ends the call on return. */
#define OPEN(device, card)                                      \
    __attribute__((cleanup(session_leave))) const u32 refused = \
        session_begin(__func__, device, card);                  \
    if (refused)                                                \
    return refused

#define CALL() OPEN(NULL, NULL)
#define CALL_ON(device)             \
    const struct card *card = NULL; \
    OPEN(device, &card)

/* Stores a number of the state if the GPU has it. */
#define PUT(target, number)                                  \
    do {                                                     \
        if (!(target))                                       \
            return INVALID_ARGUMENT;                         \
        if ((number) == ABSENT)                              \
            return NOT_SUPPORTED;                            \
        *(target) = (__typeof__(*(target)))(number);         \
    } while (0)

/* A function that returns one number of a GPU. */
#define NUMBER_OF(function, field, type)              \
    API u32 function(const void *device, type *value) \
    {                                                 \
        CALL_ON(device);                              \
        PUT(value, card->field);                      \
        return OK;                                    \
    }

u32 session_text(char *target, u32 size, const char *text);

#endif
