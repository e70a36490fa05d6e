/*
 * Planning: which values a statement of a class is planned with. A plan carries a tag among its invalidation items, so that a plan
 * that PostgreSQL keeps (prepared statements) is known again and can be thrown away when its values are no longer wanted: a
 * probe's plan never outlives its probe.
 */
#include "statement.h"

#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include <math.h>

#define N_PLANNED 1024
#define TAG_BASE 0x54000000u
#define TAG_MASK 0xff000000u

static Planned planned[N_PLANNED];
Front trimtab_fronts[N_FRONT];
static uint32 n_tags = 0;
static bool has_kept = false; /* a ticket that a kept plan's end drew for the next planning */
static Planned kept;
static uint32 last_probe = 0; /* tag of the newest plan of a probe; record 0 is nobody's */

planner_hook_type trimtab_next_planner = standard_planner;

/* Makes room for a query id. */
Front *trimtab_new_front(Front *f, uint64 query_id)
{
    memset(f, 0, sizeof *f);
    f->query_id = query_id;
    return f;
}

void trimtab_forget_fronts(void)
{
    memset(trimtab_fronts, 0, sizeof trimtab_fronts);
}

uint32 trimtab_rules(void)
{
    return trimtab_choice_hash() ^ (trimtab_allow_locks ? 1u : 0) ^ (trimtab_allow_volatile ? 2u : 0) ^ (trimtab_allow_order ? 4u : 0) ^
           (trimtab_allow_writes ? 8u : 0) ^ (trimtab_allow_serializable ? 16u : 0);
}

/* A function's own item looks like a tag once in 256 times, but hardly ever like one that was given out. */
uint32 trimtab_tag_of(const PlannedStmt *plan)
{
    ListCell *cell;
    foreach (cell, plan->invalItems) {
        PlanInvalItem *item = lfirst(cell);
        if (item->cacheId == PROCOID && (item->hashValue & TAG_MASK) == TAG_BASE && (item->hashValue & ~TAG_MASK) <= n_tags) return item->hashValue;
    }
    return 0;
}

void trimtab_throw_away(uint32 tag)
{
    if (tag != 0) CallSyscacheCallbacks(PROCOID, tag);
}

static inline PlannedStmt *call_next(Query *parse, const char *text, int options, ParamListInfo params)
{
    return trimtab_next_planner(parse, text, options, params);
}

PlannedStmt *trimtab_call_planner(Query *parse, const char *text, int options, ParamListInfo params)
{
    bool has_entered = trimtab_enter();
    PlannedStmt *plan = call_next(parse, text, options, params);
    trimtab_leave(has_entered);
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
    if (is_searching && !trimtab_server_can_pay(shared)) {
        ticket_of(class, TT_BEST, &p->ticket);
        return;
    }
    tt_next(tuner, 1, &p->ticket);
    if (p->ticket.limit > 0 && !p->is_repeatable) {
        tt_return(tuner, &p->ticket);
        ticket_of(class, TT_BEST, &p->ticket);
    }
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

/* The next ticket of a plan that PostgreSQL keeps, for its next planning; whether it wants other values than the plan has, or a look at
   the plans of other values, which only a planning gives. */
bool trimtab_choose_again(Class *class, const Planned *p)
{
    tt_point point;
    if (trimtab_wants_look(class, &point)) return true;
    if (has_kept) return_unused(&kept);
    kept = *p;
    choose(trimtab_shared(), class, &kept);
    has_kept = kept.ticket.kind == TT_PROBE || !tt_same(&class->tuner.space, &kept.ticket.point, &p->ticket.point);
    return has_kept;
}

Planned *trimtab_planned(uint32 tag)
{
    return &planned[tag % N_PLANNED];
}

/* Gives a ticket back that will not be used, and takes the default instead; `for_good`: its values never fit. */
void trimtab_give_back(Planned *p, LeftAlone why, bool for_good)
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

/* The ticket of a class that may be touched. */
static void draw(Planned *p, const Statement *s)
{
    Shared *shared = trimtab_shared();
    Class *class;
    trimtab_return_peek();
    trimtab_screen(p, s);
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) {
        bool is_kept = has_kept && memcmp(&kept.key, &p->key, sizeof kept.key) == 0 && kept.ticket.epoch == class->tuner.epoch &&
                       (kept.ticket.limit <= 0 || p->is_repeatable);
        if (has_kept && !is_kept) return_unused(&kept);
        has_kept = false;
        if (!planned[last_probe % N_PLANNED].is_used) return_unused(&planned[last_probe % N_PLANNED]);
        last_probe = 0;
        if (is_kept) p->ticket = kept.ticket;
        else choose(shared, class, p);
    }
    LWLockRelease(&shared->lock);
    if (p->ticket.kind != TT_PROBE || trimtab_is_worth_it(p, s)) return;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    return_unused(p);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) ticket_of(class, TT_BEST, &p->ticket);
    LWLockRelease(&shared->lock);
}

