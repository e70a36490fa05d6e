/*
 * What a statement looks like at a glance. A query id costs as much as a tenth of a point select, and the most frequent statements are
 * those that are too short to be tuned. So where nothing else asks PostgreSQL for query ids, a statement gets one from us, at its planning,
 * and only if its like may be long: tables, size and the operators of its conditions tell its like, for a few instructions.
 * Statements whose likes were all short get one now and then; one without that turns out to be long makes us forget which were short.
 */
#include "statement.h"

#include "nodes/nodeFuncs.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif
#include "utils/plancache.h"
#include "utils/timestamp.h"

#define N_SKETCHES 1024
/* Of the statements with a sketch that is known to be short, one in so many gets an id: making it costs as much as a hundred looks. */
#define ID_SAMPLE 256
#define FORGET_EVERY_MS 10000

typedef struct Sketch {
    uint32 hash, skipped;
    uint16 n_short;
    bool is_short, has_class;
    bool is_suspect; /* the newest of these took long, or its client did */
} Sketch;

static Sketch sketches[N_SKETCHES];
static Sketch kept_plan;              /* of all plans without an id that PostgreSQL keeps */
static Sketch *seen = NULL;           /* of the statement without an id that was planned last, until it ends */
static Sketch *newest = &kept_plan;   /* of the one that ended last, */
static TimestampTz newest_began = 0;  /* and the time of its message */
static TimestampTz forgot_at = 0;
static bool has_param; /* the statement that is looked at has one */

/* Adds to a hash, in a register: this runs for every statement that is planned. */
static inline uint32 add(uint32 hash, uint32 value)
{
    return (((hash << 5) | (hash >> 27)) ^ value) * 0x9E3779B1u;
}

static inline uint32 add_operand(uint32 hash, Node *node)
{
    hash = add(hash, nodeTag(node));
    if (IsA(node, Var)) return add(hash, (uint32)((Var *)node)->varattno);
    has_param |= IsA(node, Param);
    return hash;
}

static uint32 add_condition(uint32 hash, Node *node)
{
    ListCell *cell;
    if (node == NULL) return hash;
    hash = add(hash, nodeTag(node));
    if (IsA(node, BoolExpr))
        foreach (cell, ((BoolExpr *)node)->args) hash = add_condition(hash, lfirst(cell));
    else if (IsA(node, OpExpr)) {
        hash = add(hash, ((OpExpr *)node)->opno);
        foreach (cell, ((OpExpr *)node)->args) hash = add_operand(hash, lfirst(cell));
    }
    return hash;
}

static uint32 add_query(uint32 hash, Query *query)
{
    ListCell *cell;
    hash = add(hash, ((uint32)query->commandType << 8) | (query->hasAggs ? 1 : 0) | (query->hasSubLinks ? 2 : 0) |
                         (query->limitCount != NULL ? 4 : 0) | (query->hasWindowFuncs ? 8 : 0));
    hash = add(hash, ((uint32)list_length(query->targetList) << 16) | ((uint32)list_length(query->sortClause) << 8) |
                         (uint32)list_length(query->groupClause));
    foreach (cell, query->rtable) {
        RangeTblEntry *entry = lfirst(cell);
        hash = add(hash, ((uint32)entry->relid << 4) ^ entry->rtekind);
        if (entry->subquery != NULL) hash = add_query(hash, entry->subquery);
    }
    foreach (cell, query->cteList) hash = add_query(hash, (Query *)((CommonTableExpr *)lfirst(cell))->ctequery);
    return query->jointree != NULL ? add_condition(hash, query->jointree->quals) : hash;
}

static Sketch *sketch_of(uint32 hash)
{
    Sketch *sketch = &sketches[(hash ^ hash >> 15) % N_SKETCHES];
    if (sketch->hash != hash) {
        memset(sketch, 0, sizeof *sketch);
        sketch->hash = hash;
    }
    return sketch;
}

static void make_id(Query *parse, const char *text)
{
    bool was_enabled = query_id_enabled;
    query_id_enabled = true; /* which the function insists on */
#if PG_VERSION_NUM >= 160000
    (void)text;
    JumbleQuery(parse);
#else
    JumbleQuery(parse, text);
#endif
    query_id_enabled = was_enabled;
}

static pg_noinline void give_id(Query *parse, const char *text, uint32 hash, bool is_sample)
{
    Front *front;
    make_id(parse, text);
    front = trimtab_front_of((uint64)parse->queryId);
    front->sketch = hash;
    if (is_sample) front->skipped = SHORT_SAMPLE - 1; /* this execution is the one that is measured */
}

/* Sees to the query id of a statement that is about to be planned; 0 afterwards: it is short, as far as we know. */
void trimtab_identify(Query *parse, const char *text, ParamListInfo params)
{
    Sketch *sketch;
    uint32 hash;
    bool is_sample;
    if (parse->queryId != 0 || compute_query_id == COMPUTE_QUERY_ID_OFF) return;
    has_param = false;
    hash = add_query(0, parse);
    sketch = sketch_of(hash);
    is_sample = sketch->is_short && ++sketch->skipped % ID_SAMPLE == 0;
    /* Parameters without values: the plan will be kept, and this is the only time that we see it planned. */
    if (!sketch->is_short || is_sample || trimtab_in_explain || (has_param && params == NULL)) give_id(parse, text, hash, is_sample);
    else seen = sketch;
}

/* A statement has taken so long. */
void trimtab_note_length(const Front *front, double ms)
{
    Sketch *sketch;
    if (front->sketch == 0) return;
    sketch = sketch_of(front->sketch);
    if (trimtab_is_class(front)) sketch->has_class = true;
    if (sketch->has_class || ms >= trimtab_min_duration) {
        sketch->n_short = 0;
        sketch->is_short = false;
    } else if (!sketch->is_short && ++sketch->n_short >= N_FIRST) sketch->is_short = true;
}

/* One that was taken for short was long: all have to show anew that they are short. */
static pg_noinline void forget_if_long(TimestampTz began)
{
    TimestampTz now = GetCurrentTimestamp();
    if ((double)(now - began) < trimtab_min_duration * 1000) return;
    if (compute_query_id == COMPUTE_QUERY_ID_OFF || !TimestampDifferenceExceeds(forgot_at, now, FORGET_EVERY_MS)) return;
    forgot_at = now;
    memset(sketches, 0, sizeof sketches);
    trimtab_forget_fronts();
    ResetPlanCache(); /* plans that are kept have no id either */
}

/*
 * A statement without an id is over. The clock is not read for each: where the next message comes soon, the statement before it was short.
 * Where it comes late, statement or client took long, and the clock is read at the end of the next one of that sketch.
 */
void trimtab_note_unknown(void)
{
    TimestampTz began = GetCurrentStatementStartTimestamp();
    Sketch *sketch = seen != NULL ? seen : &kept_plan;
    if ((double)(began - newest_began) >= trimtab_min_duration * 1000) newest->is_suspect = true;
    newest = sketch;
    newest_began = began;
    seen = NULL;
    if (likely(!sketch->is_suspect)) return;
    sketch->is_suspect = false;
    if (trimtab_test_cost[0] == '\0') forget_if_long(began);
}
