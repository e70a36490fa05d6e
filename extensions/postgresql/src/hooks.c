/*
 * Where PostgreSQL calls us. A statement's settings stand only while its planner, its executor's start and its executor's run are on
 * the stack, each in a level of settings of its own: between them (a cursor between two fetches) the session has its own values, and
 * an error takes them back with the (sub)transaction. Statements inside a statement (functions) get the session's own values.
 *
 * A plan carries a tag among its invalidation items, so that a plan that PostgreSQL keeps (prepared statements) is known again
 * and can be thrown away when its values are no longer wanted: a probe's plan never outlives its probe.
 */
#include "trimtab.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "portability/instr_time.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/inval.h"
#include "utils/plancache.h"
#include "utils/syscache.h"

#include <math.h>

#define N_PLANNED 1024
#define N_FRONT 1024
#define TAG_BASE 0x54000000u
#define TAG_MASK 0xff000000u
/* A statement is measured so often before it may become a class, and so rarely once it is known to be too short for one. */
#define N_FIRST 3
#define SHORT_SAMPLE 64
#define SAVE_EVERY_MS (5 * 60 * 1000)

/* A plan that was made with a class's values. */
typedef struct Planned {
    uint32 tag;
    bool is_used;
    bool is_free; /* the statement may be touched */
    ClassKey key;
    tt_ticket ticket;
    double base[N_KNOBS];
    uint32 rules; /* what the settings of trimtab allowed then */
    double plan_ms;
    int64 extra_kb;
    double base_cost;
} Planned;

/* What this backend knows of a query id without asking shared memory. */
typedef struct Front {
    uint64 query_id;
    uint32 n, skipped;
    bool was_reset;
    double mean_ms;
} Front;

static struct {
    QueryDesc *desc;
    uint64 query_id;
    bool has_class, is_reused, is_told, is_complete;
    Planned plan;
    double ms;
    int runs;
} now;

static Planned planned[N_PLANNED];
static Front front[N_FRONT];
static uint32 n_tags = 0;
static int nesting = 0;
static bool is_in_force = false; /* other values than the session's stand right now */
static bool is_statement_in_force = false; /* ... for the statement of the top level */
static double force_base[N_KNOBS];
static bool has_kept = false; /* a ticket that a kept plan's end drew for the next planning */
static Planned kept;
static uint32 last_probe = 0; /* tag of the newest plan of a probe; record 0 is nobody's */

bool trimtab_in_explain = false;

static planner_hook_type next_planner = NULL;
static ExecutorStart_hook_type next_start = NULL;
static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;
static ExecutorEnd_hook_type next_end = NULL;
static ProcessUtility_hook_type next_utility = NULL;

static bool is_ours(void)
{
    return trimtab_mode != MODE_OFF && nesting == 0 && !IsParallelWorker() && !is_in_force && trimtab_shared() != NULL;
}

static Front *front_of(uint64 query_id)
{
    Front *f = &front[(query_id ^ (query_id >> 32)) % N_FRONT];
    if (f->query_id != query_id) {
        memset(f, 0, sizeof *f);
        f->query_id = query_id;
    }
    return f;
}

static uint32 rules(void)
{
    return trimtab_parameters_hash() ^ (trimtab_allow_locks ? 1u : 0) ^ (trimtab_allow_volatile ? 2u : 0) ^ (trimtab_allow_order ? 4u : 0);
}

static bool is_class(const Front *f)
{
    return f->n >= N_FIRST && f->mean_ms >= trimtab_min_duration;
}

static uint32 tag_of(const PlannedStmt *plan)
{
    ListCell *cell;
    foreach (cell, plan->invalItems) {
        PlanInvalItem *item = lfirst(cell);
        if (item->cacheId == PROCOID && (item->hashValue & TAG_MASK) == TAG_BASE) return item->hashValue;
    }
    return 0;
}

static void throw_away(uint32 tag)
{
    if (tag != 0) CallSyscacheCallbacks(PROCOID, tag);
}

/* Opens a level of settings; the values stand until close_level, or until the transaction fails. */
static int open_level(const Planned *p, bool executing)
{
    int level = trimtab_apply(p->base, &p->ticket.point, executing);
    if (level > 0) {
        is_in_force = is_statement_in_force = true;
        memcpy(force_base, p->base, sizeof force_base);
    }
    return level;
}

