/*
 * Where PostgreSQL calls us while a statement runs: it is measured, and its class is told what it took. Between the levels of
 * settings (a cursor between two fetches) the session has its own values, and an error takes them back with the (sub)transaction.
 */
#include "statement.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/plancache.h"

#include <math.h>

#define SAVE_EVERY_MS (5 * 60 * 1000)

static struct {
    QueryDesc *desc;
    uint64 query_id;
    bool has_class, is_reused, is_told, is_complete, is_in_parts, is_explained;
    Planned plan;
    BufferUsage before;
    double ms;
    int runs;
} now;

static ExecutorStart_hook_type next_start = standard_ExecutorStart;
static ExecutorRun_hook_type next_run = standard_ExecutorRun;
static ExecutorFinish_hook_type next_finish = standard_ExecutorFinish;
static ExecutorEnd_hook_type next_end = standard_ExecutorEnd;

/* A plan that ran before: it is measured again if its values still are what the class wants. */
static void take_again(void)
{
    Shared *shared = trimtab_shared();
    Class *class;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&now.plan.key, now.plan.base, false);
    now.has_class = class != NULL;
    if (class != NULL) {
        tt_point plain;
        tt_default(&class->tuner.space, &plain);
        now.is_told = tt_same(&class->tuner.space, &now.plan.ticket.point, &class->tuner.best);
        now.plan.ticket.kind = tt_same(&class->tuner.space, &now.plan.ticket.point, &plain) ? TT_DEFAULT : TT_BEST;
        now.plan.ticket.epoch = class->tuner.epoch;
        now.plan.ticket.serial = 0;
    }
    LWLockRelease(&shared->lock);
}

/* A plan that was kept runs in a session that may have changed since: what its user set then counts. */
static bool is_as_planned(const Planned *p)
{
    double base[N_KNOBS];
    trimtab_knob_values(base);
    if (memcmp(base, p->base, sizeof base) != 0 || p->rules != trimtab_rules()) return false;
    return p->ticket.kind == TT_DEFAULT || (trimtab_mode == MODE_TUNE && trimtab_situation() == LEFT_NOT);
}

static void forget_now(void)
{
    trimtab_release();
    trimtab_inside_forget();
    memset(&now, 0, sizeof now);
}

/* Whether a statement is known to be too short for a class, and this execution not one that is measured all the same. */
static inline bool is_skipped(const PlannedStmt *plan)
{
    uint64 query_id = (uint64)plan->queryId;
    Front *f = trimtab_place_of(query_id);
    if (query_id == 0) return true;
    return plan->invalItems == NIL && f->query_id == query_id && f->n >= N_FIRST && f->mean_ms < trimtab_min_duration &&
           ++f->skipped % SHORT_SAMPLE != 0;
}

/* The same of all others: those that have made no name yet, are of a class, or have plans with items. */
static bool is_wanted(PlannedStmt *plan)
{
    Front *f = trimtab_front_of((uint64)plan->queryId);
    if (IsParallelWorker()) return false;
    return trimtab_tag_of(plan) != 0 || f->n < N_FIRST || trimtab_is_class(f) || plan->invalItems == NIL ||
           ++f->skipped % SHORT_SAMPLE == 0;
}

static void begin(QueryDesc *desc)
{
    uint32 mark = trimtab_tag_of(desc->plannedstmt);
    Planned *p = trimtab_planned(mark);
    if (now.desc != NULL) forget_now();
    now.query_id = (uint64)desc->plannedstmt->queryId;
    now.desc = desc;
    now.before = pgBufferUsage;
    if (mark == 0) return;
    if (p->tag != mark || p->key.query_id != now.query_id || !is_as_planned(p)) { /* its record made room, or the session changed */
        trimtab_throw_away(mark);
        return;
    }
    now.plan = *p;
    now.has_class = now.is_told = true;
    now.is_reused = p->is_used;
    p->is_used = true;
    if (now.is_reused) take_again();
    if (!now.has_class) trimtab_throw_away(mark); /* it was forgotten */
    if (now.has_class && !trimtab_reserve(now.plan.extra_kb)) {
        trimtab_give_back(&now.plan, LEFT_MEMORY, false);
        now.is_told = false;
    }
}

