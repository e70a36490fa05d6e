/*
 * Sections inside a running statement, as AtuneRT has them: N tuples that its scans return, with the parameters that act while it runs.
 * Without a patch of the server a scan can be wrapped from outside (its node's function pointer), and what its node has not yet begun
 * takes new values: a sort or hash table that is still to be made, a scan that starts again, a worker that is still to be launched. What
 * cannot be had: a running sort or hash table does not change, nor does a scan's read-ahead once it runs, nor a worker once it has begun;
 * temp_buffers and maintenance_work_mem, two of the seed's four, mean nothing here. Off by default; what is learnt ends with the session.
 *
 * A section is compared with those at the same place of other runs, the first with the first: sections of one run do different work.
 */
#include "statement.h"

#include "funcapi.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"

#include <math.h>

#if PG_VERSION_NUM < 160000 && !defined(InitMaterializedSRF)
#define InitMaterializedSRF(fcinfo, flags) SetSingleFuncCall(fcinfo, flags)
#endif

#define N_INSIDE 64
#define N_SCANS 32
#define N_PLACES 64
/* Sections with the session's own values before those at their place are compared. */
#define N_USUAL 3
#define MAX_SERIES 12

enum { WORK_MEM, HASH_MEM, IO, N_ACTING };
static const char *const acting[N_ACTING] = {"work_mem", "hash_mem_multiplier", "effective_io_concurrency"};

typedef struct Inside {
    uint64 query_id; /* 0: none */
    uint32 rules;    /* what the settings of trimtab allowed */
    double base[N_KNOBS];
    int param[N_ACTING]; /* in the tuner; -1: it keeps the session's own value */
    double value[N_ACTING][MAX_SERIES];
    tt_tuner tuner;
    double usual_ms[N_PLACES]; /* with the session's own values, by place in the run */
    int n_usual[N_PLACES];
    int64 n_sections;
} Inside;

/* The scans of a statement and what they call, kept as long as the statement: a portal whose rows a client fetches in parts goes on with
   them after another statement has had sections of its own. */
typedef struct Scans {
    struct Scans *next;
    int n, last;
    PlanState *scan[N_SCANS];
    ExecProcNodeMtd real[N_SCANS];
    MemoryContextCallback at_end;
} Scans;

static Inside *insides[N_INSIDE];
static Scans *all_scans = NULL;
static struct {
    Scans *scans; /* of the statement whose sections are measured; NULL: none */
    Inside *inside;
    int n_memory_nodes; /* of all processes */
    int64 reserved_kb;
    int n; /* the place of the open section */
    bool is_open, has_ticket;
    int64 tuples;
    int level;
    tt_ticket ticket;
    instr_time began;
} section;

PG_FUNCTION_INFO_V1(trimtab_inside_list);

/* The values of a parameter: each twice the one before, with the session's own among them. Returns its level. */
static int make_series(int knob, double base, double *value, int *n)
{
    double low, high;
    int at = 0;
    *n = 0;
    if (!trimtab_knob_range(knob, base, &low, &high)) low = high = base;
    for (double v = Max(low, 1); v <= high && *n < MAX_SERIES - 1; v *= 2) {
        if (v < base) at = *n + 1;
        if (v != base) value[(*n)++] = v;
    }
    memmove(&value[at + 1], &value[at], sizeof *value * (size_t)(*n - at));
    value[at] = base;
    (*n)++;
    return at;
}

/* The parameters that may have other values, each a try at its highest value and at one half-way to it. */
static void begin_search(Inside *in)
{
    tt_options options = {.budget = trimtab_budget / 100, .min_gain = trimtab_min_gain / 100, .max_ratio = trimtab_max_ratio,
                          .seed = in->query_id | 1};
    tt_space space = {.n_params = 0};
    for (int i = 0; i < N_ACTING; i++) {
        int knob = trimtab_knob_index(acting[i]), n, own = make_series(knob, in->base[knob], in->value[i], &n);
        in->param[i] = n > 1 || (i == IO && space.n_params == 0) ? space.n_params++ : -1; /* one at least */
        if (in->param[i] >= 0) space.param[in->param[i]] = (tt_param_space){n, own, trimtab_knob_risk(knob)};
    }
    tt_tuner_init(&in->tuner, &space, &options);
    for (int i = 0; i < space.n_params; i++)
        for (int half = 1; half >= 0; half--) {
            tt_point point;
            int top = space.param[i].n_levels - 1, own = space.param[i].default_level;
            tt_default(&space, &point);
            point.level[i] = (int16_t)(top - half * (top - own) / 2);
            if (point.level[i] != own) tt_hint(&in->tuner, &point);
        }
}

static Inside *inside_of(uint64 query_id, const double *base)
{
    Inside **place = &insides[query_id % N_INSIDE], *in;
    if (*place == NULL) *place = MemoryContextAllocZero(TopMemoryContext, sizeof(Inside));
    in = *place;
    if (in->query_id == query_id && in->rules == trimtab_rules() && memcmp(in->base, base, sizeof in->base) == 0) return in;
    memset(in, 0, sizeof *in);
    in->query_id = query_id;
    in->rules = trimtab_rules();
    memcpy(in->base, base, sizeof in->base);
    begin_search(in);
    return in;
}