static void close_level(int level)
{
    if (level == 0) return;
    is_in_force = is_statement_in_force = false;
    trimtab_unapply(level);
}

/* For what runs inside a statement that has other values. */
static int open_base(bool *was_in_force)
{
    *was_in_force = is_in_force;
    if (!is_in_force) return 0;
    is_in_force = false;
    return trimtab_apply_base(force_base);
}

static void close_base(int level, bool was_in_force)
{
    is_in_force = was_in_force;
    trimtab_unapply(level);
}

static PlannedStmt *call_planner(Query *parse, const char *text, int options, ParamListInfo params)
{
    PlannedStmt *plan;
    nesting++;
    PG_TRY();
    {
        plan = next_planner != NULL ? next_planner(parse, text, options, params) : standard_planner(parse, text, options, params);
    }
    PG_FINALLY();
    {
        nesting--;
    }
    PG_END_TRY();
    return plan;
}

static void ticket_of(const Class *class, int kind, tt_ticket *ticket)
{
    memset(ticket, 0, sizeof *ticket);
    ticket->kind = kind;
    ticket->epoch = class->tuner.epoch;
    if (kind == TT_DEFAULT) tt_default(&class->tuner.space, &ticket->point);
    else ticket->point = class->tuner.best;
}

/* The next ticket of a class that may be touched; the caller holds the lock. */
static void choose(Shared *shared, Class *class, Planned *p)
{
    tt_tuner *tuner = &class->tuner;
    bool is_searching = tuner->phase == TT_SEARCHING || tuner->phase == TT_PROVING;
    if (trimtab_in_explain || (is_searching && !trimtab_server_can_pay(shared))) {
        ticket_of(class, TT_BEST, &p->ticket);
        return;
    }
    tt_next(tuner, 1, &p->ticket);
    if (p->ticket.kind == TT_PROBE && StatementTimeout > 0 && exp(tuner->base.mean) * 4 * trimtab_max_ratio > StatementTimeout) {
        tt_return(tuner, &p->ticket);
        ticket_of(class, TT_BEST, &p->ticket);
        class->left = LEFT_TIMEOUT;
    }
    if (is_searching && tuner->phase == TT_SETTLED && tuner->best_value == 0)
        trimtab_record(shared, class, EVENT_KEPT_BASE, &tuner->best, 0);
}

/* A ticket that was drawn for a plan that never came, or for one that never ran, goes back. The caller holds the lock. */
static void return_unused(Planned *p)
{
    Class *class = p->ticket.kind == TT_PROBE ? trimtab_find(&p->key, p->base, false) : NULL;
    if (class != NULL) tt_return(&class->tuner, &p->ticket);
}

static bool decide(Query *parse, Planned *p)
{
    Shared *shared = trimtab_shared();
    LeftAlone left = trimtab_inspect(parse);
    Class *class;
    if (left == LEFT_NOT) left = trimtab_situation();
    trimtab_key(parse, p->base, &p->key);
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&p->key, p->base, !trimtab_in_explain);
    if (class != NULL) {
        class->left = left;
        p->is_free = left == LEFT_NOT;
        p->base_cost = class->base_cost;
        ticket_of(class, TT_DEFAULT, &p->ticket);
        if (left == LEFT_NOT && trimtab_mode == MODE_TUNE && trimtab_inside != INSIDE_ALONE) {
            bool is_kept = has_kept && memcmp(&kept.key, &p->key, sizeof kept.key) == 0;
            if (has_kept && !is_kept) return_unused(&kept);
            has_kept = false;
            if (!planned[last_probe % N_PLANNED].is_used) return_unused(&planned[last_probe % N_PLANNED]);
            last_probe = 0;
            if (is_kept) p->ticket = kept.ticket;
            else choose(shared, class, p);
        }
    }
    LWLockRelease(&shared->lock);
    return class != NULL;
}

