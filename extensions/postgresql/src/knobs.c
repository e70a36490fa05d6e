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
#include "knobs.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include <math.h>
#include <sched.h>
#include <unistd.h>

Knob trimtab_knobs[N_KNOBS] = {
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
    /* Only the search reaches these, after all that an expert would try. */
    {"jit_above_cost", 0.20, true, false, false, 2, {10000, 100000}},
    {"jit_inline_above_cost", 0.15, true, false, false, 3, {-1, 0, 500000}},
    {"jit_optimize_above_cost", 0.15, true, false, false, 3, {-1, 0, 500000}},
    {"enable_indexscan", 0.80, true, false, false, 2, {0, 1}},
    {"enable_indexonlyscan", 0.60, true, false, false, 2, {0, 1}},
    {"enable_seqscan", 1.00, true, false, false, 2, {0, 1}},
    {"enable_sort", 0.80, true, false, false, 2, {0, 1}},
    {"enable_material", 0.40, true, false, false, 2, {0, 1}},
    {"enable_incremental_sort", 0.50, true, false, false, 2, {0, 1}},
    {"enable_gathermerge", 0.50, true, false, false, 2, {0, 1}},
    {"enable_parallel_hash", 0.50, true, false, false, 2, {0, 1}},
};

static uint32 parameters_hash = 0;

/* trimtab.hints: what a study has proven for the whole server, tried first. */
static bool has_hint[N_KNOBS];
static double hints[N_KNOBS];

struct config_generic *trimtab_guc_of(Knob *knob)
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

double trimtab_value_of(Knob *knob)
{
    struct config_generic *guc = trimtab_guc_of(knob);
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
    for (int i = 0; i < N_KNOBS; i++) values[i] = trimtab_value_of(&trimtab_knobs[i]);
}

/* Whether the user, or the program that connected, has set one of the parameters for this session or transaction. */
bool trimtab_has_own_set(void)
{
    for (int i = 0; i < N_KNOBS; i++) {
        struct config_generic *guc = trimtab_guc_of(&trimtab_knobs[i]);
        if (trimtab_knobs[i].is_on && guc != NULL && guc->source >= PGC_S_CLIENT) return true;
    }
    return false;
}

/* ALTER ROLE or ALTER DATABASE has set it: it keeps that value. */
static bool is_locked(Knob *knob)
{
    struct config_generic *guc = trimtab_guc_of(knob);
    return guc != NULL && guc->source >= PGC_S_GLOBAL && guc->source < PGC_S_CLIENT;
}

/* Which parameters may vary in this session, as a number: sessions that differ in it know different classes. */
uint32 trimtab_choice_hash(void)
{
    uint32 locked = 0;
    for (int i = 0; i < N_KNOBS; i++)
        if (is_locked(&trimtab_knobs[i])) locked |= 1u << i;
    return locked == 0 ? parameters_hash : hash_combine(parameters_hash, murmurhash32(locked));
}

const char *trimtab_knob_name(int knob)
{
    return trimtab_knobs[knob].name;
}

int trimtab_knob_index(const char *name)
{
    for (int i = 0; i < N_KNOBS; i++)
        if (pg_strcasecmp(trimtab_knobs[i].name, name) == 0) return i;
    return -1;
}

char *trimtab_knob_text(int knob, double value)
{
    struct config_generic *guc = trimtab_guc_of(&trimtab_knobs[knob]);
    if (guc != NULL && guc->vartype == PGC_BOOL) return pstrdup(value != 0 ? "on" : "off");
    return psprintf("%.15g", value);
}

bool trimtab_knob_parse(int knob, const char *text, double *value)
{
    struct config_generic *guc = trimtab_guc_of(&trimtab_knobs[knob]);
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
    return knob != &trimtab_knobs[WORKERS] || value <= max_parallel_workers;
}

