/*
 * Which statements may be touched at all, and which class they belong to. A statement is left alone if it writes, locks rows, calls
 * volatile functions, runs in a serialisable transaction, or if SQL lets its answer depend on the plan (answers.c): then another plan
 * could give another answer, however right both are.
 */
#include "trimtab.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"
#include "utils/timeout.h"

#include <math.h>

static const char *const texts[N_LEFT] = {
    "",
    "it writes",
    "it locks rows",
    "its transaction is serializable",
    "it calls volatile functions",
    "its answer may depend on the order of rows",
    "the session has set one of the parameters",
    "a probe could run into statement_timeout",
    "the memory limit is reached",
    "its transaction has written",
    "PostgreSQL refuses one of its settings",
    "the session holds locks",
    "its rows are fetched in parts",
};

const char *trimtab_left_text(LeftAlone left)
{
    return left > LEFT_NOT && left < N_LEFT ? texts[left] : "";
}

typedef struct Effects {
    bool writes, locks;
} Effects;

static bool find_effects(Node *node, void *context)
{
    Effects *found = context;
    if (node == NULL) return false;
    if (!IsA(node, Query)) return expression_tree_walker(node, find_effects, context);
    found->writes |= ((Query *)node)->commandType != CMD_SELECT;
    found->locks |= ((Query *)node)->commandType == CMD_SELECT && ((Query *)node)->rowMarks != NIL;
    return query_tree_walker((Query *)node, find_effects, context, 0);
}

/* By its text alone. `is_repeatable`: it can be begun, given up and run again, and nobody can tell. */
LeftAlone trimtab_inspect(Query *query, bool *is_repeatable)
{
    Effects found = {false, false};
    bool is_volatile;
    *is_repeatable = false;
    find_effects((Node *)query, &found);
    if (found.writes && !trimtab_allow_writes) return LEFT_WRITES;
    if (found.locks && !trimtab_allow_locks) return LEFT_LOCKS;
    is_volatile = contain_volatile_functions((Node *)query);
    if (is_volatile && !trimtab_allow_volatile) return LEFT_VOLATILE;
    *is_repeatable = !found.writes && !found.locks && !is_volatile;
    return !trimtab_allow_order && trimtab_depends_on_plan(query) ? LEFT_ORDER : LEFT_NOT;
}

/* By where it runs. */
LeftAlone trimtab_situation(void)
{
    if (!trimtab_allow_serializable && IsolationIsSerializable()) return LEFT_SERIALIZABLE;
    if (!trimtab_allow_writes && TransactionIdIsValid(GetTopTransactionIdIfAny())) return LEFT_IN_WRITE_TRANSACTION;
    if (!trimtab_allow_locks && trimtab_holds_locks()) return LEFT_HOLDS_LOCKS;
    if (trimtab_has_own_set()) return LEFT_OWN_SET;
    return LEFT_NOT;
}

/* A probe that is given up would leave locks behind in a serializable transaction, until its end; in one that has written, and on a
   standby, whose recovery may cancel it, we are careful. */
bool trimtab_may_repeat_here(void)
{
    return !RecoveryInProgress() && !IsolationIsSerializable() && !TransactionIdIsValid(GetTopTransactionIdIfAny());
}

/* What ALTER TABLE changes and plans depend on: types and collations of the columns, which may be null, how the table is stored. */
static uint32 columns_of(Relation relation)
{
    TupleDesc row = RelationGetDescr(relation);
    uint32 hash = hash_combine(murmurhash32(relation->rd_rel->relam), (uint32)relation->rd_rel->relkind ^ ((uint32)relation->rd_rel->relpersistence << 8));
    for (int i = 0; i < row->natts; i++) {
        const FormData_pg_attribute *column = TupleDescAttr(row, i);
        hash = hash_combine(hash, murmurhash32(column->atttypid ^ (column->attnotnull ? 0x80000000u : 0) ^ (column->attisdropped ? 0x40000000u : 0)));
        hash = hash_combine(hash, murmurhash32((uint32)column->atttypmod ^ (column->attcollation << 16)));
    }
    return hash;
}

typedef struct Tables {
    uint32 schema;
    double pages;
} Tables;

