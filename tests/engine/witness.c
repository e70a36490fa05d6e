/* Another extension that counts the rows of each statement at its end, as pg_stat_statements does. For test_engine_beside.py. */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

static ExecutorEnd_hook_type next = standard_ExecutorEnd;

static void end(QueryDesc *desc)
{
    ereport(NOTICE, (errmsg("rows=%llu", (unsigned long long)desc->estate->es_total_processed)));
    next(desc);
}

void _PG_init(void);

void _PG_init(void)
{
    if (ExecutorEnd_hook != NULL) next = ExecutorEnd_hook;
    ExecutorEnd_hook = end;
}
