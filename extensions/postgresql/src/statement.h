/*
 * What planning and execution of a statement share: what its plan was made with, and whose values stand right now.
 */
#ifndef TRIMTAB_STATEMENT_H
#define TRIMTAB_STATEMENT_H

#include "trimtab.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "executor/instrument.h"
#include "optimizer/planner.h"
#include "portability/instr_time.h"

/* A statement is measured so often before it may become a class. */
#define N_FIRST 3
/* One that is known to be too short for a class is measured so rarely. */
#define SHORT_SAMPLE 64
#define N_FRONT 1024

#pragma GCC visibility push(hidden)

/* A plan that was made with a class's values. */
typedef struct Planned {
    uint32 tag;
    bool is_used;
    bool is_free; /* the statement may be touched */
    bool is_repeatable; /* ... begun with a probe's plan, given up, and run with its own */
    bool is_refused; /* PostgreSQL has not taken one of the values, and none was set */
    ClassKey key;
    tt_ticket ticket;
    double base[N_KNOBS];
    uint32 rules; /* what the settings of trimtab allowed then */
    double plan_ms;
    int64 extra_kb;
    double base_cost;
} Planned;

/* What the planner is called with. */
typedef struct Statement {
    Query *parse;
    const char *text;
    int options;
    ParamListInfo params;
} Statement;

/* What a look at a plan showed. */
typedef struct Look {
    uint64 mark; /* equal for plans that do the same */
    double cost; /* estimated with the session's own costs; below 0: not known */
    double ms;   /* what the look took */
} Look;

/* What this backend knows of a query id without asking shared memory. */
typedef struct Front {
    uint64 query_id;
    uint32 n, skipped;
    uint32 sketch; /* what statements of this id look like; 0: PostgreSQL has made the id */
    bool was_reset;
    double mean_ms;
} Front;

/* levels.c: 0, or the nesting level of the transaction in which the outermost planner, executor or utility of ours on the stack began;
   whether other values than the session's stand right now; whether those asked for last were refused */
extern int trimtab_outer;
extern bool trimtab_is_in_force, trimtab_is_refused;
extern void trimtab_unwound(int level);
extern int trimtab_open_nudged(const Planned *p, double nudge);
extern int trimtab_open_level(const Planned *p, bool executing);
extern void trimtab_close_level(int level);
extern int trimtab_open_base(bool *was_in_force);
extern void trimtab_close_base(int level, bool was_in_force);
extern void trimtab_levels_failed(bool is_whole);
extern double trimtab_elapsed_ms(instr_time began);

/* plan.c */
extern PlannedStmt *trimtab_plan(Query *parse, const char *text, int options, ParamListInfo params);
extern PlannedStmt *trimtab_call_planner(Query *parse, const char *text, int options, ParamListInfo params);
extern planner_hook_type trimtab_next_planner;
extern Front trimtab_fronts[N_FRONT];
extern Front *trimtab_new_front(Front *f, uint64 query_id);
extern void trimtab_forget_fronts(void);
extern uint32 trimtab_rules(void);
extern uint32 trimtab_tag_of(const PlannedStmt *plan);
extern Planned *trimtab_planned(uint32 tag);
extern void trimtab_throw_away(uint32 tag);
extern void trimtab_give_back(Planned *p, LeftAlone why, bool for_good);
extern bool trimtab_choose_again(Class *class, const Planned *p);

/* peek.c */
extern void trimtab_keep_peek(const Planned *p, const PlannedStmt *plan);
extern void trimtab_tag_peek(uint32 tag);
extern bool trimtab_has_peek(uint32 tag);
extern bool trimtab_can_peek(void);
extern void trimtab_return_peek(void);
extern bool trimtab_peek(QueryDesc *desc, Planned *p, double *ms);

/* sketch.c */
extern void trimtab_identify(Query *parse, const char *text, ParamListInfo params);
extern void trimtab_note_length(const Front *front, double ms);
extern void trimtab_note_unknown(void);

/* utility.c */
extern void trimtab_install_utility(void);

/* explain.c */
extern bool trimtab_in_explain;
extern void trimtab_explain(const Planned *p);
extern void trimtab_explain_left(const char *why);
extern void trimtab_begin_explain(void);
extern void trimtab_end_explain(void);
extern void trimtab_forget_explain(void);

/* screen.c */
extern void trimtab_screen(Planned *p, const Statement *s);
extern bool trimtab_wants_look(Class *class, tt_point *point);
extern bool trimtab_is_worth_it(Planned *p, const Statement *s);
extern void trimtab_note_io(Class *class, const BufferUsage *before);

#pragma GCC visibility pop

/* What trimtab_outer is while the outermost has an error handler of its own: it may outlive its transaction (CALL). */
#define OUTER_GUARDED (-1)

/*
 * Whoever is the first of ours on the stack says so, and takes it back with trimtab_leave. Most have no error handler for that: one costs
 * a short statement more than all the rest. An error that passes them by ends their (sub)transaction, which then calls trimtab_unwound.
 */
static inline bool trimtab_enter(void)
{
    if (trimtab_outer != 0) return false;
    trimtab_outer = GetCurrentTransactionNestLevel();
    return true;
}

static inline void trimtab_leave(bool has_entered)
{
    if (has_entered) trimtab_outer = 0;
}

/* Whether a statement that begins now is one that a client sent, or a parallel worker's share of one. */
static inline bool trimtab_is_ours(void)
{
    return trimtab_mode != MODE_OFF && trimtab_outer == 0 && !trimtab_is_in_force;
}

static inline Front *trimtab_place_of(uint64 query_id)
{
    return &trimtab_fronts[(query_id ^ (query_id >> 32)) % N_FRONT];
}

static inline Front *trimtab_front_of(uint64 query_id)
{
    Front *f = trimtab_place_of(query_id);
    return likely(f->query_id == query_id) ? f : trimtab_new_front(f, query_id);
}

static inline bool trimtab_is_class(const Front *f)
{
    return f->n >= N_FIRST && f->mean_ms >= trimtab_min_duration;
}

#endif
