/* Promises: see trimtab_sections.h. A group is a table of slots, in memory of this process or in a mapped file. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include "trimtab_sections.h"

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
#define N_SLOTS 64
#define NAME_BYTES 64
#define DEFAULT_RISK 0.25
#define SPINS_BEFORE_YIELD 200
#define YIELDS_BEFORE_LOOKING 2000

typedef struct slot {
    uint32_t lock; /* the process that holds it; 0: free */
    uint32_t is_used;
    uint64_t fingerprint; /* of the parameters: a program with others has a slot of its own */
    char name[NAME_BYTES];
    tt_tuner tuner;
} slot;

typedef struct block {
    uint64_t magic;
    uint32_t layout, slot_bytes, n_slots;
    uint32_t lock;
    slot slots[N_SLOTS];
} block;

struct tt_section {
    tt_group *group;
    slot *slot;
    int n_params, writes;
    uint32_t lock, n_inside;
    tt_param param[TT_MAX_PARAMS];
    tt_point now; /* what addresses and setters were last given */
    struct tt_section *next;
};

struct tt_group {
    block *block;
    bool is_mapped, is_off;
    tt_clock clock;
    tt_section *sections;
    char error[256];
};

static uint64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static void complain(tt_group *group, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vsnprintf(group->error, sizeof group->error, format, words);
    va_end(words);
}

/* True when the lock was taken from a process that died with it: what it guards may be half written. */
static bool lock_shared(uint32_t *lock)
{
    uint32_t me = (uint32_t)getpid(), holder = 0;
    bool stolen = false;
    for (unsigned spins = 1; !__atomic_compare_exchange_n(lock, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); spins++) {
        if (spins % SPINS_BEFORE_YIELD == 0) sched_yield();
        bool look = spins % (SPINS_BEFORE_YIELD * YIELDS_BEFORE_LOOKING) == 0;
        if (look && holder != 0 && holder != me && kill((pid_t)holder, 0) < 0 && errno == ESRCH) {
            stolen = __atomic_compare_exchange_n(lock, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
            if (stolen) break;
        }
        holder = 0;
    }
    return stolen;
}

static void unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static long value_at(const tt_param *p, int level)
{
    return p->values != NULL ? p->values[level] : p->low + level * p->step;
}

static block *map(tt_group *group, const char *path)
{
    struct stat found;
    block *b = MAP_FAILED;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX) < 0 || fstat(file, &found) < 0) {
        complain(group, "cannot open path=%s: %s\nhint: knowledge stays in this process", path, strerror(errno));
    } else if (found.st_size != 0 && found.st_size != (off_t)sizeof(block)) {
        complain(group, "path=%s has size=%lld and not %zu: another version's, or damaged\nhint: remove the file", path,
                 (long long)found.st_size, sizeof(block));
    } else if (found.st_size == 0 && ftruncate(file, (off_t)sizeof(block)) < 0) {
        complain(group, "cannot make path=%s: %s\nhint: knowledge stays in this process", path, strerror(errno));
    } else {
        b = mmap(NULL, sizeof(block), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (b == MAP_FAILED) complain(group, "cannot map path=%s: %s\nhint: knowledge stays in this process", path, strerror(errno));
    }
    if (b != MAP_FAILED && b->magic == 0) {
        b->layout = TT_LAYOUT;
        b->slot_bytes = sizeof(slot);
        b->n_slots = N_SLOTS;
        b->magic = MAGIC; /* last: a file half made is made again */
    } else if (b != MAP_FAILED && (b->magic != MAGIC || b->layout != TT_LAYOUT || b->slot_bytes != sizeof(slot) || b->n_slots != N_SLOTS)) {
        complain(group, "path=%s has layout=%u and not %u: another version's, or damaged\nhint: remove the file", path,
                 (unsigned)b->layout, (unsigned)TT_LAYOUT);
        munmap(b, sizeof(block));
        b = MAP_FAILED;
    }
    if (file >= 0) close(file); /* and with it the lock */
    return b == MAP_FAILED ? NULL : b;
}

tt_group *tt_group_open(const char *path, tt_clock clock)
{
    tt_group *group = calloc(1, sizeof *group);
    const char *off = getenv("TRIMTAB_SECTIONS");
    if (group == NULL) return NULL;
    group->clock = clock != NULL ? clock : monotonic;
    group->is_off = off != NULL && strcmp(off, "off") == 0;
    if (path != NULL && !group->is_off) group->block = map(group, path);
    group->is_mapped = group->block != NULL;
    if (group->block == NULL) group->block = calloc(1, sizeof(block));
    if (group->block == NULL) {
        free(group);
        return NULL;
    }
    return group;
}

