/* The settings of the extension, and how it comes into a server or a session. */
#include "trimtab.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/plancache.h"
#include "utils/wait_event.h"

#include <math.h>

PG_MODULE_MAGIC;

int trimtab_mode = MODE_OBSERVE;
double trimtab_budget = 2, trimtab_server_budget = 2, trimtab_min_duration = 5, trimtab_min_gain = 3, trimtab_max_ratio = 1.5;
int trimtab_memory_limit_kb = 262144, trimtab_inside_tuples = 200000, trimtab_inside = INSIDE_OFF;
bool trimtab_allow_locks = false, trimtab_allow_volatile = false, trimtab_allow_order = false;
bool trimtab_allow_writes = false, trimtab_allow_serializable = false;
char *trimtab_parameters = NULL, *trimtab_hints = NULL, *trimtab_file = NULL, *trimtab_test_cost = NULL;

static const struct config_enum_entry modes[] = {
    {"off", MODE_OFF, false}, {"observe", MODE_OBSERVE, false}, {"tune", MODE_TUNE, false}, {NULL, 0, false}};

static const struct config_enum_entry insides[] = {
    {"off", INSIDE_OFF, false}, {"on", INSIDE_ON, false}, {"alone", INSIDE_ALONE, false}, {NULL, 0, false}};

void _PG_init(void);

static bool is_loaded = false;

/* Without a mode there are no hooks. Once there they stay: whoever came later may call them. Plans that PostgreSQL keeps may have been made
   with other values: when tuning ends they are made again. */
static void assign_mode(int new_mode, void *extra)
{
    if (is_loaded && new_mode != MODE_OFF) trimtab_install_hooks();
    if (trimtab_mode == MODE_TUNE && new_mode != MODE_TUNE && IsUnderPostmaster) ResetPlanCache();
}

/*
 * For tests: what a statement "took", by the values it ran with and not by a clock. `base=100;work_mem=65536:0.5;jit=0:1.1` says 100 ms,
 * half of it from 64 MB of work_mem on, 1.1 times with jit at 0 (exactly, for settings that are on or off). `stop=1` lets probes be
 * stopped; `cancel=1` and `cancel=2` cancel the statement, as a user would, right after its probe was to be stopped, and was.
 * `refuse=jit;` refuses to set jit. `wait=...` at its end, see trimtab_test_wait.
 */
double trimtab_test_time(const double *base, const double *values)
{
    char *copy = pstrdup(trimtab_test_cost), *state = NULL;
    double ms = 1;
    for (char *entry = strtok_r(copy, ";", &state); entry != NULL; entry = strtok_r(NULL, ";", &state)) {
        char *value = strchr(entry, '='), *factor = strchr(entry, ':');
        if (value == NULL) continue;
        *value++ = '\0';
        if (factor != NULL && values != NULL) {
            int knob = trimtab_knob_index(entry);
            double here = knob < 0 ? NAN : values[knob];
            *factor++ = '\0';
            if (knob >= 0 && here != base[knob] && (here == atof(value) || (atof(value) > 1 && here > atof(value)))) ms *= atof(factor);
        } else if (factor == NULL && strcmp(entry, "plan") != 0 && strcmp(entry, "cancel") != 0 && strcmp(entry, "wait") != 0 &&
                   strcmp(entry, "refuse") != 0)
            ms *= atof(value);
    }
    pfree(copy);
    return ms;
}

/* The same of a class's point; NULL: with the session's own values. */
double trimtab_test_ms(const double *base, const tt_point *point)
{
    KnobLevels levels[N_KNOBS];
    double values[N_KNOBS];
    if (point == NULL) return trimtab_test_time(base, NULL);
    trimtab_knob_levels(base, levels);
    for (int i = 0; i < N_KNOBS; i++) values[i] = levels[i].value[point->level[i]];
    return trimtab_test_time(base, values);
}

/* For tests: what planning "took", from the entry `plan=2`; without one no plans are compared, because only values have a price then. */
double trimtab_test_plan_ms(void)
{
    const char *entry = strstr(trimtab_test_cost, "plan=");
    return entry != NULL ? atof(entry + 5) : 0;
}