/* Gives a ticket back that will not be used, and takes the default instead; `for_good`: its values never fit. */
static void give_back(Planned *p, LeftAlone why, bool for_good)
{
    Shared *shared = trimtab_shared();
    Class *class;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) {
        if (for_good) tt_abandon(&class->tuner, &p->ticket, 0);
        else tt_return(&class->tuner, &p->ticket);
        ticket_of(class, TT_DEFAULT, &p->ticket);
        class->left = why;
    }
    LWLockRelease(&shared->lock);
}

static void tag(PlannedStmt *plan, Planned *p)
{
    PlanInvalItem *item = makeNode(PlanInvalItem);
    if (++n_tags % N_PLANNED == 0) n_tags++;
    p->tag = TAG_BASE | (n_tags & ~TAG_MASK);
    if (p->ticket.kind == TT_PROBE) last_probe = p->tag;
    item->cacheId = PROCOID;
    item->hashValue = p->tag;
    plan->invalItems = lappend(plan->invalItems, item);
    planned[p->tag % N_PLANNED] = *p;
}

static double elapsed_ms(instr_time began)
{
    instr_time ended;
    INSTR_TIME_SET_CURRENT(ended);
    INSTR_TIME_SUBTRACT(ended, began);
    return INSTR_TIME_GET_MILLISEC(ended);
}

static PlannedStmt *plan_with(Planned *p, Query *parse, const char *text, int options, ParamListInfo params)
{
    PlannedStmt *plan;
    instr_time began;
    int level;
    INSTR_TIME_SET_CURRENT(began);
    level = open_level(p, false);
    plan = call_planner(parse, text, options, params);
    close_level(level);
    p->plan_ms = elapsed_ms(began);
    return plan;
}

static PlannedStmt *plan_class(Query *parse, const char *text, int options, ParamListInfo params)
{
    Planned p;
    PlannedStmt *plan;
    Query *again;
    memset(&p, 0, sizeof p);
    trimtab_knob_values(p.base);
    p.rules = rules();
    if (!decide(parse, &p)) return call_planner(parse, text, options, params);
    again = p.ticket.kind == TT_DEFAULT ? NULL : copyObject(parse); /* the planner scribbles on it */
    plan = plan_with(&p, parse, text, options, params);
    p.extra_kb = trimtab_extra_memory_kb(plan, p.base, &p.ticket.point);
    if (again != NULL && p.extra_kb > trimtab_memory_limit_kb) {
        give_back(&p, LEFT_MEMORY, true);
        p.extra_kb = 0;
        plan = plan_with(&p, again, text, options, params);
    }
    if (trimtab_in_explain) trimtab_explain(&p.key, p.base);
    else tag(plan, &p);
    /* What a plan of other costs is worth must not sway PostgreSQL's choice between a custom and a generic plan. */
    if (params != NULL && again != NULL && p.base_cost > 0) plan->planTree->total_cost = p.base_cost;
    return plan;
}

static PlannedStmt *planner(Query *parse, const char *text, int options, ParamListInfo params)
{
    PlannedStmt *plan;
    bool was_in_force;
    int level;
    if (is_ours() && parse->queryId != 0 && parse->commandType != CMD_UTILITY &&
        (trimtab_in_explain || is_class(front_of((uint64)parse->queryId))))
        return plan_class(parse, text, options, params);
    if (!is_in_force)
        return next_planner != NULL ? next_planner(parse, text, options, params) : standard_planner(parse, text, options, params);
    level = open_base(&was_in_force);
    plan = call_planner(parse, text, options, params);
    close_base(level, was_in_force);
    return plan;
}

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
    if (memcmp(base, p->base, sizeof base) != 0 || p->rules != rules()) return false;
    return p->ticket.kind == TT_DEFAULT || (trimtab_mode == MODE_TUNE && trimtab_situation() == LEFT_NOT);
}

static void forget_now(void)
{
    trimtab_release();
    trimtab_inside_forget();
    memset(&now, 0, sizeof now);
}

