/*
 * What is known, and where: shared memory of the server when preloaded, a named segment on 17 and later, else this backend alone.
 * One lock; it is held for about a microsecond, and never while a statement is planned or runs.
 */
#include "trimtab.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif

#include <math.h>

/* Probes at random, and those without a gain that end the search: as many as 15 parameters would have by themselves. The parameters that
   were added to those rarely help, and shall not make each search longer. */
#define N_RANDOM 17
#define PATIENCE 34

static Shared *shared = NULL;
static const char *where = "nowhere yet";
static char no_memory[256] = ""; /* why this session has none */
static int64 reserved_kb = 0;

#if PG_VERSION_NUM >= 150000
static shmem_request_hook_type next_request = NULL;
#endif
static shmem_startup_hook_type next_startup = NULL;

static void init(void *block)
{
    Shared *s = block;
    memset(s, 0, sizeof *s);
    s->magic = TRIMTAB_MAGIC;
    s->layout = TRIMTAB_LAYOUT;
    s->tranche = LWLockNewTrancheId();
    LWLockInitialize(&s->lock, s->tranche);
}

static void request(void)
{
    if (next_request != NULL) next_request();
    RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)));
}

static void save_at_exit(int code, Datum nothing)
{
    if (code == 0 && shared != NULL) trimtab_save(shared, LOG);
}

static void startup(void)
{
    bool found = false;
    if (next_startup != NULL) next_startup();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    shared = ShmemInitStruct("trimtab", sizeof(Shared), &found);
    if (!found) {
        init(shared);
        trimtab_load(shared);
    }
    LWLockRelease(AddinShmemInitLock);
    LWLockRegisterTranche(shared->tranche, "trimtab");
    where = "shared memory";
    if (!IsUnderPostmaster) on_shmem_exit(save_at_exit, (Datum)0);
}

void trimtab_request(void)
{
    next_request = shmem_request_hook;
    shmem_request_hook = request;
    next_startup = shmem_startup_hook;
    shmem_startup_hook = startup;
}

static void release_at_exit(int code, Datum nothing)
{
    trimtab_release();
}

/* Nothing is learnt in this session; it is said once. */
static void go_without(const char *why)
{
    strlcpy(no_memory, why, sizeof no_memory);
    ereport(LOG, (errmsg("trimtab learns nothing in this session, for want of memory: %s", why), errhint(TRIMTAB_MEMORY_HINT)));
}

const char *trimtab_no_memory(void)
{
    return no_memory;
}

#if PG_VERSION_NUM >= 170000
static void init_segment(void *block)
{
    init(block);
    trimtab_load(block);
}