const char *tt_group_error(const tt_group *group)
{
    return group->error;
}

void tt_group_close(tt_group *group)
{
    while (group->sections != NULL) {
        tt_section *section = group->sections;
        group->sections = section->next;
        for (int i = 0; i < section->n_params; i++) {
            free((void *)section->param[i].name);
            free((void *)section->param[i].values);
        }
        free(section);
    }
    if (group->is_mapped) munmap(group->block, sizeof(block));
    else free(group->block);
    free(group);
}

/* The levels of a parameter; 0 with a complaint when it makes no sense. */
static int levels_of(tt_group *group, const char *section, const tt_param *p, tt_param_space *space)
{
    long n = p->values != NULL ? p->n_values : p->step < 1 || p->high < p->low ? 0 : (p->high - p->low) / p->step + 1;
    if (p->name == NULL || p->name[0] == '\0' || strpbrk(p->name, "\"\\\n") != NULL || n < 1 || n > INT16_MAX) {
        complain(group, "section=%s parameter=%s low=%ld high=%ld step=%ld has no range\nhint: low <= high, or a list of values",
                 section, p->name == NULL ? "" : p->name, p->low, p->high, p->step);
        return 0;
    }
    for (int level = 0; level < n; level++)
        if (value_at(p, level) == p->initial) {
            space->n_levels = (int32_t)n;
            space->default_level = level;
            space->risk = p->risk > 0 ? p->risk : DEFAULT_RISK;
            return (int)n;
        }
    complain(group, "section=%s parameter=%s initial=%ld is not one of its values\nhint: low + k * step, or of the list", section,
             p->name, p->initial);
    return 0;
}

static bool copy_param(tt_param *to, const tt_param *from)
{
    *to = *from;
    to->name = strdup(from->name);
    if (from->values == NULL) return to->name != NULL;
    size_t bytes = sizeof(long) * (size_t)from->n_values;
    long *values = malloc(bytes);
    if (values != NULL) memcpy(values, from->values, bytes);
    to->values = values;
    return to->name != NULL && values != NULL;
}