/* EXPLAIN: with ANALYZE the statement has the values that are shown, and is not measured. */
static void start_explained(QueryDesc *desc, int flags)
{
    uint32 mark = trimtab_tag_of(desc->plannedstmt);
    const Planned *p = trimtab_planned(mark);
    int level = 0;
    if (now.desc != NULL) forget_now();
    if (mark != 0 && p->tag == mark && is_as_planned(p)) {
        trimtab_explain(p);
        now.has_class = (flags & EXEC_FLAG_EXPLAIN_ONLY) == 0;
        if (now.has_class && !trimtab_reserve(p->extra_kb)) {
            now.has_class = false;
            trimtab_explain_left(trimtab_left_text(LEFT_MEMORY));
        }
    } else if (mark != 0) trimtab_explain_left("what its kept plan was made with does not count in this session");
    if (now.has_class) {
        now.desc = desc;
        now.is_explained = true;
        now.plan = *p;
        level = trimtab_open_level(&now.plan, true);
        if (trimtab_is_refused) trimtab_explain_left(trimtab_left_text(LEFT_REFUSED));
    }
    next_start(desc, flags);
    trimtab_close_level(level);
}

static pg_noinline void start_measured(QueryDesc *desc, int flags)
{
    instr_time began;
    int level;
    if (trimtab_in_explain || (flags & EXEC_FLAG_EXPLAIN_ONLY) != 0) {
        start_explained(desc, flags);
        return;
    }
    if (!is_wanted(desc->plannedstmt)) {
        next_start(desc, flags);
        return;
    }
    begin(desc);
    INSTR_TIME_SET_CURRENT(began);
    level = now.has_class ? trimtab_open_level(&now.plan, true) : 0;
    if (now.has_class && trimtab_is_refused) {
        trimtab_give_back(&now.plan, LEFT_REFUSED, true);
        now.is_told = false;
    }
    next_start(desc, flags);
    trimtab_close_level(level);
    now.ms = trimtab_elapsed_ms(began);
    if (trimtab_inside != INSIDE_OFF && trimtab_mode == MODE_TUNE && now.has_class && now.plan.is_free &&
        now.plan.ticket.kind != TT_PROBE && trimtab_situation() == LEFT_NOT)
        trimtab_inside_begin(desc, now.plan.key.query_id, now.plan.base);
}

static pg_noinline void start_inside(QueryDesc *desc, int flags)
{
    bool was_in_force;
    int level = trimtab_open_base(&was_in_force);
    next_start(desc, flags);
    trimtab_close_base(level, was_in_force);
}

/* The hooks themselves are what every short statement pays for: they decide, and the work is elsewhere. */
static void start(QueryDesc *desc, int flags)
{
    if (unlikely(trimtab_is_in_force)) start_inside(desc, flags);
    else if (!trimtab_is_ours() || is_skipped(desc->plannedstmt)) next_start(desc, flags);
    else start_measured(desc, flags);
}

#if PG_VERSION_NUM >= 180000
#define RUN_ARGUMENTS QueryDesc *desc, ScanDirection direction, uint64 count
#define RUN_VALUES desc, direction, count
#else
#define RUN_ARGUMENTS QueryDesc *desc, ScanDirection direction, uint64 count, bool once
#define RUN_VALUES desc, direction, count, once
#endif

static inline void call_run(RUN_ARGUMENTS)
{
    bool has_entered = trimtab_enter();
    next_run(RUN_VALUES);
    trimtab_leave(has_entered);
}

/* Whether a probe may be tried before this run, and stopped: all rows are wanted, and they go to where nothing is kept of them. */
static bool may_peek(QueryDesc *desc, ScanDirection direction, uint64 count)
{
    CommandDest to = desc->dest->mydest;
    return now.has_class && now.is_told && !now.is_reused && now.runs == 0 && trimtab_has_peek(now.plan.tag) && trimtab_may_repeat_here() &&
           count == 0 &&
           direction == ForwardScanDirection && desc->operation == CMD_SELECT && desc->instrument_options == 0 && !IsInParallelMode() &&
           (to == DestRemote || to == DestRemoteExecute || to == DestNone);
}

/* For tests: `wait=watching`, `searching`, `proving` and `settled` hold a run in that phase of its class; where a class has other
   values, the run that has them. */
static pg_noinline void wait_in_phase(void)
{
    static const char *const names[] = {"watching", "searching", "proving", "settled", "pinned"};
    static const int kinds[] = {TT_DEFAULT, TT_PROBE, TT_PROBE, TT_BEST, TT_BEST};
    Shared *shared = trimtab_shared();
    Class *class;
    int phase = -1;
    LWLockAcquire(&shared->lock, LW_SHARED);
    class = trimtab_find(&now.plan.key, now.plan.base, false);
    if (class != NULL) phase = class->tuner.phase;
    LWLockRelease(&shared->lock);
    if (phase >= 0 && now.plan.ticket.kind == kinds[phase]) trimtab_test_wait(names[phase]);
}

