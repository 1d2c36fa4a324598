#define _GNU_SOURCE
#include "mapping.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kernel.h"
#include "maps.h"
#include "report.h"

_Static_assert(sizeof(pthread_mutex_t) <= 48, "the lock is too large for its field");

static const long LOCK_TIMEOUT_NS = 5000000000, SHORT_TIMEOUT_NS = 100000000, SECOND_NS = 1000000000;
static const long PAUSE_NS = 5000000; /* between attempts to lock the file */

/* The least number of the descriptor: programs close or replace low ones by their numbers. */
enum { LEAST_FD = 512 };

struct region *region;
static const char *region_path;
static int region_fd = -1;
static struct stat opened; /* the file when it was mapped */
static struct mapped_file mapped;
static int mutex_kind;
static bool lock_timed_out; /* calls wait for the short time only, until one gets the lock */
static int reported;

static bool unusable(const char *what)
{
    report_once(&reported, "the region cannot be used (%s): GPU memory allocations fail", what);
    return false;
}

static void init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static const struct region_sizes sizes = {
    .header = offsetof(struct region, cards),
    .card = sizeof(struct region_card),
    .launch = sizeof(struct region_launch),
    .slot = sizeof(struct region_slot),
    .measure = sizeof(struct region_measure),
    .cards = MAX_CARDS,
    .slots = REGION_SLOTS,
};

/* The first process initialises the region, under the lock of the file. Values of the agent stay. */
static void initialise(const struct limits *limits)
{
    memset(region->cards, 0, sizeof region->cards);
    init_mutex(&region->lock.mutex);
    for (int i = 0; i < limits->count; i++) {
        memcpy(region->cards[i].uuid, limits->cards[i].uuid, UUID_TEXT);
        region->cards[i].limit = limits->cards[i].bytes;
    }
    region->version = REGION_VERSION;
    region->bytes = sizeof *region;
    region->sizes = sizes;
    region->reached = region->crowded = 0;
    /* Last: readers without the lock take the region as complete from here on. */
    __atomic_store_n(&region->magic, REGION_MAGIC, __ATOMIC_RELEASE);
}

static bool made_for(const struct limits *limits, const char **why)
{
    *why = "it is not a region of this version";
    if (region->magic != REGION_MAGIC || region->version != REGION_VERSION || region->bytes != sizeof *region)
        return false;
    *why = "it is for other GPUs or limits";
    for (int i = 0; i < limits->count; i++)
        if (memcmp(region->cards[i].uuid, limits->cards[i].uuid, UUID_TEXT) ||
            region->cards[i].limit != limits->cards[i].bytes)
            return false;
    return true;
}

static int open_file(void)
{
    int fd = kernel_open(region_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    /* Where the limit of descriptors is low, a low one is better than none. */
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LEAST_FD);
    if (high < 0)
        return fd;
    kernel_close(fd);
    return high;
}

/* libc exports fstat only since glibc 2.33. */
static bool get_status(int fd, struct stat *status) { return syscall(SYS_fstat, fd, status) == 0; }

static bool is_mapped_file(int fd, struct stat *status)
{
    return get_status(fd, status) && status->st_dev == opened.st_dev && status->st_ino == opened.st_ino;
}

/* The program may have closed the descriptor, and opened another file that has its number now. */
static bool find_file(struct stat *status)
{
    int before = __atomic_load_n(&region_fd, __ATOMIC_RELAXED);
    if (is_mapped_file(before, status))
        return true;
    int fd = open_file();
    if (fd < 0)
        return false;
    bool same = is_mapped_file(fd, status);
    if (!same ||
        !__atomic_compare_exchange_n(&region_fd, &before, fd, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        kernel_close(fd); /* another file, or another thread was faster */
    return same;
}

/* A node agent of a later version may create larger regions. */
static bool large_enough(const struct stat *status) { return status->st_size >= (off_t)sizeof *region; }

static bool map_file(const char **why)
{
    *why = "it is too small";
    if (!get_status(region_fd, &opened) || !large_enough(&opened))
        return false;
    *why = "it cannot be mapped";
    void *at = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd, 0);
    if (at == MAP_FAILED)
        return false;
    region = at;
    maps_file_at(at, &mapped);
    return true;
}

bool mapping_left_by(u64 pid) { return maps_lack(pid, &mapped); }

static long ns_since(const struct timespec *begin)
{
    struct timespec now;
    kernel_time(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begin->tv_sec) * SECOND_NS + now.tv_nsec - begin->tv_nsec;
}

/* Any program of the container can hold the lock of the file, so the wait has a limit. */
static bool lock_file(void)
{
    struct timespec begin, pause = {0, PAUSE_NS};
    kernel_time(CLOCK_MONOTONIC, &begin);
    while (flock(region_fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || ns_since(&begin) > LOCK_TIMEOUT_NS)
            return false;
        kernel_sleep(&pause);
    }
    return true;
}

bool mapping_open(const char *path, const struct limits *limits, const char **why)
{
    pthread_mutex_t sample;
    init_mutex(&sample);
    mutex_kind = sample.__data.__kind;
    *why = "it cannot be opened";
    region_path = path;
    region_fd = open_file();
    if (region_fd < 0)
        return false;
    *why = "it is locked";
    if (!lock_file())
        return false;
    bool good = map_file(why);
    if (good && region->magic == 0)
        initialise(limits);
    good = good && made_for(limits, why);
    flock(region_fd, LOCK_UN);
    return good;
}

static void begin_write(void)
{
    /* `| 1` and not `+ 1`: a process that ended during a write has left it odd. */
    __atomic_store_n(&region->sequence, region->sequence | 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void end_write(void) { __atomic_store_n(&region->sequence, (region->sequence | 1) + 1, __ATOMIC_RELEASE); }

/* A truncated file would end the process with SIGBUS, an overwritten mutex with an abort. */
bool mapping_intact(void)
{
    struct stat status;
    if (!find_file(&status))
        return unusable("it was closed and cannot be opened again");
    if (!large_enough(&status))
        return unusable("it was truncated");
    if (region->magic != REGION_MAGIC || region->lock.mutex.__data.__kind != mutex_kind)
        return unusable("it was overwritten");
    return true;
}

static struct timespec in(long ns)
{
    struct timespec at;
    kernel_time(CLOCK_REALTIME, &at);
    ns += at.tv_nsec;
    return (struct timespec){at.tv_sec + ns / SECOND_NS, ns % SECOND_NS};
}

static int wait_for(pthread_mutex_t *mutex)
{
    int verdict = pthread_mutex_trylock(mutex);
    bool timed_out = __atomic_load_n(&lock_timed_out, __ATOMIC_RELAXED);
    if (verdict == EBUSY) {
        struct timespec until = in(timed_out ? SHORT_TIMEOUT_NS : LOCK_TIMEOUT_NS);
        verdict = pthread_mutex_timedlock(mutex, &until);
    }
    if (timed_out != (verdict == ETIMEDOUT))
        __atomic_store_n(&lock_timed_out, !timed_out, __ATOMIC_RELAXED);
    return verdict;
}

bool mapping_enter(void (*recover)(void))
{
    if (!mapping_intact())
        return false;
    int verdict = wait_for(&region->lock.mutex);
    if (verdict != 0 && verdict != EOWNERDEAD)
        return unusable("its lock is not released");
    begin_write();
    /* The owner of the lock ended inside: its sums may be half changed. */
    if (verdict == EOWNERDEAD) {
        recover();
        pthread_mutex_consistent(&region->lock.mutex);
    }
    return true;
}

void mapping_leave(void)
{
    end_write();
    pthread_mutex_unlock(&region->lock.mutex);
}