/* Whether the statement is of a class, and what it is planned with. */
static bool decide(const Statement *s, Planned *p)
{
    Shared *shared = trimtab_shared();
    LeftAlone left = trimtab_inspect(s->parse, &p->is_repeatable);
    bool is_tuned = false;
    Class *class;
    if (left == LEFT_NOT) left = trimtab_situation();
    p->is_repeatable = p->is_repeatable && trimtab_may_repeat_here() && trimtab_can_peek();
    trimtab_key(s->parse, p->base, &p->key);
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&p->key, p->base, !trimtab_in_explain);
    if (class != NULL) {
        if (left == LEFT_NOT && class->is_in_parts && !trimtab_allow_order) left = LEFT_IN_PARTS;
        class->left = left;
        class->tuner.options.can_stop = p->is_repeatable; /* else only what the budget covers in full is tried */
        p->is_free = left == LEFT_NOT;
        p->base_cost = class->base_cost;
        is_tuned = left == LEFT_NOT && trimtab_mode == MODE_TUNE && trimtab_inside != INSIDE_ALONE;
        ticket_of(class, is_tuned && trimtab_in_explain ? TT_BEST : TT_DEFAULT, &p->ticket);
    }
    LWLockRelease(&shared->lock);
    if (is_tuned && !trimtab_in_explain) draw(p, s);
    return class != NULL;
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

static PlannedStmt *plan_with(Planned *p, Query *parse, const char *text, int options, ParamListInfo params)
{
    PlannedStmt *plan;
    instr_time began;
    int level;
    INSTR_TIME_SET_CURRENT(began);
    level = trimtab_open_level(p, false);
    p->is_refused = trimtab_is_refused;
    plan = trimtab_call_planner(parse, text, options, params);
    trimtab_close_level(level);
    p->plan_ms = trimtab_elapsed_ms(began);
    return plan;
}

/* A probe that can be given up: its plan is set aside, and the statement is planned as without it. */
static void plan_peek(Planned *p, const Statement *s)
{
    Shared *shared = trimtab_shared();
    Class *class;
    PlannedStmt *plan = plan_with(p, copyObject(s->parse), s->text, s->options, s->params);
    p->extra_kb = trimtab_extra_memory_kb(plan, p->base, &p->ticket.point);
    if (p->is_refused) trimtab_give_back(p, LEFT_REFUSED, true);
    else if (p->extra_kb > trimtab_memory_limit_kb) trimtab_give_back(p, LEFT_MEMORY, true);
    else trimtab_keep_peek(p, plan);
    LWLockAcquire(&shared->lock, LW_SHARED);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) ticket_of(class, TT_BEST, &p->ticket);
    LWLockRelease(&shared->lock);
}

static pg_noinline PlannedStmt *plan_class(Query *parse, const char *text, int options, ParamListInfo params)
{
    Planned p;
    Statement s = {parse, text, options, params};
    PlannedStmt *plan;
    Query *again;
    bool has_peek;
    memset(&p, 0, sizeof p);
    trimtab_knob_values(p.base);
    p.rules = trimtab_rules();
    if (!decide(&s, &p)) return trimtab_call_planner(parse, text, options, params);
    has_peek = p.ticket.kind == TT_PROBE && p.is_repeatable;
    if (has_peek) plan_peek(&p, &s);
    again = p.ticket.kind == TT_DEFAULT ? NULL : copyObject(parse); /* the planner scribbles on it */
    plan = plan_with(&p, parse, text, options, params);
    if (p.is_refused) trimtab_give_back(&p, LEFT_REFUSED, true); /* nothing was set: this is the plan without us */
    p.extra_kb = trimtab_extra_memory_kb(plan, p.base, &p.ticket.point);
    if (again != NULL && p.extra_kb > trimtab_memory_limit_kb) {
        trimtab_give_back(&p, LEFT_MEMORY, true);
        p.extra_kb = 0;
        plan = plan_with(&p, again, text, options, params);
    }
    tag(plan, &p);
    if (has_peek) trimtab_tag_peek(p.tag); /* any other is of a statement whose own planning failed */
    /* What a plan of other costs is worth must not sway PostgreSQL's choice between a custom and a generic plan. */
    if (params != NULL && again != NULL && p.base_cost > 0) plan->planTree->total_cost = p.base_cost;
    return plan;
}

/* Inside a statement that runs with other values. */
static pg_noinline pg_attribute_cold PlannedStmt *plan_inside(Query *parse, const char *text, int options, ParamListInfo params)
{
    bool was_in_force;
    int level = trimtab_open_base(&was_in_force);
    PlannedStmt *plan = trimtab_call_planner(parse, text, options, params);
    trimtab_close_base(level, was_in_force);
    return plan;
}

/* Most statements are short ones: they come here too, and only pass through. */
PlannedStmt *trimtab_plan(Query *parse, const char *text, int options, ParamListInfo params)
{
    if (trimtab_is_ours() && parse->commandType != CMD_UTILITY) {
        trimtab_identify(parse, text, params);
        if (parse->queryId != 0 && (trimtab_in_explain || trimtab_is_class(trimtab_front_of((uint64)parse->queryId))) &&
            !IsParallelWorker() && trimtab_shared() != NULL)
            return plan_class(parse, text, options, params);
    }
    if (unlikely(trimtab_is_in_force)) return plan_inside(parse, text, options, params);
    return call_next(parse, text, options, params);
}
