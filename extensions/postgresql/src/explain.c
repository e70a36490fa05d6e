/*
 * EXPLAIN's line: what a statement is given, and why. EXPLAIN never probes and is never measured; with ANALYZE the statement runs with
 * what the line shows. Before PostgreSQL 18 EXPLAIN lets extensions write only below a statement that it has planned itself: in formats
 * that are read by programs, and for a prepared statement, a notice says it.
 */
#include "statement.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

bool trimtab_in_explain = false;

static char line[2048] = "";

static void say(const Class *class, const Planned *p)
{
    double low, high, gain = tt_proven_gain(&class->tuner, &low, &high);
    const tt_point *point = &p->ticket.point;
    char *changes = trimtab_changes(class, point);
    if (class->left != LEFT_NOT) snprintf(line, sizeof line, "left alone: %s", trimtab_left_text((LeftAlone)class->left));
    else if (trimtab_mode != MODE_TUNE) strlcpy(line, "observed only", sizeof line);
    else if (!tt_same(&class->tuner.space, point, &class->tuner.best))
        snprintf(line, sizeof line, "%s, as when this plan was made", changes[0] == '\0' ? "own values" : changes);
    else if (class->tuner.phase == TT_PINNED) snprintf(line, sizeof line, "pinned: %s", changes);
    else if (gain == 1) strlcpy(line, "own values: nothing has been proven faster", sizeof line);
    else snprintf(line, sizeof line, "%s (%.2f times as fast, 95%% interval %.2f to %.2f)", changes, gain, low, high);
    pfree(changes);
}

/* The plan that EXPLAIN shows is of a class. */
void trimtab_explain(const Planned *p)
{
    Shared *shared = trimtab_shared();
    Class *class, *copy;
    if (shared == NULL) return;
    copy = palloc(sizeof *copy);
    LWLockAcquire(&shared->lock, LW_SHARED);
    class = trimtab_find(&p->key, p->base, false);
    if (class != NULL) *copy = *class;
    LWLockRelease(&shared->lock);
    if (class != NULL) say(copy, p);
    pfree(copy);
}

/* Why the values that it was planned with do not count, whatever is known of its class. */
void trimtab_explain_left(const char *why)
{
    snprintf(line, sizeof line, "left alone: %s", why);
}

/* Around the whole EXPLAIN; it failed: trimtab_forget_explain. */
void trimtab_begin_explain(void)
{
    line[0] = '\0';
    trimtab_in_explain = true;
}

void trimtab_forget_explain(void)
{
    line[0] = '\0';
    trimtab_in_explain = false;
}

/* What could not be said within its output. */
void trimtab_end_explain(void)
{
    if (line[0] != '\0') ereport(NOTICE, (errmsg("Trimtab: %s", line)));
    trimtab_forget_explain();
}

#if PG_VERSION_NUM >= 180000
static explain_per_plan_hook_type next_per_plan = NULL;

static void per_plan(PlannedStmt *plan, IntoClause *into, ExplainState *es, const char *text, ParamListInfo params,
                     QueryEnvironment *environment)
{
    if (next_per_plan != NULL) next_per_plan(plan, into, es, text, params, environment);
    if (line[0] != '\0') ExplainPropertyText("Trimtab", line, es);
    line[0] = '\0';
}

void trimtab_install_explain(void)
{
    next_per_plan = explain_per_plan_hook;
    explain_per_plan_hook = per_plan;
}
#else
#include "optimizer/planner.h"
#include "tcop/tcopprot.h"

static ExplainOneQuery_hook_type next_explain = NULL;

static void explain_plainly(Query *query, int options, IntoClause *into, ExplainState *es, const char *text, ParamListInfo params,
                            QueryEnvironment *environment)
{
    if (next_explain != NULL) {
        next_explain(query, options, into, es, text, params, environment);
        return;
    }
#if PG_VERSION_NUM >= 170000
    standard_ExplainOneQuery(query, options, into, es, text, params, environment);
#else
    {
        instr_time began, took;
        PlannedStmt *plan;
        BufferUsage before, used;
        if (es->buffers) before = pgBufferUsage;
        INSTR_TIME_SET_CURRENT(began);
        plan = pg_plan_query(query, text, options, params);
        INSTR_TIME_SET_CURRENT(took);
        INSTR_TIME_SUBTRACT(took, began);
        if (es->buffers) {
            memset(&used, 0, sizeof used);
            BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
        }
        ExplainOnePlan(plan, into, es, text, params, environment, &took, es->buffers ? &used : NULL);
    }
#endif
}

static void explain_one(Query *query, int options, IntoClause *into, ExplainState *es, const char *text, ParamListInfo params,
                        QueryEnvironment *environment)
{
    explain_plainly(query, options, into, es, text, params, environment);
    if (line[0] == '\0' || es->format != EXPLAIN_FORMAT_TEXT) return;
    ExplainPropertyText("Trimtab", line, es);
    line[0] = '\0';
}

void trimtab_install_explain(void)
{
    next_explain = ExplainOneQuery_hook;
    ExplainOneQuery_hook = explain_one;
}
#endif
