/* FAKE, for tests. cuGetProcAddress: by name, CUDA version and kind of stream. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { FOUND = 0, MISSING = 1, PER_THREAD = 2 };

/* The first CUDA version in which a name refers to the function with this ending; the newest of a name first. */
struct renamed {
    const char *name, *ending;
    int since;
};

#define SECOND(name, since) {name, "_v2", since}

static const struct renamed renamed[] = {
    SECOND("cuMemAlloc", 3020),
    SECOND("cuMemAllocPitch", 3020),
    SECOND("cuMemFree", 3020),
    SECOND("cuMemGetInfo", 3020),
    SECOND("cuDeviceTotalMem", 3020),
    SECOND("cuArrayCreate", 3020),
    SECOND("cuArray3DCreate", 3020),
    {"cuCtxCreate", "_v4", 12050},
    {"cuCtxCreate", "_v3", 11040},
    SECOND("cuCtxCreate", 3020),
    SECOND("cuCtxDestroy", 4000),
    SECOND("cuGLCtxCreate", 3020),
    SECOND("cuVDPAUCtxCreate", 3020),
    SECOND("cuIpcOpenMemHandle", 11000),
    SECOND("cuGetProcAddress", 12000),
    SECOND("cuDevicePrimaryCtxRelease", 11000),
    SECOND("cuDevicePrimaryCtxReset", 11000),
    {"cuGraphAddNode", "_v13040", 13040},
    SECOND("cuGraphAddNode", 12030),
};

static const char *ending_of(const char *name, int version)
{
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (!strcmp(renamed[i].name, name) && version >= renamed[i].since)
            return renamed[i].ending;
    return "";
}

/* The functions of this era; the build generates the list. Some have no export. */
#define F(name) extern char own_##name[] __asm__(#name);
#include "functions.h"
#undef F

struct function {
    const char *name;
    void *address;
};

static const struct function functions[] = {
#define F(name) {#name, own_##name},
#include "functions.h"
#undef F
};

static void *own(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name))
            return functions[i].address;
    return NULL;
}

static int look(const char *name, void **function, int version, u64 flags, int *status)
{
    char full[128], per_thread[128];
    if (!name || !function)
        return INVALID_VALUE;
    snprintf(full, sizeof full, "%s%s", name, ending_of(name, version));
    snprintf(per_thread, sizeof per_thread, "%s_ptsz", name);
    *function = flags & PER_THREAD ? own(per_thread) : NULL;
    if (!*function)
        *function = own(full);
    if (status)
        *status = *function ? FOUND : MISSING;
    return *function ? OK : NOT_FOUND;
}

API int cuGetProcAddress(const char *name, void **function, int version, u64 flags)
{
    return look(name, function, version, flags, NULL);
}

API int cuGetProcAddress_v2(const char *name, void **function, int version, u64 flags, int *status)
{
    return look(name, function, version, flags, status);
}
