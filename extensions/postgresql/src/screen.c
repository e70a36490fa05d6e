/*
 * Looks at plans before anything runs: what a candidate's values would change, and what PostgreSQL's estimate says of it. Candidates whose
 * plan is the one that runs anyway need no probe, and those of one plan need one probe together. What the looks take is booked as lost.
 */
#include "statement.h"

#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

/* Of the way to the session's own costs: a cost is linear in them while the plan stays, so a small step shows the slope. */
#define NUDGE 0.01
/* When no step leaves the plan as it is, nobody knows what it would be worth with the session's own costs. */
#define UNKNOWN_RATIO 4.0
/* PostgreSQL's disable_cost. */
#define FORBIDDEN_COST 1e10
/* A run that reads a smaller share of its pages does not wait for the disk. */
#define READ_SHARE 0.01
/* Plannings of one look: as it is, a step towards the session's costs, and both for the session's own values. */
#define LOOKS 3

static uint64 mix(uint64 hash, uint64 value)
{
    return hash_combine64(hash, hash_bytes_extended((const unsigned char *)&value, sizeof value, 0));
}

static uint64 add_plan(uint64 hash, Plan *plan);

static uint64 add_plans(uint64 hash, List *plans)
{
    ListCell *cell;
    hash = mix(hash, (uint64)list_length(plans));
    foreach (cell, plans) hash = add_plan(hash, lfirst(cell));
    return hash;
}

static bool is_scan(NodeTag tag)
{
    return tag == T_SeqScan || tag == T_SampleScan || tag == T_IndexScan || tag == T_IndexOnlyScan || tag == T_BitmapHeapScan ||
           tag == T_TidScan || tag == T_TidRangeScan || tag == T_SubqueryScan || tag == T_FunctionScan || tag == T_CteScan ||
           tag == T_ForeignScan || tag == T_ValuesScan || tag == T_WorkTableScan;
}

/* What is the node's own: which table, index, way. Not its estimates, which move with the costs. */
static uint64 add_node(uint64 hash, Plan *plan)
{
    hash = mix(hash, ((uint64)nodeTag(plan) << 1) | (plan->parallel_aware ? 1 : 0));
    if (is_scan(nodeTag(plan))) hash = mix(hash, ((Scan *)plan)->scanrelid);
    switch (nodeTag(plan)) {
    case T_IndexScan: return mix(mix(hash, ((IndexScan *)plan)->indexid), (uint64)((IndexScan *)plan)->indexorderdir);
    case T_IndexOnlyScan: return mix(mix(hash, ((IndexOnlyScan *)plan)->indexid), (uint64)((IndexOnlyScan *)plan)->indexorderdir);
    case T_BitmapIndexScan: return mix(mix(hash, ((BitmapIndexScan *)plan)->scan.scanrelid), ((BitmapIndexScan *)plan)->indexid);
    case T_NestLoop:
    case T_MergeJoin:
    case T_HashJoin: return mix(mix(hash, ((Join *)plan)->jointype), ((Join *)plan)->inner_unique);
    case T_Agg: return mix(mix(mix(hash, ((Agg *)plan)->aggstrategy), ((Agg *)plan)->aggsplit), (uint64)((Agg *)plan)->numCols);
    case T_Gather: return mix(hash, (uint64)((Gather *)plan)->num_workers);
    case T_GatherMerge: return mix(hash, (uint64)((GatherMerge *)plan)->num_workers);
    case T_Sort: return mix(hash, (uint64)((Sort *)plan)->numCols);
    case T_IncrementalSort: return mix(mix(hash, (uint64)((IncrementalSort *)plan)->sort.numCols), (uint64)((IncrementalSort *)plan)->nPresortedCols);
    case T_SetOp: return mix(hash, (uint64)((SetOp *)plan)->strategy);
    default: return hash;
    }
}

static uint64 add_plan(uint64 hash, Plan *plan)
{
    if (plan == NULL) return mix(hash, 0);
    hash = add_node(hash, plan);
    switch (nodeTag(plan)) {
    case T_Append: hash = add_plans(hash, ((Append *)plan)->appendplans); break;
    case T_MergeAppend: hash = add_plans(hash, ((MergeAppend *)plan)->mergeplans); break;
    case T_BitmapAnd: hash = add_plans(hash, ((BitmapAnd *)plan)->bitmapplans); break;
    case T_BitmapOr: hash = add_plans(hash, ((BitmapOr *)plan)->bitmapplans); break;
    case T_SubqueryScan: hash = add_plan(hash, ((SubqueryScan *)plan)->subplan); break;
    case T_CustomScan: hash = add_plans(hash, ((CustomScan *)plan)->custom_plans); break;
    default: break;
    }
    return add_plan(add_plan(hash, plan->lefttree), plan->righttree);
}

/* What a plan does when it is run with these values: its shape, and the values that act while it runs, where they can matter. */
static uint64 mark_of(PlannedStmt *plan, const double *base, const tt_point *point, const Class *class)
{
    uint64 hash = mix(add_plans(add_plan(0, plan->planTree), plan->subplans), (uint64)plan->jitFlags);
    hash = trimtab_mix_running(hash, base, point, class->has_spilled, class->has_read);
    return hash <= TT_AS_DEFAULT ? TT_AS_DEFAULT + 1 : hash;
}

