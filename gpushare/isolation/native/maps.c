/* The files that a process has mapped, from /proc/<pid>/maps. */
#define _GNU_SOURCE
#include "maps.h"

#include <stdio.h>
#include <string.h>

#include "kernel.h"

/* More than a line needs, except for absurd paths. */
enum { BUFFER = 8192 };

/* A line of maps. */
struct entry {
    unsigned long long begin, end;
    struct mapped_file file;
};

typedef bool test(const struct entry *entry, const void *wanted);

/* The result of a search; UNKNOWN if maps cannot be read, or has no entries, as that of a process whose first
   thread has ended. */
enum result { ABSENT, FOUND, UNKNOWN };

static bool parse(const char *line, struct entry *entry)
{
    return sscanf(line, "%llx-%llx %*s %*s %x:%x %llu", &entry->begin, &entry->end, &entry->file.major,
                  &entry->file.minor, &entry->file.inode) == 5;
}

/* Tests the whole lines of a buffer, and moves the rest to its start; returns the length of the rest. */
static size_t search_lines(char *buffer, size_t length, test *is, const void *wanted, struct entry *entry,
                           enum result *result)
{
    char *line = buffer, *end;
    buffer[length] = '\0';
    for (; *result != FOUND && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (parse(line, entry))
            *result = is(entry, wanted) ? FOUND : ABSENT;
    }
    size_t rest = length - (size_t)(line - buffer);
    memmove(buffer, line, rest);
    return rest;
}

static enum result search(const char *path, test *is, const void *wanted, struct entry *entry)
{
    char buffer[BUFFER];
    size_t kept = 0;
    ssize_t length;
    enum result result = UNKNOWN;
    int fd = kernel_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UNKNOWN;
    while (result != FOUND && (length = kernel_read(fd, buffer + kept, sizeof buffer - 1 - kept)) > 0)
        kept = search_lines(buffer, kept + (size_t)length, is, wanted, entry, &result);
    kernel_close(fd);
    return result != FOUND && (length < 0 || kept) ? UNKNOWN : result;
}

static bool has_address(const struct entry *entry, const void *wanted)
{
    unsigned long long at = (unsigned long long)(uintptr_t)wanted;
    return entry->begin <= at && at < entry->end;
}

static bool is_file(const struct entry *entry, const void *wanted)
{
    const struct mapped_file *file = wanted;
    return entry->file.inode == file->inode && entry->file.major == file->major && entry->file.minor == file->minor;
}

void maps_file_at(const void *address, struct mapped_file *file)
{
    struct entry entry;
    *file = search("/proc/self/maps", has_address, address, &entry) == FOUND ? entry.file : (struct mapped_file){0};
}

bool maps_lack(u64 pid, const struct mapped_file *file)
{
    char path[48];
    struct entry entry;
    snprintf(path, sizeof path, "/proc/%llu/maps", (unsigned long long)pid);
    return file->inode && search(path, is_file, file, &entry) == ABSENT;
}
