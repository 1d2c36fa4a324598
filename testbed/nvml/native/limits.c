/* FAKE, for tests. Memory limits of cgroups, which the driver holds from branch 615 on. They are recorded in
   a file next to the state, for all processes, and nothing is limited: this library sees no allocation. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"

static const u64 MIB = 1024 * 1024;

enum { LINE = 8192 };

/* One line per change, the last one of a cgroup counts: soft limit, hard limit, cgroup. */
static FILE *limits_file(const struct card *card, const char *how)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.memory-limits.%s", state_path(), card->uuid);
    return fopen(path, how);
}

static bool is_cgroup(const char *name)
{
    char path[4096];
    struct stat found;
    snprintf(path, sizeof path, "%s/cgroup.procs", name);
    return *name == '/' && !stat(path, &found);
}

API u32 nvmlDeviceSetMemoryLimits_v1(const void *device, const struct set_memory_limits_v1 *limits)
{
    CALL_ON(device);
    if (!limits || !limits->name || limits->soft > limits->hard)
        return INVALID_ARGUMENT;
    if (card->total_mib == ABSENT)
        return NOT_SUPPORTED;
    u64 total = (u64)card->total_mib * MIB;
    if (limits->soft > total || (limits->hard > total && limits->hard != NO_LIMIT))
        return INVALID_ARGUMENT;
    if (geteuid())
        return NO_PERMISSION;
    if (!is_cgroup(limits->name))
        return OPERATING_SYSTEM;
    FILE *file = limits_file(card, "ae");
    if (!file)
        return UNKNOWN;
    fprintf(file, "%llu %llu %s\n", limits->soft, limits->hard, limits->name);
    return fclose(file) ? UNKNOWN : OK;
}

API u32 nvmlDeviceGetMemoryLimits_v1(const void *device, struct get_memory_limits_v1 *limits)
{
    CALL_ON(device);
    if (!limits || !limits->name)
        return INVALID_ARGUMENT;
    if (!is_cgroup(limits->name))
        return OPERATING_SYSTEM;
    limits->soft = 0, limits->hard = NO_LIMIT, limits->used = 0;
    FILE *file = limits_file(card, "re");
    char line[LINE], name[LINE];
    u64 soft, hard;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%llu %llu %[^\n]", &soft, &hard, name) == 3 && !strcmp(name, limits->name))
            limits->soft = soft, limits->hard = hard;
    if (file)
        fclose(file);
    return limits->soft || limits->hard != NO_LIMIT ? OK : NOT_FOUND;
}