/* Plans the statement with the values of `point`; the plan is kept only where the caller asks for it, in its own memory. */
static Look look_once(const Class *class, const Planned *p, const Statement *s, const tt_point *point, double nudge)
{
    MemoryContext own = CurrentMemoryContext;
    MemoryContext scratch = AllocSetContextCreate(own, "trimtab look", ALLOCSET_DEFAULT_SIZES);
    PlannedStmt *plan;
    Planned with = *p;
    Look look;
    instr_time began;
    int level;
    INSTR_TIME_SET_CURRENT(began);
    MemoryContextSwitchTo(scratch);
    with.ticket.point = *point;
    level = trimtab_open_nudged(&with, nudge);
    trimtab_test_wait("look");
    plan = trimtab_call_planner(copyObject(s->parse), s->text, s->options, s->params);
    trimtab_close_level(level);
    look.mark = mark_of(plan, p->base, point, class);
    look.cost = plan->planTree->total_cost;
    MemoryContextSwitchTo(own);
    MemoryContextDelete(scratch);
    look.ms = trimtab_elapsed_ms(began);
    return look;
}

/* The plan with the values of `point`, and its cost with the session's own cost settings. */
static Look look_at(const Class *class, const Planned *p, const Statement *s, const tt_point *point)
{
    Look look = look_once(class, p, s, point, 0);
    if (trimtab_has_costs(p->base, point)) {
        Look step = look_once(class, p, s, point, NUDGE);
        look.cost = step.mark == look.mark ? look.cost + (step.cost - look.cost) / NUDGE : -1;
        look.ms += step.ms;
    }
    if (trimtab_test_cost[0] != '\0') look.ms = trimtab_test_plan_ms();
    return look;
}

/* Tells the class what a look showed; the caller holds the lock. `plain`: the look at the same statement with the session's own values. */
static void tell(Shared *shared, Class *class, const tt_point *point, const Look *look, const Look *plain)
{
    double ratio = look->cost > 0 && plain->cost > 0 ? look->cost / plain->cost : UNKNOWN_RATIO;
    /* Before PostgreSQL 18: nothing else can be done, so what is forbidden is done all the same, at a price that only sways the use of jit. */
    bool is_unavoidable = look->cost >= plain->cost + FORBIDDEN_COST;
    /* Workers without a core of their own bring less than is estimated. */
    if (trimtab_is_for_cores(class->base_values, point)) ratio = Min(ratio, 1);
    tt_screen(&class->tuner, point, look->mark == plain->mark || is_unavoidable ? TT_AS_DEFAULT : look->mark, ratio, look->ms);
    shared->total_ms += look->ms;
    shared->loss_ms += look->ms;
}

/* The next point whose plan is to be looked at, if the budget covers the time; the caller holds the lock. */
bool trimtab_wants_look(Class *class, tt_point *point)
{
    return trimtab_server_can_pay(trimtab_shared()) && tt_headroom(&class->tuner) > LOOKS * class->plan_ms && tt_to_screen(&class->tuner, point);
}

static void note_looks(Shared *shared, const Planned *p, int n, int n_same, double ms)
{
    Class *class;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) trimtab_record_looks(shared, class, n, n_same, ms);
    LWLockRelease(&shared->lock);
}

/* A class is of many statements: whether this very one has another plan with a probe's values, and one that is worth its risk. */
bool trimtab_is_worth_it(Planned *p, const Statement *s)
{
    Shared *shared = trimtab_shared();
    Class *class, *copy = palloc(sizeof *copy);
    Look plain, look;
    tt_point own;
    bool is_first, fits = true;
    LWLockAcquire(&shared->lock, LW_SHARED);
    class = trimtab_find(&p->key, p->base, false);
    is_first = class != NULL && class->tuner.options.is_screened && class->tuner.phase == TT_SEARCHING;
    if (is_first) *copy = *class;
    LWLockRelease(&shared->lock);
    if (!is_first) return true;
    tt_default(&copy->tuner.space, &own);
    plain = look_at(copy, p, s, &own);
    look = look_at(copy, p, s, &p->ticket.point);
    look.ms += plain.ms;
    pfree(copy);
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) {
        tell(shared, class, &p->ticket.point, &look, &plain);
        fits = tt_still_fits(&class->tuner, &p->ticket);
    }
    LWLockRelease(&shared->lock);
    return fits;
}

/* Looks at what is to be tried next, as far as the budget covers the time that it takes. */
void trimtab_screen(Planned *p, const Statement *s)
{
    Shared *shared = trimtab_shared();
    Class *copy = palloc(sizeof *copy);
    bool has_plain = false;
    int n = 0, n_same = 0;
    double ms = 0;
    Look plain = {0};
    for (;;) {
        Class *class;
        tt_point point, own;
        Look look;
        bool is_wanted;
        LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
        class = trimtab_find(&p->key, p->base, false);
        is_wanted = class != NULL && trimtab_wants_look(class, &point);
        if (is_wanted && !has_plain) *copy = *class;
        LWLockRelease(&shared->lock);
        if (!is_wanted) break;
        if (!has_plain) {
            tt_default(&copy->tuner.space, &own);
            plain = look_at(copy, p, s, &own);
            has_plain = true;
        }
        look = look_at(copy, p, s, &point);
        LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
        class = trimtab_find(&p->key, p->base, false);
        if (class != NULL) {
            int before = class->tuner.n_same;
            if (n++ == 0) look.ms += plain.ms;
            tell(shared, class, &point, &look, &plain);
            n_same += class->tuner.n_same - before;
            ms += look.ms;
        }
        LWLockRelease(&shared->lock);
        if (class == NULL) break;
    }
    if (n > 0) note_looks(shared, p, n, n_same, ms);
    pfree(copy);
}

/* What the newest run with the session's own values did besides: wrote temporary files, read from disk. */
void trimtab_note_io(Class *class, const BufferUsage *before)
{
    BufferUsage used;
    memset(&used, 0, sizeof used);
    BufferUsageAccumDiff(&used, &pgBufferUsage, before);
    if (used.temp_blks_written > 0) class->has_spilled = true;
    class->has_read = used.shared_blks_read > READ_SHARE * (used.shared_blks_hit + used.shared_blks_read);
}
