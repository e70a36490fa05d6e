/* Promises: see trimtab_share.h. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include "trimtab_share.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x54524d5442534543ULL /* TRMTBSEC */
#define SPINS_BEFORE_YIELD 200
#define YIELDS_BEFORE_LOOKING 2000
/* A lock is held for less than a microsecond: who holds it for so long was stopped, or is not its holder (a damaged file, a process
   that has the number of one that died). */
#define PATIENCE_NS 1000000000ULL
#define FILE_PAUSE_NS 1000000

uint64_t tt_monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void tt_complain(tt_group *group, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vsnprintf(group->error, sizeof group->error, format, words);
    va_end(words);
}

static bool is_dead(uint32_t process)
{
    return process > INT32_MAX || (kill((pid_t)process, 0) < 0 && errno == ESRCH);
}

enum tt_taken tt_take_lock(uint32_t *lock, uint64_t patience)
{
    uint32_t me = (uint32_t)getpid(), holder = 0;
    uint64_t since = 0;
    for (unsigned spins = 1; !__atomic_compare_exchange_n(lock, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); spins++) {
        if (spins % SPINS_BEFORE_YIELD == 0) sched_yield();
        if (spins % (SPINS_BEFORE_YIELD * YIELDS_BEFORE_LOOKING) == 0 && holder != 0) {
            bool can_steal = holder != me && is_dead(holder);
            if (can_steal && __atomic_compare_exchange_n(lock, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return TT_STOLEN;
            uint64_t at = tt_monotonic();
            since = since == 0 ? at : since;
            if (at - since >= patience) return TT_NOT_TAKEN;
        }
        holder = 0;
    }
    return TT_TAKEN;
}

uint64_t tt_patience(const tt_section *section)
{
    return section->group->is_mapped ? PATIENCE_NS : UINT64_MAX;
}

void tt_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* False with errno EWOULDBLOCK if another process does not give it back: it may be stopped. */
static bool lock_file(int file)
{
    for (uint64_t since = tt_monotonic(); flock(file, LOCK_EX | LOCK_NB) < 0; nanosleep(&(struct timespec){0, FILE_PAUSE_NS}, NULL))
        if ((errno != EWOULDBLOCK && errno != EINTR) || tt_monotonic() - since >= PATIENCE_NS) return false;
    return true;
}

/* All of the file has its place on the disk: a write to the mapping that finds none would end the program. */
static int make_room(int file)
{
    int error;
    do error = posix_fallocate(file, 0, (off_t)sizeof(tt_block));
    while (error == EINTR);
    if (error != 0) (void)!ftruncate(file, 0); /* what was made of it */
    return error;
}

tt_block *tt_map(tt_group *group, const char *path)
{
    struct stat found;
    tt_block *b = MAP_FAILED;
    int error;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && !lock_file(file)) {
        tt_complain(group, "cannot lock path=%s: %s\nhint: another process holds the lock; knowledge stays in this process", path, strerror(errno));
    } else if (file < 0 || fstat(file, &found) < 0) {
        tt_complain(group, "cannot open path=%s: %s\nhint: knowledge stays in this process", path, strerror(errno));
    } else if (found.st_size != 0 && found.st_size != (off_t)sizeof(tt_block)) {
        tt_complain(group, "path=%s has size=%lld and not %zu: another version's, or damaged\nhint: remove the file", path,
                    (long long)found.st_size, sizeof(tt_block));
    } else if (found.st_size == 0 && (error = make_room(file)) != 0) {
        tt_complain(group, "cannot make path=%s: %s\nhint: knowledge stays in this process", path, strerror(error));
    } else {
        b = mmap(NULL, sizeof(tt_block), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (b == MAP_FAILED) tt_complain(group, "cannot map path=%s: %s\nhint: knowledge stays in this process", path, strerror(errno));
    }
    if (b != MAP_FAILED && b->magic == 0) {
        b->layout = TT_LAYOUT;
        b->slot_bytes = sizeof(tt_slot);
        b->n_slots = N_SLOTS;
        b->magic = MAGIC; /* last: a file half made is made again */
    } else if (b != MAP_FAILED && (b->magic != MAGIC || b->layout != TT_LAYOUT || b->slot_bytes != sizeof(tt_slot) || b->n_slots != N_SLOTS)) {
        tt_complain(group, "path=%s has layout=%u and not %u: another version's, or damaged\nhint: remove the file", path,
                    (unsigned)b->layout, (unsigned)TT_LAYOUT);
        munmap(b, sizeof(tt_block));
        b = MAP_FAILED;
    }
    if (file >= 0) {
        (void)flock(file, LOCK_UN); /* the mapping keeps it otherwise, and others would wait until this process ends */
        close(file);
    }
    return b == MAP_FAILED ? NULL : b;
}

static void complain_of_lock(const tt_section *section, const char *name, const uint32_t *lock)
{
    tt_complain(section->group,
                "section=%s is locked by process=%u in the file\nhint: it learns for itself; remove the file if that is no process of yours",
                name, (unsigned)*lock);
}

/* Whether it tunes these parameters; risks are no part of what it knows. */
static bool is_of(const tt_tuner *tuner, const tt_space *space)
{
    tt_space like = tuner->space;
    for (int i = 0; i < space->n_params; i++) like.param[i].risk = space->param[i].risk;
    return memcmp(&like, space, sizeof like) == 0;
}

/* Makes the slot the section's: as it is, with the risks and the options of the program that opens it, or from the defaults if it is new
   or damaged. False if it cannot be locked. */
static bool claim(tt_section *section, tt_slot *s, const char *name, uint64_t print)
{
    enum tt_taken taken = tt_take_lock(&s->lock, tt_patience(section));
    if (taken == TT_NOT_TAKEN) {
        complain_of_lock(section, name, &s->lock);
        return false;
    }
    bool is_whole = tt_is_sane(&s->tuner) && is_of(&s->tuner, &section->space);
    if (s->is_used && !is_whole)
        tt_complain(section->group, "section=%s is damaged in the file\nhint: it begins with the defaults; let no other program write the file", name);
    if (!s->is_used || taken == TT_STOLEN || !is_whole) {
        tt_tuner_init(&s->tuner, &section->space, &section->options);
        snprintf(s->name, NAME_BYTES, "%s", name);
        s->fingerprint = print;
        s->is_used = 1;
    } else {
        s->tuner.space = section->space;
        tt_set_options(&s->tuner, &section->options);
    }
    tt_unlock(&s->lock);
    return true;
}

/* The slot that processes share; NULL when all are taken, or it cannot be locked. */
static tt_slot *shared_slot(tt_section *section, const char *name, uint64_t print)
{
    tt_block *b = section->group->block;
    tt_slot *found = NULL;
    if (tt_take_lock(&b->lock, tt_patience(section)) == TT_NOT_TAKEN) {
        complain_of_lock(section, name, &b->lock);
        return NULL;
    }
    for (int i = 0; i < N_SLOTS && found == NULL; i++) {
        tt_slot *s = &b->slots[i];
        if (!s->is_used || (s->fingerprint == print && strncmp(s->name, name, NAME_BYTES - 1) == 0)) found = s;
    }
    if (found == NULL) tt_complain(section->group, "section=%s: all %d slots are taken\nhint: it learns for itself; remove the file", name, N_SLOTS);
    else if (!claim(section, found, name, print)) found = NULL;
    tt_unlock(&b->lock);
    return found;
}

tt_slot *tt_take_slot(tt_section *section, const char *name, uint64_t print)
{
    tt_slot *found = shared_slot(section, name, print);
    if (found != NULL) return found;
    found = section->alone = calloc(1, sizeof *found);
    return found != NULL && claim(section, found, name, print) ? found : NULL;
}
