/*
 * What the files of the extension share. One rule stands above all: whatever is uncertain leaves the statement alone.
 *
 *   module.c    settings and hooks            inspect.c  which statements may be touched, and their class
 *   answers.c   which answers depend on the plan
 *   knobs.c     the parameters and values     apply.c    how they are set
 *   classes.c   what is known, in shared memory; budget and memory
 *   plan.c      what a statement is planned with   levels.c  whose values stand
 *   sketch.c    which statements get a query id
 *   screen.c    which candidates have a plan of their own, and what PostgreSQL estimates of it
 *   peek.c      probes that are stopped in time
 *   hooks.c     execution, and what it took   inside.c   sections within a running query
 *   utility.c   statements that are no queries   locks.c   locks that the session holds
 *   store.c     the file                      views.c    SQL functions          explain.c  EXPLAIN's line
 */
#ifndef TRIMTAB_H
#define TRIMTAB_H

#include "postgres.h"

#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "storage/lwlock.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "trimtab_tuner.h"

#define TRIMTAB_VERSION "1.0"
#ifndef TRIMTAB_FILE
#define TRIMTAB_FILE "pg_stat/trimtab.knowledge"
#endif
#define N_CLASSES 256
#ifndef N_EVENTS
#define N_EVENTS 512
#endif
#define N_KNOBS 26
#define MAX_LEVELS 8
/* Of the shared block and the file; TT_LAYOUT is part of it. */
#ifndef TRIMTAB_MAGIC
#define TRIMTAB_MAGIC 0x54724d54
#endif
#define TRIMTAB_LAYOUT (200 + TT_LAYOUT)

typedef enum { MODE_OFF, MODE_OBSERVE, MODE_TUNE } RunMode;
typedef enum { INSIDE_OFF, INSIDE_ON, INSIDE_ALONE } InsideMode;

/* Why a statement is left alone; texts in inspect.c. */
typedef enum {
    LEFT_NOT,
    LEFT_WRITES,
    LEFT_LOCKS,
    LEFT_SERIALIZABLE,
    LEFT_VOLATILE,
    LEFT_ORDER,
    LEFT_OWN_SET,
    LEFT_TIMEOUT,
    LEFT_MEMORY,
    LEFT_IN_WRITE_TRANSACTION,
    LEFT_REFUSED,
    LEFT_HOLDS_LOCKS,
    LEFT_IN_PARTS,
    N_LEFT
} LeftAlone;

typedef struct ClassKey {
    uint64 query_id;
    Oid database;
    Oid role;
    uint32 environment; /* of the base values of all knobs: sessions with other defaults are another class */
    uint32 schema;      /* of the tables, their columns and indexes; statistics are no part of it */
    uint32 size;        /* size class of the tables: steps of a factor 4 */
    uint32 padding;
} ClassKey;

typedef struct KnobLevels {
    int n;
    int base; /* index of the value that the session has */
    double value[MAX_LEVELS];
} KnobLevels;

typedef struct Class {
    ClassKey key;
    bool is_used;
    int32 left;      /* LeftAlone of the newest execution */
    int64 calls;
    double base_values[N_KNOBS];
    KnobLevels levels[N_KNOBS]; /* as the session had them that made it: others may allow other parameters */
    TimestampTz first_at, last_at;
    double plan_ms;   /* what planning takes with them */
    bool is_in_parts; /* a client has fetched some of its rows only, or in several parts: which come first is the plan's choice */
    bool has_spilled, has_read; /* such a run has written temporary files; has read what was not in memory */
    double base_cost; /* PostgreSQL's estimate of the newest plan with the session's own values */
    tt_tuner tuner;
} Class;

typedef enum { EVENT_PROBE, EVENT_FASTER, EVENT_KEPT_BASE, EVENT_RESTART, EVENT_FAILED, EVENT_PINNED, EVENT_LOOKED, EVENT_STOPPED } EventKind;

typedef struct Event {
    TimestampTz at;
    ClassKey key;
    int32 kind;
    double time_ms, base_ms;
    int32 n_looks, n_same; /* EVENT_LOOKED: candidates whose plans were made; those whose plan was known */
    int32 n_changed;
    int32 knob[TT_MAX_PARAMS];
    double value[TT_MAX_PARAMS];
} Event;

typedef struct Shared {
    uint32 magic, layout;
    int tranche;
    LWLock lock;
    int64 memory_kb;   /* reserved over all backends */
    double total_ms, loss_ms, gained_ms; /* of the server: what the classes' accounts add up to, also of those forgotten */
    int64 n_events;
    int64 changes, saved_changes;
    TimestampTz saved_at;
    char file_problem[256]; /* "": none */
    uint32 hash[N_CLASSES]; /* of the keys, so that a search touches one line of memory and not all classes */
    Event event[N_EVENTS];
    Class class[N_CLASSES];
} Shared;

