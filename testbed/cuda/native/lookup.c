/* FAKE, for tests. cuGetProcAddress: by name, CUDA version and kind of stream. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { FOUND = 0, MISSING = 1, PER_THREAD = 2 };

/* The first CUDA version in which a name refers to its _v2. */
struct renamed {
    const char *name;
    int since;
};

static const struct renamed second[] = {
    {"cuMemAlloc", 3020},       {"cuMemAllocPitch", 3020}, {"cuMemFree", 3020},
    {"cuMemGetInfo", 3020},     {"cuDeviceTotalMem", 3020}, {"cuArrayCreate", 3020},
    {"cuArray3DCreate", 3020},  {"cuCtxCreate", 3020},     {"cuCtxDestroy", 4000},
    {"cuGLCtxCreate", 3020},    {"cuVDPAUCtxCreate", 3020},
    {"cuIpcOpenMemHandle", 11000}, {"cuGetProcAddress", 12000}, {"cuDevicePrimaryCtxRelease", 11000}, {"cuDevicePrimaryCtxReset", 11000},
    {"cuGraphAddNode", 12030},
};

static int is_second(const char *name, int version)
{
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        if (!strcmp(second[i].name, name))
            return version >= second[i].since;
    return 0;
}

/* The functions of this era; the build generates the list. */
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
    snprintf(full, sizeof full, "%s%s", name, is_second(name, version) ? "_v2" : "");
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
