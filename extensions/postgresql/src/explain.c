/* EXPLAIN's line: what a statement would be given, and why; EXPLAIN itself never probes and is never measured. */
#include "trimtab.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "optimizer/planner.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

static ExplainOneQuery_hook_type next_explain = NULL;
static char *line = NULL;

/* The planner says which class the statement is of. */
void trimtab_explain(const ClassKey *key, const double *base)
{
    Shared *shared = trimtab_shared();
    Class *class, copy;
    double low, high, gain;
    LWLockAcquire(&shared->lock, LW_SHARED);
    class = trimtab_find(key, base, false);
    if (class != NULL) copy = *class;
    LWLockRelease(&shared->lock);
    if (class == NULL || line != NULL) return;
    gain = tt_proven_gain(&copy.tuner, &low, &high);
    if (copy.left != LEFT_NOT) line = psprintf("left alone: %s", trimtab_left_text((LeftAlone)copy.left));
    else if (trimtab_mode != MODE_TUNE) line = pstrdup("observed only");
    else if (copy.tuner.phase == TT_PINNED) line = psprintf("pinned: %s", trimtab_changes(&copy, &copy.tuner.best));
    else if (gain == 1) line = pstrdup("own values: nothing has been proven faster");
    else line = psprintf("%s (%.2f times as fast, 95%% interval %.2f to %.2f)", trimtab_changes(&copy, &copy.tuner.best), gain, low, high);
}

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
    line = NULL;
    trimtab_in_explain = trimtab_mode != MODE_OFF && into == NULL;
    PG_TRY();
    {
        explain_plainly(query, options, into, es, text, params, environment);
    }
    PG_FINALLY();
    {
        trimtab_in_explain = false;
    }
    PG_END_TRY();
#if PG_VERSION_NUM < 180000
    /* Outside the query's group: only in text does that read well. */
    if (line != NULL && es->format == EXPLAIN_FORMAT_TEXT) ExplainPropertyText("Trimtab", line, es);
#endif
    line = NULL;
}

#if PG_VERSION_NUM >= 180000
static explain_per_plan_hook_type next_per_plan = NULL;

static void per_plan(PlannedStmt *plan, IntoClause *into, ExplainState *es, const char *text, ParamListInfo params,
                     QueryEnvironment *environment)
{
    if (next_per_plan != NULL) next_per_plan(plan, into, es, text, params, environment);
    if (line != NULL) ExplainPropertyText("Trimtab", line, es);
    line = NULL;
}
#endif

void trimtab_install_explain(void)
{
    next_explain = ExplainOneQuery_hook;
    ExplainOneQuery_hook = explain_one;
#if PG_VERSION_NUM >= 180000
    next_per_plan = explain_per_plan_hook;
    explain_per_plan_hook = per_plan;
#endif
}
