/*
 * The parameters that a statement may be given, their values and risks, and how they are set and taken back.
 *
 * None of them changes what a statement means. What is not here is never set: nothing of durability, locks, time-outs, isolation.
 * Risk is the loss to expect of a bad value as a share of the statement's time: a plan that is forbidden its join can be many
 * times slower, more memory for a sort can hardly be.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_COUNT */
#endif
#include "trimtab.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc_tables.h"
#include "utils/varlena.h"

#include <math.h>
#include <sched.h>
#include <unistd.h>

typedef struct Knob {
    const char *name;
    double risk;
    bool in_plan, in_run; /* where it acts */
    bool only_more;       /* values below the session's own are not tried */
    int n;
    double value[MAX_LEVELS - 1];
    /* at run time */
    struct config_generic *guc;
    bool is_on;
    double low, high; /* of trimtab.parameters */
} Knob;

enum { WORK_MEM, HASH_MEM, JIT, WORKERS, PAGE_COST, IO, CACHE, NESTLOOP, HASHJOIN, MERGEJOIN, HASHAGG, MEMOIZE, BITMAP, COLLAPSE, SETUP };

static Knob knobs[N_KNOBS] = {
    {"work_mem", 0.10, true, true, true, 6, {4096, 16384, 65536, 131072, 262144, 524288}},
    {"hash_mem_multiplier", 0.10, true, true, true, 4, {1, 2, 4, 8}},
    {"jit", 0.15, true, false, false, 2, {0, 1}},
    {"max_parallel_workers_per_gather", 0.40, true, false, false, 4, {0, 1, 2, 4}},
    {"random_page_cost", 0.50, true, false, false, 4, {1.1, 1.5, 2, 4}},
    {"effective_io_concurrency", 0.15, false, true, false, 5, {1, 16, 64, 128, 256}},
    {"effective_cache_size", 0.40, true, false, true, 3, {524288, 1048576, 2097152}},
    {"enable_nestloop", 0.80, true, false, false, 2, {0, 1}},
    {"enable_hashjoin", 1.00, true, false, false, 2, {0, 1}},
    {"enable_mergejoin", 0.60, true, false, false, 2, {0, 1}},
    {"enable_hashagg", 0.60, true, false, false, 2, {0, 1}},
    {"enable_memoize", 0.50, true, false, false, 2, {0, 1}},
    {"enable_bitmapscan", 0.80, true, false, false, 2, {0, 1}},
    {"join_collapse_limit", 0.50, true, false, true, 2, {8, 12}},
    {"parallel_setup_cost", 0.40, true, false, false, 3, {100, 300, 1000}},
};

static uint32 parameters_hash = 0;

/* trimtab.hints: what a study has proven for the whole server, tried first. */
static bool has_hint[N_KNOBS];
static double hints[N_KNOBS];

static struct config_generic *guc_of(Knob *knob)
{
    if (knob->guc == NULL) {
#if PG_VERSION_NUM >= 160000
        knob->guc = find_option(knob->name, false, true, DEBUG1);
#else
        struct config_generic **all = get_guc_variables();
        for (int i = 0; i < GetNumConfigOptions(); i++)
            if (strcmp(all[i]->name, knob->name) == 0) knob->guc = all[i];
#endif
    }
    return knob->guc;
}

static double value_of(Knob *knob)
{
    struct config_generic *guc = guc_of(knob);
    if (guc == NULL) return 0;
    switch (guc->vartype) {
    case PGC_BOOL: return *((struct config_bool *)guc)->variable ? 1 : 0;
    case PGC_INT: return *((struct config_int *)guc)->variable;
    case PGC_REAL: return *((struct config_real *)guc)->variable;
    default: return 0;
    }
}

void trimtab_knob_values(double *values)
{
    for (int i = 0; i < N_KNOBS; i++) values[i] = value_of(&knobs[i]);
}

/* Whether the user, or the program that connected, has set one of the parameters for this session or transaction. */
bool trimtab_has_own_set(void)
{
    for (int i = 0; i < N_KNOBS; i++) {
        struct config_generic *guc = guc_of(&knobs[i]);
        if (knobs[i].is_on && guc != NULL && guc->source >= PGC_S_CLIENT) return true;
    }
    return false;
}

const char *trimtab_knob_name(int knob)
{
    return knobs[knob].name;
}

int trimtab_knob_index(const char *name)
{
    for (int i = 0; i < N_KNOBS; i++)
        if (pg_strcasecmp(knobs[i].name, name) == 0) return i;
    return -1;
}

