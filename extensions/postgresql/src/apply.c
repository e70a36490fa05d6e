/* How the values of a statement are set and taken back. */
#include "knobs.h"

#include "common/hashfn.h"

/* For tests: `refuse=jit` in trimtab.test_cost. */
static bool is_refused_in_test(int knob)
{
    char entry[80];
    if (trimtab_test_cost[0] == '\0') return false;
    snprintf(entry, sizeof entry, "refuse=%s;", trimtab_knobs[knob].name);
    return strstr(trimtab_test_cost, entry) != NULL;
}

/* False if PostgreSQL refuses the value. */
static bool set(int knob, double value)
{
    char text[40];
    struct config_generic *guc = trimtab_guc_of(&trimtab_knobs[knob]);
    if (guc->vartype == PGC_BOOL) strlcpy(text, value != 0 ? "on" : "off", sizeof text);
    else snprintf(text, sizeof text, "%.15g", value);
    if (is_refused_in_test(knob)) return false;
    return set_config_option(trimtab_knobs[knob].name, text, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, DEBUG1, false) > 0;
}

/* Within a level of settings that the caller has opened; false if PostgreSQL refuses the value. */
bool trimtab_knob_set(int knob, double value)
{
    return set(knob, value);
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
 * Sets what differs from the base, within a level of settings of its own; 0 when nothing does, and -1, with nothing set, when PostgreSQL
 * refuses a value. `nudge`: a share of the way back to the base for costs, 0 but for a look at a plan. trimtab_unapply takes it back; so
 * does the end of the (sub)transaction on an error: PostgreSQL's own way for functions with SET.
 */
int trimtab_apply(const double *base, const tt_point *point, bool executing, double nudge)
{
    KnobLevels levels[N_KNOBS];
    int level = 0;
    trimtab_knob_levels(base, levels);
    for (int i = 0; i < N_KNOBS; i++) {
        if (point->level[i] == levels[i].base || point->level[i] >= levels[i].n || trimtab_guc_of(&trimtab_knobs[i]) == NULL) continue;
        if (executing ? !trimtab_knobs[i].in_run : !trimtab_knobs[i].in_plan) continue;
        if (level == 0) level = NewGUCNestLevel();
        double value = levels[i].value[point->level[i]];
        if (set(i, i == PAGE_COST || i == SETUP ? value + nudge * (base[i] - value) : value)) continue;
        trimtab_unapply(level);
        return -1;
    }
    return level;
}

/* For a statement inside one that runs with other values: it gets the session's own. */
int trimtab_apply_base(const double *base)
{
    int level = 0;
    for (int i = 0; i < N_KNOBS; i++) {
        if (trimtab_guc_of(&trimtab_knobs[i]) == NULL || trimtab_value_of(&trimtab_knobs[i]) == base[i]) continue;
        if (level == 0) level = NewGUCNestLevel();
        (void)set(i, base[i]); /* which the session has */
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
