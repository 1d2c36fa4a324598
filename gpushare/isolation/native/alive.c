#define _GNU_SOURCE
#include "alive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { START_FIELD = 22, STATE_FIELD = 3 };

static bool read_stat(u64 pid, char *content, size_t size)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, content, size - 1);
    if (fd >= 0)
        close(fd);
    if (length > 0)
        content[length] = '\0';
    return length > 0;
}

/* The command name in brackets may contain blanks and brackets: fields are counted from its end. */
static bool parse_stat(const char *content, char *state, u64 *start)
{
    const char *at = strrchr(content, ')');
    unsigned long long ticks;
    if (!at || sscanf(at, ") %c", state) != 1)
        return false;
    for (int field = STATE_FIELD - 1; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %llu", &ticks) != 1)
        return false;
    *start = ticks;
    return true;
}

u64 process_start(u64 pid)
{
    char content[1024], state;
    u64 start;
    if (!read_stat(pid, content, sizeof content) || !parse_stat(content, &state, &start))
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

bool process_alive(u64 pid, u64 start)
{
    char content[1024], state;
    u64 now;
    if (pid == 0 || pid > 1u << 30 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH))
        return false;
    if (!read_stat(pid, content, sizeof content) || !parse_stat(content, &state, &now))
        return true; /* without /proc, or with hidepid */
    return state != 'Z' && state != 'X' && (start == 0 || now == start);
}
