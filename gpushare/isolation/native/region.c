#define _GNU_SOURCE
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "alive.h"
#include "tell.h"

_Static_assert(sizeof(pthread_mutex_t) <= 64, "the room of the lock is too small");

enum { PATIENCE_S = 5 };

static struct region *region;
static int region_fd = -1;
static int mutex_kind;
static struct region_slot *mine; /* of this process; NULL before its first reservation */
static bool impatient; /* the lock was not given back in time: the next does not wait as long */
static int told;

static bool unusable(const char *what)
{
    tell_once(&told, "the shared region cannot be used (%s): no memory of a card is given out", what);
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

/* Under the file's lock, which ends with its holder: whoever comes first begins the region. */
static void begin(const struct limits *limits)
{
    memset(region, 0, sizeof *region);
    init_mutex(&region->lock.mutex);
    for (int i = 0; i < limits->count; i++) {
        memcpy(region->cards[i].uuid, limits->cards[i].uuid, UUID_TEXT);
        region->cards[i].limit = limits->cards[i].bytes;
    }
    region->version = REGION_VERSION;
    region->bytes = sizeof *region;
    __atomic_store_n(&region->magic, REGION_MAGIC, __ATOMIC_RELEASE);
}

static bool made_for(const struct limits *limits, const char **why)
{
    *why = "its first bytes are of something else";
    if (region->magic != REGION_MAGIC || region->version != REGION_VERSION || region->bytes != sizeof *region)
        return false;
    *why = "it is of other cards or limits";
    for (int i = 0; i < limits->count; i++)
        if (memcmp(region->cards[i].uuid, limits->cards[i].uuid, UUID_TEXT) ||
            region->cards[i].limit != limits->cards[i].bytes)
            return false;
    return true;
}

static bool right_size(void) { return lseek(region_fd, 0, SEEK_END) == (off_t)sizeof *region; }

static bool map(const char **why)
{
    *why = "it has the wrong size";
    if (!right_size())
        return false;
    *why = "it cannot be mapped";
    void *at = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd, 0);
    if (at == MAP_FAILED)
        return false;
    region = at;
    return true;
}

bool region_open(const char *path, const struct limits *limits, const char **why)
{
    pthread_mutex_t sample;
    init_mutex(&sample);
    mutex_kind = sample.__data.__kind;
    *why = "it cannot be opened";
    region_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (region_fd < 0 || flock(region_fd, LOCK_EX) != 0)
        return false;
    bool good = map(why);
    if (good && region->magic == 0)
        begin(limits);
    good = good && made_for(limits, why);
    flock(region_fd, LOCK_UN);
    return good;
}

void region_forget_slot(void) { mine = NULL; }

static void write_begins(void)
{
    __atomic_store_n(&region->sequence, region->sequence | 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void write_ends(void) { __atomic_store_n(&region->sequence, (region->sequence | 1) + 1, __ATOMIC_RELEASE); }

/* The sums follow from the slots: after a holder died in between, or to clear away the dead. */
static void recount(void)
{
    for (int card = 0; card < MAX_CARDS; card++)
        region->cards[card].used = 0;
    for (int i = 0; i < REGION_SLOTS; i++)
        for (int card = 0; region->slots[i].pid && card < MAX_CARDS; card++)
            region->cards[card].used += region->slots[i].used[card];
}

static void bury(void)
{
    for (int i = 0; i < REGION_SLOTS; i++) {
        struct region_slot *slot = &region->slots[i];
        if (slot->pid && slot != mine && !process_alive(slot->pid, slot->start))
            memset(slot, 0, sizeof *slot);
    }
    recount();
}

/* A file that has become shorter would end the process by SIGBUS; a mutex that is none, by an abort. */
static bool intact(void)
{
    if (!right_size())
        return unusable("it has been cut");
    if (region->magic != REGION_MAGIC || region->lock.mutex.__data.__kind != mutex_kind)
        return unusable("it has been overwritten");
    return true;
}

static int wait_for(pthread_mutex_t *mutex)
{
    struct timespec until;
    int verdict = pthread_mutex_trylock(mutex);
    if (verdict != EBUSY)
        return verdict;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += impatient ? 0 : PATIENCE_S;
    verdict = pthread_mutex_timedlock(mutex, &until);
    impatient = verdict == ETIMEDOUT;
    return verdict;
}

static bool enter(void)
{
    if (!intact())
        return false;
    int verdict = wait_for(&region->lock.mutex);
    if (verdict != 0 && verdict != EOWNERDEAD)
        return unusable("its lock is not given back");
    write_begins();
    if (verdict == EOWNERDEAD) {
        bury();
        pthread_mutex_consistent(&region->lock.mutex);
    }
    return true;
}

static void leave(void)
{
    write_ends();
    pthread_mutex_unlock(&region->lock.mutex);
}

static struct region_slot *empty_slot(void)
{
    for (int i = 0; i < REGION_SLOTS; i++)
        if (!region->slots[i].pid)
            return &region->slots[i];
    return NULL;
}

/* Before exec this process may have been another program, whose memory is gone. */
static void bury_former_self(void)
{
    for (int i = 0; i < REGION_SLOTS; i++)
        if (region->slots[i].pid == (u64)getpid())
            memset(&region->slots[i], 0, sizeof region->slots[i]);
    recount();
}

static bool have_slot(void)
{
    if (mine)
        return true;
    bury_former_self();
    struct region_slot *slot = empty_slot();
    if (!slot) {
        bury();
        slot = empty_slot();
    }
    if (!slot)
        return false;
    memset(slot, 0, sizeof *slot);
    slot->start = process_start((u64)getpid());
    slot->pid = (u64)getpid();
    mine = slot;
    return true;
}

static bool fits(const struct region_card *card, u64 bytes)
{
    return card->used <= card->limit && bytes <= card->limit - card->used;
}

static void count(int card, u64 bytes)
{
    struct region_card *sums = &region->cards[card];
    mine->used[card] += bytes;
    sums->used += bytes;
    if (sums->used > sums->peak)
        sums->peak = sums->used;
}

bool region_reserve(int card, u64 bytes)
{
    if (!enter())
        return false;
    bool room = have_slot();
    if (room && !fits(&region->cards[card], bytes)) {
        bury();
        room = fits(&region->cards[card], bytes);
    }
    if (room)
        count(card, bytes);
    leave();
    return room;
}

void region_refused(int card)
{
    if (!enter())
        return;
    region->cards[card].refusals++;
    leave();
}

void region_force(int card, u64 bytes)
{
    if (!enter())
        return;
    if (have_slot())
        count(card, bytes);
    leave();
}

void region_release(int card, u64 bytes)
{
    if (!enter())
        return;
    if (mine) {
        u64 freed = bytes < mine->used[card] ? bytes : mine->used[card];
        mine->used[card] -= freed;
        region->cards[card].used -= freed < region->cards[card].used ? freed : region->cards[card].used;
    }
    leave();
}

bool region_used(int card, u64 *bytes)
{
    if (!enter())
        return false;
    bury();
    *bytes = region->cards[card].used;
    leave();
    return true;
}