char *trimtab_knob_text(int knob, double value)
{
    struct config_generic *guc = guc_of(&knobs[knob]);
    if (guc != NULL && guc->vartype == PGC_BOOL) return pstrdup(value != 0 ? "on" : "off");
    return psprintf("%.15g", value);
}

bool trimtab_knob_parse(int knob, const char *text, double *value)
{
    struct config_generic *guc = guc_of(&knobs[knob]);
    const char *hint = NULL;
    bool is_on;
    if (guc == NULL) return false;
    if (guc->vartype == PGC_BOOL) {
        if (!parse_bool(text, &is_on)) return false;
        *value = is_on ? 1 : 0;
        return true;
    }
    return parse_real(text, value, guc->flags, &hint);
}

static bool is_allowed(const Knob *knob, double value, double base)
{
    if (knob->only_more && value < base) return false;
    if (value < knob->low || value > knob->high) return false;
    return knob != &knobs[WORKERS] || value <= max_parallel_workers;
}

/* The values of each knob in order, the session's own among them. */
void trimtab_knob_levels(const double *base, KnobLevels *levels)
{
    for (int i = 0; i < N_KNOBS; i++) {
        Knob *knob = &knobs[i];
        KnobLevels *l = &levels[i];
        bool placed = false;
        l->n = 0;
        for (int v = 0; v < knob->n; v++) {
            if (!placed && base[i] <= knob->value[v]) {
                l->base = l->n;
                l->value[l->n++] = base[i];
                placed = true;
            }
            if (knob->value[v] != base[i] && knob->is_on && is_allowed(knob, knob->value[v], base[i])) l->value[l->n++] = knob->value[v];
        }
        if (!placed) {
            l->base = l->n;
            l->value[l->n++] = base[i];
        }
    }
}

void trimtab_make_space(const double *base, tt_space *space)
{
    KnobLevels levels[N_KNOBS];
    memset(space, 0, sizeof *space);
    trimtab_knob_levels(base, levels);
    space->n_params = N_KNOBS;
    for (int i = 0; i < N_KNOBS; i++) {
        space->param[i].n_levels = levels[i].n;
        space->param[i].default_level = levels[i].base;
        space->param[i].risk = knobs[i].risk;
    }
}

/* Sets the level whose value is nearest to `value`, if there is one that differs from the base. */
static bool lay(tt_point *point, const KnobLevels *levels, int knob, double value)
{
    int best = levels[knob].base;
    for (int l = 0; l < levels[knob].n; l++)
        if (fabs(levels[knob].value[l] - value) < fabs(levels[knob].value[best] - value)) best = l;
    point->level[knob] = (int16)best;
    return best != levels[knob].base;
}

static int n_cores(void)
{
#ifdef __linux__
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) return CPU_COUNT(&own);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The most workers that have a core each beside the one that leads them, where the base asks for more; else -1. */
static int workers_with_cores(const KnobLevels *levels)
{
    const KnobLevels *l = &levels[WORKERS];
    int most = -1, spare = n_cores() - 1;
    if (spare < 1 || l->value[l->base] <= spare) return -1;
    for (int i = 0; i < l->n; i++)
        if (l->value[i] <= spare) most = i;
    return most;
}

/* Whether `point` is the base but for fewer workers, so that each has a core. PostgreSQL's estimate takes for granted that each has one. */
bool trimtab_is_for_cores(const double *base, const tt_point *point)
{
    KnobLevels levels[N_KNOBS];
    trimtab_knob_levels(base, levels);
    for (int i = 0; i < N_KNOBS; i++)
        if (i != WORKERS && point->level[i] != levels[i].base) return false;
    return point->level[WORKERS] == workers_with_cores(levels);
}

/* What an expert would try, the least risky first. */
void trimtab_add_hints(tt_tuner *tuner, const double *base)
{
    static const struct {
        int knob[3];
        double value[3];
    } plays[] = {
        {{JIT, -1, -1}, {0}},
        {{WORK_MEM, -1, -1}, {65536}},
        {{WORK_MEM, -1, -1}, {262144}},
        {{HASH_MEM, -1, -1}, {4}},
        {{IO, -1, -1}, {128}},
        {{WORKERS, SETUP, -1}, {4, 100}},
        {{PAGE_COST, -1, -1}, {1.1}},
        {{PAGE_COST, CACHE, -1}, {1.1, 1048576}},
        {{MEMOIZE, -1, -1}, {0}},
        {{HASHAGG, -1, -1}, {0}},
        {{MERGEJOIN, -1, -1}, {0}},
        {{HASHJOIN, -1, -1}, {0}},
        {{BITMAP, -1, -1}, {0}},
        {{NESTLOOP, -1, -1}, {0}},
    };
    KnobLevels levels[N_KNOBS];
    tt_point told;
    bool is_told = false;
    trimtab_knob_levels(base, levels);
    tt_default(&tuner->space, &told);
    for (int i = 0; i < N_KNOBS; i++)
        if (has_hint[i]) is_told |= lay(&told, levels, i, hints[i]);
    if (is_told) tt_hint(tuner, &told);
    if (workers_with_cores(levels) >= 0) {
        tt_point point;
        tt_default(&tuner->space, &point);
        point.level[WORKERS] = (int16)workers_with_cores(levels);
        tt_hint(tuner, &point);
    }
    for (int p = 0; p < (int)lengthof(plays); p++) {
        tt_point point;
        bool any = false;
        tt_default(&tuner->space, &point);
        for (int k = 0; k < 3 && plays[p].knob[k] >= 0; k++) any |= lay(&point, levels, plays[p].knob[k], plays[p].value[k]);
        if (any) tt_hint(tuner, &point);
    }
}