/* The values of each knob in order, the session's own among them. */
void trimtab_knob_levels(const double *base, KnobLevels *levels)
{
    for (int i = 0; i < N_KNOBS; i++) {
        Knob *knob = &trimtab_knobs[i];
        KnobLevels *l = &levels[i];
        bool placed = false, is_free = knob->is_on && !is_locked(knob);
        l->n = 0;
        for (int v = 0; v < knob->n; v++) {
            if (!placed && base[i] <= knob->value[v]) {
                l->base = l->n;
                l->value[l->n++] = base[i];
                placed = true;
            }
            if (knob->value[v] != base[i] && is_free && is_allowed(knob, knob->value[v], base[i])) l->value[l->n++] = knob->value[v];
        }
        if (!placed) {
            l->base = l->n;
            l->value[l->n++] = base[i];
        }
    }
}

/* Whether levels that were read from a file are some that a session can have had; which of them it could have stands in the key. */
bool trimtab_are_levels(const double *base, const KnobLevels *levels)
{
    for (int i = 0; i < N_KNOBS; i++) {
        const KnobLevels *l = &levels[i];
        if (l->n < 1 || l->n > MAX_LEVELS || l->base < 0 || l->base >= l->n || l->value[l->base] != base[i]) return false;
        for (int at = 0; at < l->n; at++) {
            bool is_known = at == l->base;
            for (int v = 0; v < trimtab_knobs[i].n; v++) is_known |= l->value[at] == trimtab_knobs[i].value[v];
            if (!is_known || (at > 0 && l->value[at] <= l->value[at - 1])) return false;
        }
    }
    return true;
}

void trimtab_space_of(const KnobLevels *levels, tt_space *space)
{
    memset(space, 0, sizeof *space);
    space->n_params = N_KNOBS;
    for (int i = 0; i < N_KNOBS; i++) {
        space->param[i].n_levels = levels[i].n;
        space->param[i].default_level = levels[i].base;
        space->param[i].risk = trimtab_knobs[i].risk;
    }
}

void trimtab_make_space(const double *base, tt_space *space)
{
    KnobLevels levels[N_KNOBS];
    trimtab_knob_levels(base, levels);
    trimtab_space_of(levels, space);
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

/* The values that a parameter may have while a statement runs, in any steps; false where it is not to be changed. Values below the session's
   own need a range in trimtab.parameters. */
bool trimtab_knob_range(int knob, double base, double *low, double *high)
{
    Knob *k = &trimtab_knobs[knob];
    *low = k->low > -INFINITY ? k->low : k->only_more ? base : k->value[0];
    *high = k->high < INFINITY ? k->high : k->value[k->n - 1];
    return k->is_on && !is_locked(k) && trimtab_guc_of(k) != NULL;
}

double trimtab_knob_risk(int knob)
{
    return trimtab_knobs[knob].risk;
}

/* One entry of trimtab.parameters: `all`, `name`, `name=low..high` or `-name`. False with a detail when it makes no sense. */
static bool take_entry(char *entry, bool *is_on, double *low, double *high)
{
    bool is_out = entry[0] == '-';
    char *range = is_out ? NULL : strchr(entry, '='), *dots;
    int knob;
    if (strcmp(entry, "all") == 0) {
        memset(is_on, true, N_KNOBS * sizeof *is_on);
        return true;
    }
    if (range != NULL) *range++ = '\0';
    if (is_out) entry++;
    knob = trimtab_knob_index(entry);
    if (knob < 0) {
        GUC_check_errdetail("parameter=%s is not one that Trimtab sets.", entry);
        GUC_check_errhint("SELECT name FROM trimtab_parameters lists them.");
        return false;
    }
    is_on[knob] = !is_out;
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
    for (int i = 0; i < N_KNOBS; i++) {
        choice->is_on[i] = false;
        choice->low[i] = -INFINITY;
        choice->high[i] = INFINITY;
    }
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
        trimtab_knobs[i].is_on = choice.is_on[i];
        trimtab_knobs[i].low = choice.low[i];
        trimtab_knobs[i].high = choice.high[i];
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