static void begin(QueryDesc *desc)
{
    uint32 mark = tag_of(desc->plannedstmt);
    Planned *p = &planned[mark % N_PLANNED];
    Front *f;
    if (now.desc != NULL) forget_now(); /* a cursor that is still open: it goes on without us */
    if (desc->plannedstmt->queryId == 0 || trimtab_in_explain) return;
    f = front_of((uint64)desc->plannedstmt->queryId);
    if (mark == 0 && f->n >= N_FIRST && !is_class(f) && ++f->skipped % SHORT_SAMPLE != 0) return;
    now.query_id = f->query_id;
    now.desc = desc;
    if (mark == 0) return;
    if (p->tag != mark || p->key.query_id != now.query_id || !is_as_planned(p)) { /* its record made room, or the session changed */
        throw_away(mark);
        return;
    }
    now.plan = *p;
    now.has_class = now.is_told = true;
    now.is_reused = p->is_used;
    p->is_used = true;
    if (now.is_reused) take_again();
    if (!now.has_class) throw_away(mark); /* it was forgotten */
    if (now.has_class && !trimtab_reserve(now.plan.extra_kb)) {
        give_back(&now.plan, LEFT_MEMORY, false);
        now.is_told = false;
    }
}

static void call_start(QueryDesc *desc, int flags)
{
    if (next_start != NULL) next_start(desc, flags);
    else standard_ExecutorStart(desc, flags);
}

static void start(QueryDesc *desc, int flags)
{
    instr_time began;
    bool was_in_force;
    int level;
    if (!is_ours() || (flags & EXEC_FLAG_EXPLAIN_ONLY)) {
        level = open_base(&was_in_force);
        call_start(desc, flags);
        close_base(level, was_in_force);
        return;
    }
    begin(desc);
    if (now.desc != desc) {
        call_start(desc, flags);
        return;
    }
    INSTR_TIME_SET_CURRENT(began);
    level = now.has_class ? open_level(&now.plan, true) : 0;
    call_start(desc, flags);
    close_level(level);
    now.ms = elapsed_ms(began);
    if (trimtab_inside != INSIDE_OFF && trimtab_mode == MODE_TUNE && now.has_class && now.plan.is_free &&
        now.plan.ticket.kind != TT_PROBE && trimtab_situation() == LEFT_NOT)
        trimtab_inside_begin(desc, now.plan.key.query_id, now.plan.base);
}

#if PG_VERSION_NUM >= 180000
#define RUN_ARGUMENTS QueryDesc *desc, ScanDirection direction, uint64 count
#define RUN_VALUES desc, direction, count
#else
#define RUN_ARGUMENTS QueryDesc *desc, ScanDirection direction, uint64 count, bool once
#define RUN_VALUES desc, direction, count, once
#endif

static void call_run(RUN_ARGUMENTS)
{
    nesting++;
    PG_TRY();
    {
        if (next_run != NULL) next_run(RUN_VALUES);
        else standard_ExecutorRun(RUN_VALUES);
    }
    PG_FINALLY();
    {
        nesting--;
    }
    PG_END_TRY();
}

static void run(RUN_ARGUMENTS)
{
    instr_time began;
    bool was_in_force;
    int level;
    if (trimtab_mode == MODE_OFF && now.desc == NULL && !is_in_force) {
        call_run(RUN_VALUES);
    } else if (now.desc != desc || nesting > 0) {
        level = open_base(&was_in_force);
        call_run(RUN_VALUES);
        close_base(level, was_in_force);
    } else {
        INSTR_TIME_SET_CURRENT(began);
        level = now.has_class ? open_level(&now.plan, true) : 0;
        trimtab_inside_run();
        call_run(RUN_VALUES);
        trimtab_inside_end();
        close_level(level);
        now.ms += elapsed_ms(began);
        now.runs++;
        now.is_complete = count == 0 && direction == ForwardScanDirection && now.runs == 1;
    }
}