static bool add_tables(Node *node, void *context)
{
    Tables *tables = context;
    ListCell *cell;
    if (node == NULL) return false;
    if (!IsA(node, Query)) return expression_tree_walker(node, add_tables, context);
    foreach (cell, ((Query *)node)->rtable) {
        RangeTblEntry *entry = lfirst(cell);
        Relation relation;
        ListCell *index;
        if (entry->rtekind != RTE_RELATION || entry->relid < 16384) continue;
        relation = try_relation_open(entry->relid, AccessShareLock); /* the parser holds this lock already */
        if (relation == NULL) continue;
        tables->pages += relation->rd_rel->relpages > 0 ? relation->rd_rel->relpages : 0;
        tables->schema = hash_combine(hash_combine(tables->schema, murmurhash32(entry->relid)), columns_of(relation));
        foreach (index, RelationGetIndexList(relation))
            tables->schema += murmurhash32(lfirst_oid(index) ^ 0x5bd1e995);
        relation_close(relation, NoLock);
    }
    return query_tree_walker((Query *)node, add_tables, context, 0);
}

void trimtab_key(Query *query, const double *base, ClassKey *key)
{
    Tables tables = {0, 0};
    memset(key, 0, sizeof *key);
    add_tables((Node *)query, &tables);
    key->query_id = (uint64)query->queryId;
    key->database = MyDatabaseId;
    key->role = GetUserId();
    key->environment = DatumGetUInt32(hash_any((const unsigned char *)base, (int)(sizeof(double) * N_KNOBS)));
    key->environment = hash_combine(key->environment, trimtab_choice_hash());
    key->environment = hash_combine(key->environment, murmurhash32((uint32)NBuffers ^ ((uint32)max_parallel_workers << 24)) ^ (uint32)PG_VERSION_NUM);
    key->schema = tables.schema;
    key->size = tables.pages < 1 ? 0 : 1 + (uint32)(log2(tables.pages) / 2);
}

static int memory_nodes(Plan *plan)
{
    int n = 0;
    ListCell *cell;
    if (plan == NULL) return 0;
    switch (nodeTag(plan)) {
    case T_Sort:
    case T_IncrementalSort:
    case T_Hash:
    case T_Material:
    case T_Memoize:
    case T_FunctionScan:
    case T_TableFuncScan:
    case T_CteScan:
    case T_WindowAgg:
    case T_BitmapHeapScan:
    case T_SetOp: n = 1; break;
    case T_RecursiveUnion: n = 3; break; /* its rows of this round and of the next, and those that were there */
    case T_Agg: n = ((Agg *)plan)->aggstrategy == AGG_HASHED || ((Agg *)plan)->aggstrategy == AGG_MIXED ? 1 : 0; break;
    case T_Append:
        foreach (cell, ((Append *)plan)->appendplans) n += memory_nodes(lfirst(cell));
        break;
    case T_MergeAppend:
        foreach (cell, ((MergeAppend *)plan)->mergeplans) n += memory_nodes(lfirst(cell));
        break;
    case T_SubqueryScan: n = memory_nodes(((SubqueryScan *)plan)->subplan); break;
    default: break;
    }
    return n + memory_nodes(plan->lefttree) + memory_nodes(plan->righttree);
}

/* Sorts, hash tables and the like of a plan, in all of its processes. */
int trimtab_memory_nodes(PlannedStmt *plan, int workers)
{
    int nodes = memory_nodes(plan->planTree);
    ListCell *cell;
    foreach (cell, plan->subplans) nodes += memory_nodes(lfirst(cell));
    return nodes * (plan->parallelModeNeeded ? workers + 1 : 1);
}

/* How much more than with the session's own values the plan may use at most, over all its processes; 0 when no more. */
int64 trimtab_extra_memory_kb(PlannedStmt *plan, const double *base, const tt_point *point)
{
    double work_mem, multiplier, base_mem, base_multiplier;
    tt_space space;
    tt_point plain;
    int workers;
    trimtab_make_space(base, &space);
    tt_default(&space, &plain);
    workers = trimtab_work_mem_factor(base, point, &work_mem, &multiplier);
    trimtab_work_mem_factor(base, &plain, &base_mem, &base_multiplier);
    if (work_mem * multiplier <= base_mem * base_multiplier) return 0;
    return (int64)((work_mem * multiplier - base_mem * base_multiplier) * trimtab_memory_nodes(plan, workers));
}