static pg_noinline void run_measured(RUN_ARGUMENTS)
{
    instr_time began;
    int level;
    if (may_peek(desc, direction, count) && trimtab_peek(desc, &now.plan, &now.ms)) {
        now.runs++;
        now.is_complete = true;
        return;
    }
    INSTR_TIME_SET_CURRENT(began);
    level = now.has_class ? trimtab_open_level(&now.plan, true) : 0;
    if (unlikely(trimtab_test_cost[0] != '\0') && now.has_class) wait_in_phase();
    trimtab_inside_run();
    call_run(RUN_VALUES);
    trimtab_inside_end();
    trimtab_close_level(level);
    now.ms += trimtab_elapsed_ms(began);
    now.runs++;
    now.is_complete = count == 0 && direction == ForwardScanDirection && now.runs == 1;
    now.is_in_parts |= count != 0;
}

static pg_noinline void run_inside(RUN_ARGUMENTS)
{
    bool was_in_force;
    int level = trimtab_open_base(&was_in_force);
    call_run(RUN_VALUES);
    trimtab_close_base(level, was_in_force);
}

static void run(RUN_ARGUMENTS)
{
    if (unlikely(now.desc == desc) && trimtab_outer == 0) run_measured(RUN_VALUES);
    else if (unlikely(trimtab_is_in_force)) run_inside(RUN_VALUES);
    else {
        if (unlikely(now.desc != NULL) && trimtab_outer == 0) forget_now(); /* a cursor that is still open: it goes on without us */
        call_run(RUN_VALUES);
    }
}

/* What a statement that writes does last is its own too. */
static pg_noinline void finish_measured(QueryDesc *desc)
{
    instr_time began;
    bool has_entered = trimtab_enter();
    int level;
    INSTR_TIME_SET_CURRENT(began);
    level = now.has_class ? trimtab_open_level(&now.plan, true) : 0;
    next_finish(desc);
    trimtab_close_level(level);
    now.ms += trimtab_elapsed_ms(began);
    trimtab_leave(has_entered);
}

static void finish(QueryDesc *desc)
{
    bool has_entered;
    if (desc->operation == CMD_SELECT && desc->estate->es_auxmodifytables == NIL) { /* nothing left to run, no triggers */
        next_finish(desc);
        return;
    }
    if (now.desc == desc && trimtab_outer == 0) {
        finish_measured(desc);
        return;
    }
    has_entered = trimtab_enter();
    next_finish(desc);
    trimtab_leave(has_entered);
}

/* Tells the class, and books the same for the whole server. The caller holds the lock. */
static void tell(Shared *shared, Class *class, double ms)
{
    tt_account before = class->tuner.account, *after = &class->tuner.account;
    int promoted = class->tuner.n_promoted, restarts = class->tuner.n_restarts;
    tt_tell(&class->tuner, &now.plan.ticket, ms, 1);
    shared->total_ms += after->total - before.total;
    shared->loss_ms += after->probe_loss - before.probe_loss + after->kept_loss - before.kept_loss;
    shared->gained_ms += after->gained - before.gained;
    shared->changes++;
    if (now.plan.ticket.kind == TT_PROBE) trimtab_record(shared, class, EVENT_PROBE, &now.plan.ticket.point, ms);
    if (class->tuner.n_promoted > promoted) trimtab_record(shared, class, EVENT_FASTER, &class->tuner.best, ms);
    if (class->tuner.n_restarts > restarts) trimtab_record(shared, class, EVENT_RESTART, &class->tuner.best, ms);
}

/* Whether the plan, if PostgreSQL keeps it, is still the one to use; draws the next ticket of a kept plan. */
static bool is_plan_stale(Class *class)
{
    if (class->is_in_parts && !trimtab_allow_order) return now.plan.ticket.kind != TT_DEFAULT;
    if (now.plan.ticket.kind == TT_PROBE || !tt_same(&class->tuner.space, &now.plan.ticket.point, &class->tuner.best)) return true;
    if (!now.is_reused || trimtab_mode != MODE_TUNE || trimtab_inside == INSIDE_ALONE || class->left != LEFT_NOT) return false;
    return trimtab_choose_again(class, &now.plan);
}

/* What a run with the session's own values shows besides its time. */
static void note_default(Class *class)
{
    class->base_cost = now.desc->plannedstmt->planTree->total_cost;
    if (!now.is_reused) class->plan_ms = trimtab_test_cost[0] != '\0' ? trimtab_test_plan_ms() : now.plan.plan_ms;
    trimtab_note_io(class, &now.before);
}

