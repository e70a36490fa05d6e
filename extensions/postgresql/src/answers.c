/*
 * Whether SQL lets the answer of a statement depend on its plan. Rows come in another order from another plan: that matters to a limit,
 * to window functions, to aggregates that are not commutative. And values that are equal need not be written alike (1.0 and 1.00): which
 * one stands for a group, or is the greatest, is the plan's choice. Whatever is not known to be safe depends.
 */
#include "trimtab.h"

#include "access/nbtree.h"
#include "access/relation.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/typcache.h"

/* The first object that is not PostgreSQL's own. */
#define FIRST_FOREIGN 16384

/* Columns of views upon views may have twice as many origins with each. */
#define MAX_STEPS 1000

static int n_steps;

/* A query and those around it. */
typedef struct Level {
    Query *query;
    const struct Level *outer;
} Level;

static bool has_fixed_scale(Node *node, const Level *level);

static bool are_fixed(List *nodes, const Level *level)
{
    ListCell *cell;
    foreach (cell, nodes)
        if (!has_fixed_scale(lfirst(cell), level)) return false;
    return true;
}

/* Column `n` of a subquery. */
static bool is_fixed_in(Query *query, int n, const Level *outer)
{
    Level level = {query, outer};
    if (query->setOperations != NULL || query->commandType != CMD_SELECT || n < 1 || n > list_length(query->targetList)) return false;
    return has_fixed_scale((Node *)((TargetEntry *)list_nth(query->targetList, n - 1))->expr, &level);
}

static bool is_fixed_in_cte(const RangeTblEntry *entry, int n, const Level *level)
{
    ListCell *cell;
    for (Index up = 0; up < entry->ctelevelsup && level != NULL; up++) level = level->outer;
    if (level == NULL || entry->self_reference) return false;
    foreach (cell, level->query->cteList) {
        CommonTableExpr *cte = lfirst(cell);
        if (strcmp(cte->ctename, entry->ctename) == 0) return !cte->cterecursive && is_fixed_in((Query *)cte->ctequery, n, level);
    }
    return false;
}

static bool is_fixed_column(const Var *var, const Level *level)
{
    RangeTblEntry *entry;
    for (Index up = 0; up < var->varlevelsup && level != NULL; up++) level = level->outer;
    if (level == NULL || level->query->setOperations != NULL || var->varno < 1 || var->varno > list_length(level->query->rtable) || var->varattno < 1) return false;
    entry = rt_fetch(var->varno, level->query->rtable);
    switch (entry->rtekind) {
    case RTE_SUBQUERY: return is_fixed_in(entry->subquery, var->varattno, level);
    case RTE_CTE: return is_fixed_in_cte(entry, var->varattno, level);
    case RTE_JOIN: return has_fixed_scale(list_nth(entry->joinaliasvars, var->varattno - 1), level);
#if PG_VERSION_NUM >= 180000
    case RTE_GROUP: return has_fixed_scale(list_nth(entry->groupexprs, var->varattno - 1), level);
#endif
    default: return false;
    }
}

static bool is_named(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name != NULL && strcmp(name, names[i]) == 0) return true;
    return false;
}

static char *own_name(Oid function)
{
    return function < FIRST_FOREIGN ? get_func_name(function) : NULL;
}

static bool is_fixed_aggregate(const Aggref *agg, const Level *level)
{
    static const char *const keep[] = {"sum", "min", "max"};
    TargetEntry *argument = list_length(agg->args) == 1 ? linitial(agg->args) : NULL;
    return argument != NULL && is_named(own_name(agg->aggfnoid), keep, lengthof(keep)) && has_fixed_scale((Node *)argument->expr, level);
}

/* An integer as numeric, or a field of a date: all but the Julian day. */
static bool is_fixed_call(const FuncExpr *call, const Level *level)
{
    static const char *const names[] = {"numeric", "extract"};
    bool is_number = list_length(call->args) == 1;
    Node *first = call->args == NIL ? NULL : linitial(call->args);
    if (first == NULL || !is_named(own_name(call->funcid), &names[is_number ? 0 : 1], 1)) return false;
    if (is_number) return has_fixed_scale(first, level);
    return IsA(first, Const) && !((Const *)first)->constisnull && tolower(*TextDatumGetCString(((Const *)first)->constvalue)) != 'j';
}

/* Whether all values of a number are written with equally many digits after the point: then equal ones are written alike. */
static bool has_fixed_scale(Node *node, const Level *level)
{
    Oid type = node == NULL ? InvalidOid : exprType(node);
    check_stack_depth();
    if (++n_steps > MAX_STEPS) return false;
    if (type == INT2OID || type == INT4OID || type == INT8OID) return true;
    if (type != NUMERICOID) return false;
    if (exprTypmod(node) >= 0 || IsA(node, Const)) return true;
    if (IsA(node, Var)) return is_fixed_column((Var *)node, level);
    if (IsA(node, Aggref)) return is_fixed_aggregate((Aggref *)node, level);
    if (IsA(node, RelabelType)) return has_fixed_scale((Node *)((RelabelType *)node)->arg, level);
    if (IsA(node, OpExpr)) {
        RegProcedure does = get_opcode(((OpExpr *)node)->opno);
        bool is_kept = does == F_NUMERIC_ADD || does == F_NUMERIC_SUB || does == F_NUMERIC_MUL || does == F_NUMERIC_UMINUS;
        return is_kept && are_fixed(((OpExpr *)node)->args, level);
    }
    return IsA(node, FuncExpr) && is_fixed_call((FuncExpr *)node, level);
}