static void set(int knob, double value)
{
    char text[40];
    struct config_generic *guc = guc_of(&knobs[knob]);
    if (guc->vartype == PGC_BOOL) strlcpy(text, value != 0 ? "on" : "off", sizeof text);
    else snprintf(text, sizeof text, "%.15g", value);
    (void)set_config_option(knobs[knob].name, text, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, WARNING, false);
}

/* Whether a value of `point` is one that PostgreSQL multiplies what it estimates with. */
bool trimtab_has_costs(const double *base, const tt_point *point)
{
    KnobLevels levels[N_KNOBS];
    trimtab_knob_levels(base, levels);
    return point->level[PAGE_COST] != levels[PAGE_COST].base || point->level[SETUP] != levels[SETUP].base;
}

/* Adds the values that act while a plan runs to a hash, where they can matter: memory to what has written temporary files or counts on
   memory for more than its files, reading ahead to what has read. */
uint64 trimtab_mix_running(uint64 hash, const double *base, const tt_point *point, bool has_spilled, bool has_read)
{
    KnobLevels levels[N_KNOBS];
    double values[3];
    trimtab_knob_levels(base, levels);
    values[0] = has_spilled ? levels[WORK_MEM].value[point->level[WORK_MEM]] : 0;
    values[1] = has_spilled ? levels[HASH_MEM].value[point->level[HASH_MEM]] : 0;
    values[2] = has_read ? levels[IO].value[point->level[IO]] : 0;
    return hash_combine64(hash, hash_bytes_extended((const unsigned char *)values, sizeof values, 0));
}

/*
 * Sets what differs from the base, within a level of settings of its own; 0 when nothing does. `nudge`: a share of the way back to the
 * base for costs, 0 but for a look at a plan. trimtab_unapply takes it back; so
 * does the end of the (sub)transaction on an error: PostgreSQL's own way for functions with SET.
 */
int trimtab_apply(const double *base, const tt_point *point, bool executing, double nudge)
{
    KnobLevels levels[N_KNOBS];
    int level = 0;
    trimtab_knob_levels(base, levels);
    for (int i = 0; i < N_KNOBS; i++) {
        if (point->level[i] == levels[i].base || point->level[i] >= levels[i].n || guc_of(&knobs[i]) == NULL) continue;
        if (executing ? !knobs[i].in_run : !knobs[i].in_plan) continue;
        if (level == 0) level = NewGUCNestLevel();
        double value = levels[i].value[point->level[i]];
        set(i, i == PAGE_COST || i == SETUP ? value + nudge * (base[i] - value) : value);
    }
    return level;
}

/* The values that a parameter may have while a statement runs, in any steps; false where it is not to be changed. Values below the session's
   own need a range in trimtab.parameters. */
bool trimtab_knob_range(int knob, double base, double *low, double *high)
{
    const Knob *k = &knobs[knob];
    *low = k->low > -INFINITY ? k->low : k->only_more ? base : k->value[0];
    *high = k->high < INFINITY ? k->high : k->value[k->n - 1];
    return k->is_on && guc_of(&knobs[knob]) != NULL;
}

double trimtab_knob_risk(int knob)
{
    return knobs[knob].risk;
}

/* Within a level of settings that the caller has opened. */
void trimtab_knob_set(int knob, double value)
{
    set(knob, value);
}

/* For a statement inside one that runs with other values: it gets the session's own. */
int trimtab_apply_base(const double *base)
{
    int level = 0;
    for (int i = 0; i < N_KNOBS; i++) {
        if (guc_of(&knobs[i]) == NULL || value_of(&knobs[i]) == base[i]) continue;
        if (level == 0) level = NewGUCNestLevel();
        set(i, base[i]);
    }
    return level;
}

