/* Statements that are no queries: what runs inside them is left alone, except where they only run or show a statement. */
#include "statement.h"

#include "tcop/utility.h"

#define UTILITY_ARGUMENTS PlannedStmt *statement, const char *text, bool read_only, ProcessUtilityContext context, ParamListInfo params, \
                          QueryEnvironment *environment, DestReceiver *to, QueryCompletion *completion
#define UTILITY_VALUES statement, text, read_only, context, params, environment, to, completion

static ProcessUtility_hook_type next_utility = standard_ProcessUtility;

/* EXPLAIN of a statement that would be touched: not of what would run inside another utility statement (CREATE TABLE AS, a cursor). */
static bool is_plain_explain(Node *node)
{
    Query *query = IsA(node, ExplainStmt) ? (Query *)((ExplainStmt *)node)->query : NULL;
    return query != NULL && (query->commandType != CMD_UTILITY || IsA(query->utilityStmt, ExecuteStmt));
}

static void explain(UTILITY_ARGUMENTS)
{
    trimtab_begin_explain();
    PG_TRY();
    {
        next_utility(UTILITY_VALUES);
    }
    PG_CATCH();
    {
        trimtab_forget_explain();
        PG_RE_THROW();
    }
    PG_END_TRY();
    trimtab_end_explain();
}

static void utility(UTILITY_ARGUMENTS)
{
    Node *node = statement->utilityStmt;
    if (trimtab_mode == MODE_OFF || trimtab_outer != 0 || IsA(node, ExecuteStmt) || IsA(node, TransactionStmt)) {
        next_utility(UTILITY_VALUES);
        return;
    }
    if (is_plain_explain(node)) {
        explain(UTILITY_VALUES);
        return;
    }
    trimtab_outer = OUTER_GUARDED;
    PG_TRY();
    {
        next_utility(UTILITY_VALUES);
    }
    PG_FINALLY();
    {
        trimtab_outer = 0;
    }
    PG_END_TRY();
}

void trimtab_install_utility(void)
{
    if (ProcessUtility_hook != NULL) next_utility = ProcessUtility_hook;
    ProcessUtility_hook = utility;
}