/* Whether values of that type that are equal have the same bytes, as indexes ask before they keep equal keys once. */
static bool is_type_alike(Oid type, int32 typmod, Oid collation)
{
    TypeCacheEntry *cache = lookup_type_cache(getBaseType(type), TYPECACHE_BTREE_OPFAMILY);
    Oid function;
    if (getBaseType(type) == NUMERICOID || getBaseType(type) == BPCHAROID) return typmod >= 0;
    if (getBaseType(type) == INTERVALOID || !OidIsValid(cache->btree_opf)) return false;
    function = get_opfamily_proc(cache->btree_opf, cache->btree_opintype, cache->btree_opintype, BTEQUALIMAGE_PROC);
    return OidIsValid(function) && DatumGetBool(OidFunctionCall1Coll(function, collation, ObjectIdGetDatum(cache->btree_opintype)));
}

static bool is_alike(Node *node, const Level *level)
{
    return is_type_alike(exprType(node), exprTypmod(node), exprCollation(node)) || has_fixed_scale(node, level);
}

static bool are_keys_alike(List *clauses, const Level *level)
{
    ListCell *cell;
    foreach (cell, clauses)
        if (!is_alike(get_sortgroupclause_expr(lfirst(cell), level->query->targetList), level)) return false;
    return true;
}

/* UNION and the like, not of all rows. */
static bool are_sets_alike(Node *node)
{
    SetOperationStmt *set = (SetOperationStmt *)node;
    ListCell *type, *typmod, *collation;
    if (node == NULL || !IsA(node, SetOperationStmt)) return true;
    if (!set->all || set->op != SETOP_UNION)
        forthree (type, set->colTypes, typmod, set->colTypmods, collation, set->colCollations)
            if (!is_type_alike(lfirst_oid(type), lfirst_int(typmod), lfirst_oid(collation))) return false;
    return are_sets_alike(set->larg) && are_sets_alike(set->rarg);
}

/* An aggregate whose value is the same in whatever order its rows come. */
static bool is_order_free(const Aggref *agg, const Level *level)
{
    static const char *const any[] = {"count", "bool_and", "bool_or", "every", "bit_and", "bit_or"};
    static const char *const exact[] = {"sum", "avg", "variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp"};
    static const char *const ends[] = {"min", "max"};
    char *name = own_name(agg->aggfnoid);
    bool is_end = is_named(name, ends, lengthof(ends));
    ListCell *cell;
    if (agg->aggkind != AGGKIND_NORMAL) return false;
    if (is_named(name, any, lengthof(any))) return true;
    if (!is_end && !is_named(name, exact, lengthof(exact))) return false;
    foreach (cell, agg->args) {
        TargetEntry *argument = lfirst(cell);
        Oid type = exprType((Node *)argument->expr);
        /* Of equal values one is taken; floats add up to other last digits in another order. */
        if ((is_end || agg->aggdistinct != NIL) && !is_alike((Node *)argument->expr, level)) return false;
        if (!is_end && type != INT2OID && type != INT4OID && type != INT8OID && type != NUMERICOID && type != INTERVALOID) return false;
    }
    return true;
}

static bool is_among(List *sort, Index ref)
{
    ListCell *cell;
    foreach (cell, sort)
        if (((SortGroupClause *)lfirst(cell))->tleSortGroupRef == ref) return true;
    return false;
}

/* An aggregate whose rows come in an order that leaves nothing to the plan: what is equal in it is equal. */
static bool is_order_given(const Aggref *agg, const Level *level)
{
    ListCell *cell;
    if (agg->aggorder == NIL || agg->aggkind != AGGKIND_NORMAL) return false;
    foreach (cell, agg->args) {
        TargetEntry *argument = lfirst(cell);
        if (argument->resjunk || IsA(argument->expr, Const)) continue;
        if (!is_among(agg->aggorder, argument->ressortgroupref) || !is_alike((Node *)argument->expr, level)) return false;
    }
    return true;
}