static bool is_own(const Inside *in, const tt_point *point, int i)
{
    int param = in->param[i];
    return param < 0 || point->level[param] == in->tuner.space.param[param].default_level;
}

static double value_at(const Inside *in, const tt_point *point, int i)
{
    return in->param[i] < 0 ? in->base[trimtab_knob_index(acting[i])] : in->value[i][point->level[in->param[i]]];
}

/* Whether the memory that the sorts and hash tables may then use fits into the limit over all backends. */
static bool has_memory(const Inside *in, const tt_point *point)
{
    tt_point plain;
    double more;
    int64 kb;
    tt_default(&in->tuner.space, &plain);
    more = value_at(in, point, WORK_MEM) * value_at(in, point, HASH_MEM) - value_at(in, &plain, WORK_MEM) * value_at(in, &plain, HASH_MEM);
    kb = (int64)(more * section.n_memory_nodes) - section.reserved_kb;
    if (kb <= 0) return true;
    if (!trimtab_reserve(kb)) return false;
    section.reserved_kb += kb;
    return true;
}

/* `alone` is for measuring sections by themselves: its budget is then its own. */
static bool can_pay(void)
{
    Shared *shared = trimtab_shared();
    bool can;
    if (trimtab_inside == INSIDE_ALONE) return true;
    LWLockAcquire(&shared->lock, LW_SHARED);
    can = trimtab_server_can_pay(shared);
    LWLockRelease(&shared->lock);
    return can;
}

/* False, and nothing set, if PostgreSQL refuses a value. */
static bool apply(const Inside *in, const tt_point *point)
{
    for (int i = 0; i < N_ACTING; i++) {
        if (is_own(in, point, i)) continue;
        if (section.level == 0) section.level = NewGUCNestLevel();
        if (trimtab_knob_set(trimtab_knob_index(acting[i]), value_at(in, point, i))) continue;
        trimtab_unapply(section.level);
        section.level = 0;
        return false;
    }
    return true;
}

/* Draws and sets what the next section runs with; false: it runs with the session's own values and is not compared. */
static bool draw(Inside *in)
{
    if (in->n_usual[section.n] < N_USUAL) return false;
    tt_next(&in->tuner, 0, &section.ticket);
    if (section.ticket.kind == TT_PROBE && !can_pay()) tt_return(&in->tuner, &section.ticket);
    else if (has_memory(in, &section.ticket.point) && apply(in, &section.ticket.point)) return true;
    else tt_abandon(&in->tuner, &section.ticket, 0); /* as a probe it is not tried again */
    return false;
}

static void open_section(void)
{
    section.has_ticket = draw(section.inside);
    section.tuples = 0;
    section.is_open = true;
    INSTR_TIME_SET_CURRENT(section.began);
}

/* What the class has lost and gained by its sections counts for the server as well. */
static void book(const tt_account *before, const tt_account *after)
{
    Shared *shared = trimtab_shared();
    if (trimtab_inside == INSIDE_ALONE) return;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    shared->loss_ms += after->probe_loss - before->probe_loss + after->kept_loss - before->kept_loss;
    shared->gained_ms += after->gained - before->gained;
    LWLockRelease(&shared->lock);
}

static void tell(Inside *in, double ms)
{
    int place = section.n;
    in->n_sections++;
    if (section.has_ticket) {
        tt_account before = in->tuner.account;
        tt_tell(&in->tuner, &section.ticket, ms, in->usual_ms[place]);
        book(&before, &in->tuner.account);
    }
    if (section.has_ticket && section.ticket.kind != TT_DEFAULT) return;
    in->n_usual[place] = Min(in->n_usual[place] + 1, 16);
    in->usual_ms[place] += (ms - in->usual_ms[place]) / in->n_usual[place];
}

static double elapsed_ms(const Inside *in)
{
    double values[N_KNOBS];
    if (trimtab_test_cost[0] == '\0') return trimtab_elapsed_ms(section.began);
    memcpy(values, in->base, sizeof values);
    for (int i = 0; i < N_ACTING && section.has_ticket; i++)
        values[trimtab_knob_index(acting[i])] = value_at(in, &section.ticket.point, i);
    return trimtab_test_time(in->base, values);
}

static void close_section(bool is_whole)
{
    double ms;
    if (!section.is_open) return;
    ms = elapsed_ms(section.inside);
    trimtab_unapply(section.level);
    section.level = 0;
    section.is_open = false;
    if (is_whole) tell(section.inside, ms);
    else if (section.has_ticket) tt_return(&section.inside->tuner, &section.ticket);
}

/* The place of a scan among those of its statement; false: it is of another statement. */
static bool is_of(Scans *scans, const PlanState *scan)
{
    for (int i = 0; i < scans->n; i++) {
        if (scans->scan[scans->last] == scan) return true;
        scans->last = (scans->last + 1) % scans->n;
    }
    return false;
}