static void finish(QueryDesc *desc)
{
    nesting++;
    PG_TRY();
    {
        if (next_finish != NULL) next_finish(desc);
        else standard_ExecutorFinish(desc);
    }
    PG_FINALLY();
    {
        nesting--;
    }
    PG_END_TRY();
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
    if (now.plan.ticket.kind == TT_PROBE || !tt_same(&class->tuner.space, &now.plan.ticket.point, &class->tuner.best)) return true;
    if (!now.is_reused || trimtab_mode != MODE_TUNE || trimtab_inside == INSIDE_ALONE || class->left != LEFT_NOT) return false;
    if (has_kept) return_unused(&kept);
    kept = now.plan;
    choose(trimtab_shared(), class, &kept);
    has_kept = kept.ticket.kind == TT_PROBE || !tt_same(&class->tuner.space, &kept.ticket.point, &now.plan.ticket.point);
    return has_kept;
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
        if (now.plan.ticket.kind == TT_DEFAULT) class->base_cost = now.desc->plannedstmt->planTree->total_cost;
        class->last_at = GetCurrentTimestamp();
        if (now.is_complete && now.is_told) tell(shared, class, ms);
        else if (now.is_told) tt_return(&class->tuner, &now.plan.ticket);
        is_stale = is_plan_stale(class);
    }
    is_due = shared->changes > shared->saved_changes &&
             TimestampDifferenceExceeds(shared->saved_at, GetCurrentTimestamp(), SAVE_EVERY_MS);
    LWLockRelease(&shared->lock);
    if (is_stale) throw_away(now.plan.tag);
    if (is_due) trimtab_save(shared, LOG);
}

static void conclude(void)
{
    Front *f = front_of(now.query_id);
    double ms = now.ms + (now.is_reused ? 0 : now.plan.plan_ms);
    if (trimtab_test_cost[0] != '\0') ms = trimtab_test_ms(now.plan.base, now.has_class ? &now.plan.ticket.point : NULL);
    if (now.is_complete) {
        f->n++;
        f->mean_ms += (ms - f->mean_ms) / Min(f->n, 16);
    }
    if (now.has_class) conclude_class(ms);
    else if (is_class(f) && !f->was_reset && trimtab_mode == MODE_TUNE) {
        /* From now on it is a class; a plan that was kept before has no tag: once, all plans of this backend are made anew. */
        f->was_reset = true;
        ResetPlanCache();
    }
    forget_now();
}

static void end(QueryDesc *desc)
{
    if (now.desc == desc && nesting == 0) conclude();
    if (next_end != NULL) next_end(desc);
    else standard_ExecutorEnd(desc);
}

/* What runs inside a utility statement is not its own statement, except where the utility only runs or shows a statement. */
static void utility(PlannedStmt *statement, const char *text, bool read_only, ProcessUtilityContext context, ParamListInfo params,
                    QueryEnvironment *environment, DestReceiver *to, QueryCompletion *completion)
{
    Node *node = statement->utilityStmt;
    int step = IsA(node, ExecuteStmt) || IsA(node, ExplainStmt) ? 0 : 1;
    nesting += step;
    PG_TRY();
    {
        if (next_utility != NULL) next_utility(statement, text, read_only, context, params, environment, to, completion);
        else standard_ProcessUtility(statement, text, read_only, context, params, environment, to, completion);
    }
    PG_FINALLY();
    {
        nesting -= step;
    }
    PG_END_TRY();
}

/* The statement failed, with whatever values it had: a probe that failed is not tried again. */
static void failed(void)
{
    Shared *shared = trimtab_shared();
    is_in_force = is_statement_in_force = false;
    if (now.desc == NULL) return;
    if (now.has_class && shared != NULL) {
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
        throw_away(now.plan.tag);
    }
    forget_now();
}

static void at_transaction(XactEvent event, void *nothing)
{
    if (event == XACT_EVENT_ABORT) failed();
    else if (event == XACT_EVENT_COMMIT && now.desc != NULL && nesting == 0) forget_now();
}

static void at_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *nothing)
{
    if (event != SUBXACT_EVENT_ABORT_SUB) return;
    if (nesting == 0) failed();
    else is_in_force = is_statement_in_force; /* a function caught the error: its statement goes on with what it had */
}

void trimtab_install_hooks(void)
{
    next_planner = planner_hook;
    planner_hook = planner;
    next_start = ExecutorStart_hook;
    ExecutorStart_hook = start;
    next_run = ExecutorRun_hook;
    ExecutorRun_hook = run;
    next_finish = ExecutorFinish_hook;
    ExecutorFinish_hook = finish;
    next_end = ExecutorEnd_hook;
    ExecutorEnd_hook = end;
    next_utility = ProcessUtility_hook;
    ProcessUtility_hook = utility;
    RegisterXactCallback(at_transaction, NULL);
    RegisterSubXactCallback(at_subtransaction, NULL);
}
