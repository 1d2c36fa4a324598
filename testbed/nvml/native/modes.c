/* FAKE, for tests. The compute mode: programs set it in a file next to the state, for all processes. */
#define _GNU_SOURCE
#include <stdio.h>

#include "session.h"

#define HIGHEST_MODE 3

static FILE *mode_file(const struct card *card, const char *how)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.compute-mode.%s", state_path(), card->uuid);
    return fopen(path, how);
}

API u32 nvmlDeviceGetComputeMode(const void *device, u32 *mode)
{
    CALL_ON(device);
    PUT(mode, card->compute_mode);
    FILE *file = mode_file(card, "re");
    if (file) {
        if (fscanf(file, "%u", mode) != 1)
            *mode = (u32)card->compute_mode;
        fclose(file);
    }
    return OK;
}

API u32 nvmlDeviceSetComputeMode(const void *device, u32 mode)
{
    CALL_ON(device);
    if (mode > HIGHEST_MODE)
        return INVALID_ARGUMENT;
    FILE *file = mode_file(card, "we");
    if (!file)
        return UNKNOWN;
    fprintf(file, "%u\n", mode);
    return fclose(file) ? UNKNOWN : OK;
}