/* A scan of a statement that waited while others had sections: it only goes on. */
static pg_noinline TupleTableSlot *uncounted(PlanState *scan)
{
    for (Scans *each = all_scans; each != NULL; each = each->next)
        if (is_of(each, scan)) return each->real[each->last](scan);
    elog(ERROR, "trimtab: a scan is of no statement");
}

static TupleTableSlot *counted(PlanState *scan)
{
    TupleTableSlot *slot;
    Scans *scans = section.scans;
    if (unlikely(scans == NULL || !is_of(scans, scan))) return uncounted(scan);
    slot = scans->real[scans->last](scan);
    /* What the scan has called may have ended the sections. */
    if (!TupIsNull(slot) && section.scans == scans && ++section.tuples >= trimtab_inside_tuples && section.is_open) {
        close_section(true);
        if (section.n < N_PLACES - 1) section.n++;
        open_section();
    }
    return slot;
}

/* Wraps the scans of tables, as many as there is room for. */
static bool wrap_scans(PlanState *node, void *context)
{
    Scans *scans = context;
    if (node == NULL) return false;
    switch (nodeTag(node)) {
    case T_SeqScanState:
    case T_SampleScanState:
    case T_IndexScanState:
    case T_IndexOnlyScanState:
    case T_BitmapHeapScanState:
    case T_TidScanState:
    case T_TidRangeScanState:
        if (node->ExecProcNodeReal == counted) break; /* of a subquery that two clauses share: the walker comes here again */
        if (scans->n == N_SCANS) return true;
        scans->scan[scans->n] = node;
        scans->real[scans->n++] = node->ExecProcNodeReal;
        ExecSetExecProcNode(node, counted);
        break;
    default: break;
    }
    return planstate_tree_walker(node, wrap_scans, context);
}

/* The statement's memory goes, however it ended. */
static void drop_scans(void *gone)
{
    Scans **at = &all_scans;
    while (*at != NULL && *at != gone) at = &(*at)->next;
    if (*at != NULL) *at = (*at)->next;
    if (section.scans == gone) section.scans = NULL;
}

/* Of a parallel plan this process's share is measured; workers get the values that stand when they are launched. */
void trimtab_inside_begin(QueryDesc *desc, uint64 query_id, const double *base)
{
    Scans *scans;
    trimtab_inside_forget();
    if (desc->instrument_options != 0 || trimtab_shared() == NULL) return;
    scans = MemoryContextAllocZero(desc->estate->es_query_cxt, sizeof *scans);
    scans->at_end.func = drop_scans;
    scans->at_end.arg = scans;
    MemoryContextRegisterResetCallback(desc->estate->es_query_cxt, &scans->at_end);
    scans->next = all_scans;
    all_scans = scans;
    wrap_scans(desc->planstate, scans);
    if (scans->n == 0) return;
    section.scans = scans;
    section.inside = inside_of(query_id, base);
    section.n_memory_nodes = trimtab_memory_nodes(desc->plannedstmt, (int)base[trimtab_knob_index("max_parallel_workers_per_gather")]);
}

/* The first section of a run begins with it. */
void trimtab_inside_run(void)
{
    if (section.scans != NULL && !section.is_open) open_section();
}

void trimtab_inside_end(void)
{
    close_section(false);
}

void trimtab_inside_forget(void)
{
    if (section.inside != NULL) memset(&section, 0, sizeof section);
}

static char *settings_text(const Inside *in)
{
    StringInfoData text;
    initStringInfo(&text);
    for (int i = 0; i < N_ACTING; i++)
        if (!is_own(in, &in->tuner.best, i))
            appendStringInfo(&text, "%s%s=%s", text.len > 0 ? ", " : "", acting[i],
                             trimtab_knob_text(trimtab_knob_index(acting[i]), value_at(in, &in->tuner.best, i)));
    return text.data;
}

/* What this session has learnt of sections, a row for each query id. */
Datum trimtab_inside_list(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
    InitMaterializedSRF(fcinfo, 0);
    for (int i = 0; i < N_INSIDE; i++) {
        const Inside *in = insides[i];
        double low, high;
        Datum values[9];
        bool nulls[9] = {false};
        if (in == NULL || in->query_id == 0) continue;
        values[0] = Int64GetDatum((int64)in->query_id);
        values[1] = Int64GetDatum(in->n_sections);
        values[2] = Int64GetDatum((int64)in->tuner.account.n_probes);
        values[3] = CStringGetTextDatum(settings_text(in));
        values[4] = Float8GetDatum(tt_proven_gain(&in->tuner, &low, &high));
        values[5] = Float8GetDatum(low);
        values[6] = Float8GetDatum(high);
        values[7] = Float8GetDatum(in->tuner.account.total);
        values[8] = Float8GetDatum(in->tuner.account.probe_loss + in->tuner.account.kept_loss);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    return (Datum)0;
}
