/*
 * Sections inside a running statement, as AtuneRT has them: N tuples read by its largest scan, with the parameters that act while it
 * runs. Without a patch of the server a scan can be wrapped from outside (its node's function pointer), and what its node has not
 * yet begun takes new values: a sort or hash table that is still to be made, a scan that starts again. What cannot be had: a running
 * sort or hash table does not change, nor does a scan's read-ahead once it runs, nor anything in parallel workers; temp_buffers and
 * maintenance_work_mem, two of the seed's four, mean nothing here. Off by default; knowledge of it ends with the session.
 */
#include "trimtab.h"

#include "nodes/nodeFuncs.h"
#include "portability/instr_time.h"

#define N_INSIDE 64

typedef struct Inside {
    uint64 class_id;
    double base[N_KNOBS];
    tt_tuner tuner;
} Inside;

static Inside *insides[N_INSIDE];
static struct {
    PlanState *scan;
    ExecProcNodeMtd real;
    Inside *inside;
    bool is_open;
    int64 tuples;
    int level;
    tt_ticket ticket;
    instr_time began;
} section;

static Inside *inside_of(uint64 class_id, const double *base)
{
    Inside **place = &insides[class_id % N_INSIDE];
    tt_options options = {.budget = trimtab_budget / 100, .seed = class_id | 1};
    tt_space space;
    if (*place == NULL) *place = MemoryContextAlloc(TopMemoryContext, sizeof(Inside));
    else if ((*place)->class_id == class_id && memcmp((*place)->base, base, sizeof(double) * N_KNOBS) == 0) return *place;
    trimtab_make_space(base, &space);
    for (int i = 0; i < space.n_params; i++) /* only what acts in a run can differ */
        if (strcmp(trimtab_knob_name(i), "work_mem") != 0 && strcmp(trimtab_knob_name(i), "hash_mem_multiplier") != 0 &&
            strcmp(trimtab_knob_name(i), "effective_io_concurrency") != 0)
            space.param[i].n_levels = 1, space.param[i].default_level = 0;
    (*place)->class_id = class_id;
    memcpy((*place)->base, base, sizeof(double) * N_KNOBS);
    tt_tuner_init(&(*place)->tuner, &space, &options);
    return *place;
}

/* The levels of the tuner as those of the statement: what cannot change here stays at the session's own. */
static tt_point to_point(const Inside *inside, const tt_point *point)
{
    tt_space space;
    tt_point full;
    trimtab_make_space(inside->base, &space);
    tt_default(&space, &full);
    for (int i = 0; i < space.n_params; i++)
        if (inside->tuner.space.param[i].n_levels > 1) full.level[i] = point->level[i];
    return full;
}

static void open_section(void)
{
    tt_point point;
    tt_next(&section.inside->tuner, 0, &section.ticket);
    point = to_point(section.inside, &section.ticket.point);
    section.level = trimtab_apply(section.inside->base, &point, true, 0);
    section.tuples = 0;
    section.is_open = true;
    INSTR_TIME_SET_CURRENT(section.began);
}

static void close_section(bool is_whole)
{
    instr_time ended;
    if (!section.is_open) return;
    INSTR_TIME_SET_CURRENT(ended);
    INSTR_TIME_SUBTRACT(ended, section.began);
    trimtab_unapply(section.level);
    section.level = 0;
    section.is_open = false;
    if (is_whole) tt_tell(&section.inside->tuner, &section.ticket, INSTR_TIME_GET_MILLISEC(ended), (double)section.tuples);
    else tt_return(&section.inside->tuner, &section.ticket);
}

static TupleTableSlot *counted(PlanState *scan)
{
    TupleTableSlot *slot = section.real(scan);
    if (!TupIsNull(slot) && ++section.tuples >= trimtab_inside_tuples) {
        close_section(true);
        open_section();
    }
    return slot;
}

static bool find_scan(PlanState *node, void *largest)
{
    PlanState **best = largest;
    if (node == NULL) return false;
    if (IsA(node, SeqScanState) && (*best == NULL || node->plan->plan_rows > (*best)->plan->plan_rows)) *best = node;
    return planstate_tree_walker(node, find_scan, largest);
}

void trimtab_inside_begin(QueryDesc *desc, uint64 class_id, const double *base)
{
    PlanState *scan = NULL;
    trimtab_inside_forget();
    if (desc->plannedstmt->parallelModeNeeded || desc->instrument_options != 0) return;
    find_scan(desc->planstate, &scan);
    if (scan == NULL) return;
    section.inside = inside_of(class_id, base);
    section.scan = scan;
    section.real = scan->ExecProcNodeReal;
    ExecSetExecProcNode(scan, counted);
}

/* The first section of a run begins with it. */
void trimtab_inside_run(void)
{
    if (section.scan != NULL && !section.is_open) open_section();
}

void trimtab_inside_end(void)
{
    close_section(false);
}

void trimtab_inside_forget(void)
{
    memset(&section, 0, sizeof section);
}