/* One table, and its primary key is among what its rows are sorted by. */
static bool is_sorted_by_key(Query *query)
{
    RangeTblEntry *entry = list_length(query->rtable) == 1 ? linitial(query->rtable) : NULL;
    Relation relation = entry != NULL && entry->rtekind == RTE_RELATION ? try_relation_open(entry->relid, AccessShareLock) : NULL;
    Bitmapset *key;
    ListCell *cell;
    bool is_inside;
    if (relation == NULL) return false;
    key = entry->inh && relation->rd_rel->relhassubclass && relation->rd_rel->relkind == RELKIND_RELATION
              ? NULL /* keys are of one table each */
              : RelationGetIndexAttrBitmap(relation, INDEX_ATTR_BITMAP_PRIMARY_KEY);
    relation_close(relation, NoLock);
    is_inside = key != NULL;
    foreach (cell, query->sortClause) {
        Node *node = get_sortgroupclause_expr(lfirst(cell), query->targetList);
        if (IsA(node, Var) && ((Var *)node)->varlevelsup == 0) key = bms_del_member(key, ((Var *)node)->varattno - FirstLowInvalidHeapAttributeNumber);
    }
    return is_inside && bms_is_empty(key);
}

/* Not a limit, or one that is no number; an offset of 0. */
static bool is_nothing(Node *limit, bool is_offset)
{
    Node *value = limit == NULL ? NULL : eval_const_expressions(NULL, limit);
    if (value == NULL) return true;
    return IsA(value, Const) && (((Const *)value)->constisnull || (is_offset && DatumGetInt64(((Const *)value)->constvalue) == 0));
}

/* Whether it is fixed in which order its rows come: it has one row, or no two of equal rank that differ. */
static bool is_order_fixed(const Level *level)
{
    Query *query = level->query;
    bool by_group = query->groupClause != NIL && query->groupingSets == NIL, by_all = true;
    ListCell *cell;
    if (query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL) return true;
    if (query->sortClause == NIL) return false;
    foreach (cell, query->groupClause) by_group &= is_among(query->sortClause, ((SortGroupClause *)lfirst(cell))->tleSortGroupRef);
    foreach (cell, query->targetList) {
        TargetEntry *column = lfirst(cell);
        by_all &= column->resjunk || (is_among(query->sortClause, column->ressortgroupref) && is_alike((Node *)column->expr, level));
    }
    return by_group || by_all || is_sorted_by_key(query);
}

/* Whether it is fixed which rows a limit lets through: besides, all that are equal. */
static bool is_limit_fixed(const Level *level)
{
    Query *query = level->query;
    bool has_offset = !is_nothing(query->limitOffset, true);
    if (!has_offset && is_nothing(query->limitCount, false)) return true;
    if (query->limitOption == LIMIT_OPTION_WITH_TIES && !has_offset && query->sortClause != NIL) return true;
    return is_order_fixed(level);
}

/* ARRAY(SELECT ...): its elements come as the rows do. */
static bool is_array_fixed(const SubLink *link, const Level *outer)
{
    Level level = {(Query *)link->subselect, outer};
    return is_order_fixed(&level);
}

/* Which of several rows counts, or comes first: in an update by a join, of a key, with triggers for each row; where a row may be there. */
static bool writes_in_turn(Query *query)
{
    Relation relation;
    ListCell *cell;
    Bitmapset *keys;
    bool is_in_turn = query->onConflict != NULL;
    if (query->commandType != CMD_INSERT && query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE) return true;
    if (query->commandType == CMD_UPDATE && list_length(query->rtable) > 1) return true;
    relation = try_relation_open(rt_fetch(query->resultRelation, query->rtable)->relid, AccessShareLock);
    if (relation == NULL) return true;
    for (int i = 0; relation->trigdesc != NULL && i < relation->trigdesc->numtriggers; i++)
        is_in_turn |= !relation->trigdesc->triggers[i].tgisinternal;
    keys = query->commandType == CMD_UPDATE ? RelationGetIndexAttrBitmap(relation, INDEX_ATTR_BITMAP_KEY) : NULL;
    relation_close(relation, NoLock);
    foreach (cell, query->targetList)
        is_in_turn |= bms_is_member(((TargetEntry *)lfirst(cell))->resno - FirstLowInvalidHeapAttributeNumber, keys);
    return is_in_turn;
}

static bool depends(Node *node, void *context)
{
    const Level *level = context;
    if (node == NULL) return false;
    if (IsA(node, Query)) {
        Query *query = (Query *)node;
        Level own = {query, level};
        if (query->commandType != CMD_SELECT && writes_in_turn(query)) return true;
        if (query->hasWindowFuncs || query->hasDistinctOn || query->hasTargetSRFs || !is_limit_fixed(&own)) return true;
        if (!are_keys_alike(query->groupClause, &own) || !are_keys_alike(query->distinctClause, &own)) return true;
        if (!are_sets_alike(query->setOperations)) return true;
        return query_tree_walker(query, depends, &own, 0);
    }
    if (IsA(node, Aggref) && !is_order_free((Aggref *)node, level) && !is_order_given((Aggref *)node, level)) return true;
    if (IsA(node, SubLink) && ((SubLink *)node)->subLinkType == ARRAY_SUBLINK && !is_array_fixed((SubLink *)node, level)) return true;
    if (IsA(node, TableSampleClause)) return true;
    return expression_tree_walker(node, depends, context);
}

bool trimtab_depends_on_plan(Query *query)
{
    n_steps = 0;
    return depends((Node *)query, NULL);
}