/* For tests: the entry `wait=where` holds a statement there, and pg_stat_activity shows it as waiting, until it is cancelled or killed. */
void trimtab_test_wait(const char *where)
{
    const char *entry = strstr(trimtab_test_cost, "wait=");
    if (entry == NULL || strcmp(entry + 5, where) != 0) return;
    for (;;) {
        (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000, PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
    }
}

static void define_limits(void)
{
    DefineCustomRealVariable("trimtab.budget", "Share of a class's time that probing may lose, in percent.", NULL, &trimtab_budget, 2, 0.01,
                             50, PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomRealVariable("trimtab.server_budget", "Share of the time of all classes that probing may lose, in percent.", NULL,
                             &trimtab_server_budget, 2, 0.01, 50, PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomRealVariable("trimtab.min_duration", "Statements with a smaller mean time are left alone.", "In milliseconds.",
                             &trimtab_min_duration, 5, 0.01, 1e6, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
    DefineCustomRealVariable("trimtab.min_gain", "A smaller gain is not worth a change, in percent.", NULL, &trimtab_min_gain, 3, 0.1, 100,
                             PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomRealVariable("trimtab.max_ratio", "A probe slower than this times what is used is not repeated.", NULL, &trimtab_max_ratio,
                             1.5, 1.05, 10, PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomIntVariable("trimtab.memory_limit", "Memory that all backends together may use beyond their own settings.", NULL,
                            &trimtab_memory_limit_kb, 262144, 0, INT_MAX, PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
    DefineCustomIntVariable("trimtab.inside_tuples", "Tuples of a section inside a statement.", NULL, &trimtab_inside_tuples, 200000, 1000,
                            INT_MAX, PGC_SUSET, 0, NULL, NULL, NULL);
}

static void define_permission(const char *name, const char *what, bool *is_allowed)
{
    DefineCustomBoolVariable(name, what, NULL, is_allowed, false, PGC_SUSET, 0, NULL, NULL, NULL);
}

static void define_permissions(void)
{
    define_permission("trimtab.allow_locks", "Touch statements that lock rows, and those of sessions that hold locks.", &trimtab_allow_locks);
    define_permission("trimtab.allow_volatile", "Touch statements that call volatile functions.", &trimtab_allow_volatile);
    define_permission("trimtab.allow_order", "Touch statements whose answer may depend on the plan.", &trimtab_allow_order);
    define_permission("trimtab.allow_writes", "Touch statements that write, and those after them in a transaction.", &trimtab_allow_writes);
    define_permission("trimtab.allow_serializable", "Touch statements in serializable transactions.", &trimtab_allow_serializable);
    DefineCustomEnumVariable("trimtab.inside", "Tune sections inside running statements too (on), or nothing but them (alone).", NULL,
                             &trimtab_inside, INSIDE_OFF, insides, PGC_SUSET, 0, NULL, NULL, NULL);
}

static void define_settings(void)
{
    DefineCustomEnumVariable("trimtab.mode", "off, observe or tune.", NULL, &trimtab_mode, MODE_OBSERVE, modes, PGC_SUSET, 0, NULL,
                             assign_mode, NULL);
    define_limits();
    define_permissions();
    DefineCustomStringVariable("trimtab.parameters", "A list of all, name, name=low..high and -name.", NULL, &trimtab_parameters, "all",
                               PGC_SUSET, 0, trimtab_check_parameters, trimtab_assign_parameters, NULL);
    DefineCustomStringVariable("trimtab.hints", "Settings that each new class tries first: name=value, name=value.", NULL, &trimtab_hints,
                               "", PGC_SUSET, 0, trimtab_check_hints, trimtab_assign_hints, NULL);
    DefineCustomStringVariable("trimtab.file", "File of what is known, in the data directory; empty: none.", NULL, &trimtab_file,
                               TRIMTAB_FILE, PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomStringVariable("trimtab.test_cost", "For tests: time by values and not by a clock.", NULL, &trimtab_test_cost, "", PGC_SUSET,
                               GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
    MarkGUCPrefixReserved("trimtab");
}

void _PG_init(void)
{
    define_settings();
    if (process_shared_preload_libraries_in_progress) trimtab_request();
#if PG_VERSION_NUM < 170000
    else if (IsTransactionState())
        ereport(NOTICE, (errmsg("trimtab learns in this session only"),
                         errhint("For knowledge that all sessions share, add trimtab to shared_preload_libraries and restart the server.")));
#endif
    if (trimtab_mode != MODE_OFF) trimtab_install_hooks();
    trimtab_install_explain();
    is_loaded = true;
}