static uint64_t fingerprint(const tt_section *section, const tt_space *space)
{
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (int i = 0; i < section->n_params; i++) {
        const tt_param *p = &section->param[i];
        for (const char *c = p->name; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
        for (int level = 0; level < space->param[i].n_levels; level++)
            hash = (hash ^ (uint64_t)value_at(p, level)) * 1099511628211ULL;
        hash = (hash ^ (uint64_t)p->initial) * 1099511628211ULL;
    }
    return hash;
}

/* The slot of that name and these parameters, new or found; NULL when all are taken. */
static slot *take_slot(tt_group *group, const char *name, uint64_t print, const tt_space *space, const tt_options *options)
{
    slot *found = NULL;
    lock_shared(&group->block->lock);
    for (int i = 0; i < N_SLOTS && found == NULL; i++) {
        slot *s = &group->block->slots[i];
        if (s->is_used && (s->fingerprint != print || strncmp(s->name, name, NAME_BYTES - 1) != 0)) continue;
        bool is_good = s->is_used && tt_is_sane(&s->tuner) && memcmp(&s->tuner.space, space, sizeof *space) == 0;
        if (!is_good) {
            s->lock = 0;
            tt_tuner_init(&s->tuner, space, options);
            snprintf(s->name, NAME_BYTES, "%s", name);
            s->fingerprint = print;
            s->is_used = 1;
        }
        found = s;
    }
    unlock(&group->block->lock);
    return found;
}

tt_section *tt_section_open(tt_group *group, const char *name, const tt_param *params, int n_params, const tt_options *options)
{
    tt_space space;
    memset(&space, 0, sizeof space);
    if (name == NULL || strpbrk(name, "\"\\\n") != NULL || strlen(name) >= NAME_BYTES || n_params < 1 || n_params > TT_MAX_PARAMS) {
        complain(group, "section=%s n_params=%d\nhint: 1 to %d parameters, a name below %d bytes without quotes",
                 name == NULL ? "" : name, n_params, TT_MAX_PARAMS, NAME_BYTES);
        return NULL;
    }
    tt_section *section = calloc(1, sizeof *section);
    if (section == NULL) return NULL;
    section->group = group;
    section->next = group->sections;
    group->sections = section; /* closed with the group, whatever becomes of it */
    for (int i = 0; i < n_params; i++) {
        tt_param param = params[i];
        if (param.step == 0) param.step = 1;
        if (levels_of(group, name, &param, &space.param[i]) == 0) return NULL;
        section->n_params = i + 1;
        if (!copy_param(&section->param[i], &param)) return NULL;
        section->writes |= param.address != NULL || param.set != NULL;
    }
    space.n_params = n_params;
    section->slot = take_slot(group, name, fingerprint(section, &space), &space, options);
    if (section->slot == NULL) complain(group, "section=%s: all %d slots are taken\nhint: remove the file", name, N_SLOTS);
    tt_default(&space, &section->now);
    return section->slot == NULL ? NULL : section;
}

/* The tuner, locked; a tuner whose owner died in the middle of a call starts anew. */
static tt_tuner *hold(tt_section *section)
{
    tt_tuner *tuner = &section->slot->tuner;
    if (lock_shared(&section->slot->lock)) {
        tt_space space = tuner->space;
        tt_options options = tuner->options;
        tt_tuner_init(tuner, &space, &options);
    }
    return tuner;
}

static void release(tt_section *section)
{
    unlock(&section->slot->lock);
}

static void write_values(tt_section *section, const tt_point *point)
{
    for (int i = 0; i < section->n_params; i++) {
        const tt_param *p = &section->param[i];
        long value = value_at(p, point->level[i]);
        if (p->address != NULL) *p->address = value;
        if (p->set != NULL && (section->now.level[i] != point->level[i])) p->set(p->context, value);
    }
    section->now = *point;
}

void tt_begin(tt_section *section, tt_run *run, double work)
{
    run->is_measured = 0;
    run->is_inside = 0;
    if (section->group->is_off) {
        tt_default(&section->slot->tuner.space, &run->ticket.point);
        return;
    }
    if (section->writes) {
        lock_shared(&section->lock);
        run->is_inside = 1;
        if (section->n_inside++ > 0) {
            run->ticket.point = section->now;
            unlock(&section->lock);
            return;
        }
    }
    tt_next(hold(section), work, &run->ticket);
    release(section);
    if (section->writes) {
        write_values(section, &run->ticket.point);
        unlock(&section->lock);
    }
    run->is_measured = 1;
    run->began_ns = section->group->clock();
}

long tt_value(const tt_section *section, const tt_run *run, int index)
{
    return index < 0 || index >= section->n_params ? 0 : value_at(&section->param[index], run->ticket.point.level[index]);
}

static void leave(tt_section *section, tt_run *run)
{
    if (!run->is_inside) return;
    run->is_inside = 0;
    lock_shared(&section->lock);
    section->n_inside--;
    unlock(&section->lock);
}

void tt_end(tt_section *section, tt_run *run, double work)
{
    if (run->is_measured) {
        uint64_t time = section->group->clock() - run->began_ns;
        run->is_measured = 0;
        tt_tell(hold(section), &run->ticket, (double)time, work);
        release(section);
    }
    leave(section, run);
}

void tt_cancel(tt_section *section, tt_run *run)
{
    if (run->is_measured) {
        run->is_measured = 0;
        tt_abandon(hold(section), &run->ticket, (double)(section->group->clock() - run->began_ns));
        release(section);
    }
    leave(section, run);
}

void tt_section_tuner(tt_section *section, tt_tuner *copy)
{
    *copy = *hold(section);
    release(section);
}

int tt_section_json(tt_section *section, char *out, size_t size)
{
    static const char *const phases[] = {"watching", "searching", "proving", "settled", "pinned"};
    tt_tuner t;
    double low, high, gain;
    size_t used = 0;
    tt_section_tuner(section, &t);
    gain = tt_gain(&t, &low, &high);
#define PUT(...) used += (size_t)snprintf(used < size ? out + used : NULL, used < size ? size - used : 0, __VA_ARGS__)
    PUT("{\"schema_version\": 1, \"section\": \"%s\", \"phase\": \"%s\", \"runs\": %llu, \"probes\": %llu, ", section->slot->name,
        phases[t.phase], (unsigned long long)t.account.n_runs, (unsigned long long)t.account.n_probes);
    PUT("\"values\": {");
    for (int i = 0; i < section->n_params; i++)
        PUT("%s\"%s\": %ld", i > 0 ? ", " : "", section->param[i].name, value_at(&section->param[i], t.best.level[i]));
    PUT("}, \"gain\": %.4f, \"gain_low\": %.4f, \"gain_high\": %.4f, ", gain, low, high);
    PUT("\"account_s\": {\"total\": %.6f, \"probe_loss\": %.6f, \"kept_loss\": %.6f, \"gained\": %.6f}}", t.account.total / 1e9,
        t.account.probe_loss / 1e9, t.account.kept_loss / 1e9, t.account.gained / 1e9);
#undef PUT
    return (int)used;
}