static void conclude_class(double ms)
{
    Shared *shared = trimtab_shared();
    Class *class;
    bool is_stale = true, is_due;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&now.plan.key, now.plan.base, false);
    if (class != NULL) {
        class->calls++;
        if (now.plan.ticket.kind == TT_DEFAULT) note_default(class);
        class->last_at = GetCurrentTimestamp();
        class->is_in_parts |= now.is_in_parts;
        if (now.is_complete && now.is_told) tell(shared, class, ms);
        else if (now.is_told) tt_return(&class->tuner, &now.plan.ticket);
        is_stale = is_plan_stale(class);
    }
    is_due = shared->changes > shared->saved_changes &&
             TimestampDifferenceExceeds(shared->saved_at, GetCurrentTimestamp(), SAVE_EVERY_MS);
    LWLockRelease(&shared->lock);
    if (is_stale) trimtab_throw_away(now.plan.tag);
    if (is_due) trimtab_save(shared, LOG);
}

/* The statement is over; a cursor that is closed inside another statement is not counted. */
static pg_noinline void conclude(void)
{
    Front *f = trimtab_front_of(now.query_id);
    double ms = now.ms + (now.is_reused ? 0 : now.plan.plan_ms);
    if (trimtab_outer != 0 || now.is_explained) {
        forget_now();
        return;
    }
    if (trimtab_test_cost[0] != '\0') ms = trimtab_test_ms(now.plan.base, now.has_class ? &now.plan.ticket.point : NULL);
    if (now.is_complete) {
        f->n++;
        f->mean_ms += (ms - f->mean_ms) / Min(f->n, 16);
    }
    if (now.is_complete) trimtab_note_length(f, ms);
    if (now.has_class && trimtab_has_peek(now.plan.tag)) trimtab_return_peek(); /* it could not run: others may try, and its kept plan goes on */
    if (now.has_class) conclude_class(ms);
    else if (trimtab_is_class(f) && !f->was_reset && trimtab_mode != MODE_OFF) {
        /* From now on it is a class; a plan that was kept before has no tag: once, all plans of this backend are made anew. */
        f->was_reset = true;
        ResetPlanCache();
    }
    forget_now();
}

static void end(QueryDesc *desc)
{
    if (unlikely(now.desc == desc)) conclude();
    else if (desc->plannedstmt->queryId == 0 && trimtab_is_ours()) trimtab_note_unknown();
    next_end(desc);
}

/* The statement failed, with whatever values it had: a probe that failed is not tried again. */
static void failed(void)
{
    trimtab_levels_failed(true);
    if (now.desc == NULL) return;
    if (now.has_class && !now.is_explained) {
        Shared *shared = trimtab_shared(); /* which is there: the class is in it */
        Class *class;
        LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
        class = trimtab_find(&now.plan.key, now.plan.base, false);
        if (class != NULL) {
            tt_abandon(&class->tuner, &now.plan.ticket, now.ms);
            if (now.plan.ticket.kind == TT_PROBE) {
                shared->loss_ms += now.ms;
                trimtab_record(shared, class, EVENT_FAILED, &now.plan.ticket.point, now.ms);
            }
        }
        LWLockRelease(&shared->lock);
        trimtab_throw_away(now.plan.tag);
    }
    forget_now();
}

static void at_transaction(XactEvent event, void *nothing)
{
    if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT) return;
    trimtab_unwound(1);
    if (event == XACT_EVENT_ABORT) failed();
    else if (unlikely(now.desc != NULL) && trimtab_outer == 0) forget_now();
}

static void at_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *nothing)
{
    if (event != SUBXACT_EVENT_ABORT_SUB) return;
    trimtab_unwound(GetCurrentTransactionNestLevel());
    if (trimtab_outer == 0) failed();
    else trimtab_levels_failed(false); /* a function caught the error: its statement goes on with what it had */
}

/* Once: a session that is off from its start to its end runs as without the extension. */
void trimtab_install_hooks(void)
{
    static bool is_installed = false;
    if (is_installed) return;
    RegisterXactCallback(at_transaction, NULL);
    RegisterSubXactCallback(at_subtransaction, NULL);
    is_installed = true;
    if (planner_hook != NULL) trimtab_next_planner = planner_hook;
    if (ExecutorStart_hook != NULL) next_start = ExecutorStart_hook;
    if (ExecutorRun_hook != NULL) next_run = ExecutorRun_hook;
    if (ExecutorFinish_hook != NULL) next_finish = ExecutorFinish_hook;
    if (ExecutorEnd_hook != NULL) next_end = ExecutorEnd_hook;
    planner_hook = trimtab_plan;
    ExecutorStart_hook = start;
    ExecutorRun_hook = run;
    ExecutorFinish_hook = finish;
    ExecutorEnd_hook = end;
    trimtab_install_utility();
}