/* What is not seen outside the library is reached without detours, also where its compiler was not told so. */
#pragma GCC visibility push(hidden)

/* module.c */
extern int trimtab_mode;
extern double trimtab_budget, trimtab_server_budget, trimtab_min_duration, trimtab_min_gain, trimtab_max_ratio;
extern int trimtab_memory_limit_kb, trimtab_inside_tuples, trimtab_inside;
extern bool trimtab_allow_locks, trimtab_allow_volatile, trimtab_allow_order, trimtab_allow_writes, trimtab_allow_serializable;
extern char *trimtab_parameters, *trimtab_hints, *trimtab_file, *trimtab_test_cost;
extern double trimtab_test_plan_ms(void);
extern double trimtab_test_time(const double *base, const double *values);
extern void trimtab_test_wait(const char *where);
extern double trimtab_test_ms(const double *base, const tt_point *point);

/* knobs.c */
extern void trimtab_knob_values(double *values);
extern bool trimtab_has_own_set(void);
extern void trimtab_knob_levels(const double *base, KnobLevels *levels);
extern bool trimtab_are_levels(const double *base, const KnobLevels *levels);
extern void trimtab_space_of(const KnobLevels *levels, tt_space *space);
extern void trimtab_make_space(const double *base, tt_space *space);
extern void trimtab_add_hints(tt_tuner *tuner, const double *base);
extern const char *trimtab_knob_name(int knob);
extern char *trimtab_knob_text(int knob, double value);
extern int trimtab_knob_index(const char *name);
extern bool trimtab_knob_parse(int knob, const char *text, double *value);
extern bool trimtab_knob_range(int knob, double base, double *low, double *high);
extern double trimtab_knob_risk(int knob);
extern bool trimtab_is_for_cores(const double *base, const tt_point *point);
extern bool trimtab_check_parameters(char **newval, void **extra, GucSource source);
extern void trimtab_assign_parameters(const char *newval, void *extra);
extern uint32 trimtab_choice_hash(void);
extern bool trimtab_check_hints(char **newval, void **extra, GucSource source);
extern void trimtab_assign_hints(const char *newval, void *extra);

/* apply.c */
extern bool trimtab_knob_set(int knob, double value);
extern int trimtab_apply(const double *base, const tt_point *point, bool executing, double nudge);
extern int trimtab_apply_base(const double *base);
extern void trimtab_unapply(int level);
extern bool trimtab_has_costs(const double *base, const tt_point *point);
extern uint64 trimtab_mix_running(uint64 hash, const double *base, const tt_point *point, bool has_spilled, bool has_read);
extern int trimtab_work_mem_factor(const double *base, const tt_point *point, double *work_mem_kb, double *multiplier);

/* inspect.c */
extern LeftAlone trimtab_inspect(Query *query, bool *is_repeatable);
extern bool trimtab_may_repeat_here(void);
extern LeftAlone trimtab_situation(void);
extern const char *trimtab_left_text(LeftAlone left);
extern void trimtab_key(Query *query, const double *base, ClassKey *key);
extern int trimtab_memory_nodes(PlannedStmt *plan, int workers);
extern int64 trimtab_extra_memory_kb(PlannedStmt *plan, const double *base, const tt_point *point);

/* answers.c */
extern bool trimtab_depends_on_plan(Query *query);

/* locks.c */
extern bool trimtab_holds_locks(void);

/* classes.c */
extern Shared *trimtab_shared(void);
extern const char *trimtab_where(void);
extern const char *trimtab_no_memory(void);
#define TRIMTAB_MEMORY_HINT "Statements run as without it. Add trimtab to shared_preload_libraries, or give the server more memory (/dev/shm)."
extern void trimtab_request(void);
extern void trimtab_startup(void);
extern Class *trimtab_find(const ClassKey *key, const double *base, bool create);
extern bool trimtab_server_can_pay(const Shared *shared);
extern bool trimtab_reserve(int64 kb);
extern void trimtab_release(void);
extern void trimtab_record(Shared *shared, const Class *class, EventKind kind, const tt_point *point, double time_ms);
extern void trimtab_record_looks(Shared *shared, const Class *class, int n, int n_same, double ms);
extern void trimtab_new_tuner(Class *class);
extern bool trimtab_can_stop(void);

/* hooks.c */
extern void trimtab_install_hooks(void);

/* inside.c */
extern void trimtab_inside_begin(QueryDesc *desc, uint64 query_id, const double *base);
extern void trimtab_inside_run(void);
extern void trimtab_inside_end(void);
extern void trimtab_inside_forget(void);

/* store.c */
extern void trimtab_load(Shared *shared);
extern bool trimtab_save(Shared *shared, int elevel);
extern const char *trimtab_file_problem(const Shared *shared);

/* views.c */
extern char *trimtab_changes(const Class *class, const tt_point *point);

/* explain.c */
extern void trimtab_install_explain(void);

#pragma GCC visibility pop

#endif