/* NULL where there is no room for one: in a subtransaction, so that the statement that comes first does not fail for it. */
static Shared *make_shared(void)
{
    MemoryContext own = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    Shared *volatile made = NULL;
    bool found;
    char name[64];
    /* A build with another layout, which a session may have loaded before, has a segment of its own: asked for one of another size,
       PostgreSQL fails the statement. */
    snprintf(name, sizeof name, "trimtab %d %zu", TRIMTAB_LAYOUT, sizeof(Shared));
    where = "a shared segment";
    BeginInternalSubTransaction(NULL);
    PG_TRY();
    {
        made = GetNamedDSMSegment(name, sizeof(Shared), init_segment, &found);
        ReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        ErrorData *error;
        MemoryContextSwitchTo(own);
        error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        if (error->sqlerrcode == ERRCODE_QUERY_CANCELED) ReThrowError(error);
        go_without(error->message);
        FreeErrorData(error);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(own);
    CurrentResourceOwner = owner;
    return made;
}
#else
static Shared *make_shared(void)
{
    Shared *made = MemoryContextAllocExtended(TopMemoryContext, sizeof(Shared), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
    where = "this backend only";
    if (made == NULL) go_without("out of memory");
    else {
        init(made);
        trimtab_load(made);
    }
    return made;
}
#endif

Shared *trimtab_shared(void)
{
    static bool is_registered = false;
    if (shared == NULL && no_memory[0] == '\0') {
        shared = make_shared();
        if (shared != NULL) LWLockRegisterTranche(shared->tranche, "trimtab");
    }
    if (shared == NULL) return NULL;
    if (!is_registered && MyProcPid != PostmasterPid) {
        before_shmem_exit(release_at_exit, (Datum)0);
        is_registered = true;
    }
    /* A block of another version can only be another library's of the same name: nothing in it is read. */
    if (shared->magic != TRIMTAB_MAGIC || shared->layout != TRIMTAB_LAYOUT) return NULL;
    return shared;
}

const char *trimtab_where(void)
{
    return where;
}

/* Always; in tests where they say so. */
bool trimtab_can_stop(void)
{
    return trimtab_test_cost[0] == '\0' || (trimtab_test_plan_ms() > 0 && strstr(trimtab_test_cost, "stop=1") != NULL);
}

void trimtab_new_tuner(Class *class)
{
    tt_space space;
    tt_options options;
    memset(&options, 0, sizeof options);
    options.budget = trimtab_budget / 100;
    options.min_gain = trimtab_min_gain / 100;
    options.max_ratio = trimtab_max_ratio;
    options.seed = class->key.query_id | 1;
    options.is_screened = trimtab_test_cost[0] == '\0' || trimtab_test_plan_ms() > 0;
    options.can_stop = trimtab_can_stop();
    options.n_random = N_RANDOM;
    options.patience = PATIENCE;
    trimtab_knob_levels(class->base_values, class->levels);
    trimtab_make_space(class->base_values, &space);
    tt_tuner_init(&class->tuner, &space, &options);
    trimtab_add_hints(&class->tuner, class->base_values);
}

static Class *least_recent(void)
{
    Class *room = NULL;
    for (int i = 0; i < N_CLASSES; i++) {
        Class *c = &shared->class[i];
        if (!c->is_used) return c;
        if (c->tuner.phase != TT_PINNED && (room == NULL || c->last_at < room->last_at)) room = c;
    }
    return room;
}

/* The class of that key, held by the caller's lock; with `create` the one that was used least recently makes room. */
Class *trimtab_find(const ClassKey *key, const double *base, bool create)
{
    uint32 hash = DatumGetUInt32(hash_any((const unsigned char *)key, sizeof *key));
    Class *room;
    for (int i = 0; i < N_CLASSES; i++) {
        Class *c = &shared->class[i];
        if (shared->hash[i] == hash && c->is_used && memcmp(&c->key, key, sizeof *key) == 0) return c;
    }
    room = create ? least_recent() : NULL;
    if (room == NULL) return NULL;
    memset(room, 0, sizeof *room);
    room->key = *key;
    shared->hash[room - shared->class] = hash;
    memcpy(room->base_values, base, sizeof room->base_values);
    room->first_at = room->last_at = GetCurrentTimestamp();
    trimtab_new_tuner(room);
    room->is_used = true;
    return room;
}

/* Over all classes the same rule as in each: what probing lost is covered by the budget and a share of what was gained. */
bool trimtab_server_can_pay(const Shared *s)
{
    return trimtab_server_budget / 100 * s->total_ms + 0.25 * s->gained_ms >= s->loss_ms;
}

/* False, and nothing reserved, when all backends together would pass the limit. */
bool trimtab_reserve(int64 kb)
{
    bool fits;
    if (kb <= 0) return true;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    fits = shared->memory_kb + kb <= trimtab_memory_limit_kb;
    if (fits) {
        shared->memory_kb += kb;
        reserved_kb += kb;
    }
    LWLockRelease(&shared->lock);
    return fits;
}

void trimtab_release(void)
{
    if (reserved_kb == 0 || shared == NULL) return;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    shared->memory_kb -= reserved_kb;
    reserved_kb = 0;
    LWLockRelease(&shared->lock);
}

/* Notes that plans were made for candidates; the caller holds the lock. */
void trimtab_record_looks(Shared *s, const Class *class, int n, int n_same, double ms)
{
    tt_point own;
    Event *event = &s->event[s->n_events % N_EVENTS];
    tt_default(&class->tuner.space, &own);
    trimtab_record(s, class, EVENT_LOOKED, &own, ms);
    event->n_looks = n;
    event->n_same = n_same;
}

/* Notes what happened; the caller holds the lock. */
void trimtab_record(Shared *s, const Class *class, EventKind kind, const tt_point *point, double time_ms)
{
    Event *event = &s->event[s->n_events++ % N_EVENTS];
    const KnobLevels *levels = class->levels;
    memset(event, 0, sizeof *event);
    event->at = GetCurrentTimestamp();
    event->key = class->key;
    event->kind = kind;
    event->time_ms = time_ms;
    event->base_ms = class->tuner.base.n > 0 ? exp(class->tuner.base.mean) : 0;
    for (int i = 0; i < N_KNOBS; i++)
        if (point->level[i] != levels[i].base && point->level[i] < levels[i].n) {
            event->knob[event->n_changed] = i;
            event->value[event->n_changed++] = levels[i].value[point->level[i]];
        }
}