void trimtab_unapply(int level)
{
    if (level > 0) AtEOXact_GUC(true, level);
}

int trimtab_work_mem_factor(const double *base, const tt_point *point, double *work_mem_kb, double *multiplier)
{
    KnobLevels levels[N_KNOBS];
    trimtab_knob_levels(base, levels);
    *work_mem_kb = levels[WORK_MEM].value[point->level[WORK_MEM]];
    *multiplier = levels[HASH_MEM].value[point->level[HASH_MEM]];
    return (int)levels[WORKERS].value[point->level[WORKERS]];
}

/* One entry of trimtab.parameters, `name` or `name=low..high`. False with a detail when it makes no sense. */
static bool take_entry(char *entry, bool *is_on, double *low, double *high)
{
    char *range = strchr(entry, '='), *dots;
    int knob;
    if (range != NULL) *range++ = '\0';
    knob = trimtab_knob_index(entry);
    if (knob < 0) {
        GUC_check_errdetail("parameter=%s is not one that Trimtab sets.", entry);
        GUC_check_errhint("SELECT name FROM trimtab_parameters lists them.");
        return false;
    }
    is_on[knob] = true;
    if (range == NULL) return true;
    dots = strstr(range, "..");
    if (dots != NULL) *dots = '\0';
    if (dots == NULL || !trimtab_knob_parse(knob, range, &low[knob]) || !trimtab_knob_parse(knob, dots + 2, &high[knob]) ||
        low[knob] > high[knob]) {
        GUC_check_errdetail("parameter=%s has no range low..high.", entry);
        GUC_check_errhint("For example: work_mem=4MB..128MB.");
        return false;
    }
    return true;
}

typedef struct Choice {
    bool is_on[N_KNOBS];
    double low[N_KNOBS], high[N_KNOBS];
} Choice;

static bool choose(const char *text, Choice *choice)
{
    char *copy = pstrdup(text), *state = NULL;
    bool all = strcmp(text, "all") == 0;
    for (int i = 0; i < N_KNOBS; i++) {
        choice->is_on[i] = all;
        choice->low[i] = -INFINITY;
        choice->high[i] = INFINITY;
    }
    if (!all)
        for (char *entry = strtok_r(copy, ", ", &state); entry != NULL; entry = strtok_r(NULL, ", ", &state))
            if (!take_entry(entry, choice->is_on, choice->low, choice->high)) return false;
    pfree(copy);
    return true;
}

bool trimtab_check_parameters(char **newval, void **extra, GucSource source)
{
    Choice choice;
    return choose(*newval, &choice);
}

void trimtab_assign_parameters(const char *newval, void *extra)
{
    Choice choice;
    if (!choose(newval, &choice)) return;
    for (int i = 0; i < N_KNOBS; i++) {
        knobs[i].is_on = choice.is_on[i];
        knobs[i].low = choice.low[i];
        knobs[i].high = choice.high[i];
    }
    parameters_hash = DatumGetUInt32(hash_any((const unsigned char *)newval, (int)strlen(newval)));
}

/* `name=value, name=value`; false with a detail when it makes no sense. */
static bool read_hints(const char *text, bool *has, double *values)
{
    char *copy = pstrdup(text), *state = NULL;
    memset(has, 0, N_KNOBS * sizeof *has);
    for (char *entry = strtok_r(copy, ", ", &state); entry != NULL; entry = strtok_r(NULL, ", ", &state)) {
        char *value = strchr(entry, '=');
        int knob;
        if (value != NULL) *value++ = '\0';
        knob = trimtab_knob_index(entry);
        if (knob < 0 || value == NULL || !trimtab_knob_parse(knob, value, &values[knob])) {
            GUC_check_errdetail("parameter=%s value=%s is nothing that Trimtab can set.", entry, value != NULL ? value : "");
            GUC_check_errhint("SELECT * FROM trimtab_parameters lists parameters and values.");
            return false;
        }
        has[knob] = true;
    }
    pfree(copy);
    return true;
}

bool trimtab_check_hints(char **newval, void **extra, GucSource source)
{
    bool has[N_KNOBS];
    double values[N_KNOBS];
    return read_hints(*newval, has, values);
}

void trimtab_assign_hints(const char *newval, void *extra)
{
    bool has[N_KNOBS];
    double values[N_KNOBS] = {0};
    if (!read_hints(newval, has, values)) return;
    memcpy(has_hint, has, sizeof has_hint);
    memcpy(hints, values, sizeof hints);
}

uint32 trimtab_parameters_hash(void)
{
    return parameters_hash;
}
