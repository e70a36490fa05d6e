/* The SQL functions: what is known as rows and as JSON; reset, pin, forget, save. Names and numbers only, never a statement's text. */
#include "trimtab.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include <math.h>

#if PG_VERSION_NUM < 160000 && !defined(InitMaterializedSRF)
#define InitMaterializedSRF(fcinfo, flags) SetSingleFuncCall(fcinfo, flags)
#endif

PG_FUNCTION_INFO_V1(trimtab_sections);
PG_FUNCTION_INFO_V1(trimtab_history);
PG_FUNCTION_INFO_V1(trimtab_parameter_list);
PG_FUNCTION_INFO_V1(trimtab_status);
PG_FUNCTION_INFO_V1(trimtab_reset);
PG_FUNCTION_INFO_V1(trimtab_forget);
PG_FUNCTION_INFO_V1(trimtab_pin);
PG_FUNCTION_INFO_V1(trimtab_export);
PG_FUNCTION_INFO_V1(trimtab_save_now);

static const char *const phases[] = {"watching", "searching", "proving", "settled", "pinned"};
static const char *const kinds[] = {"probe", "faster", "kept own values", "environment changed", "probe failed", "pinned", "plans compared", "probe stopped"};

static Shared *must_share(void)
{
    Shared *shared = trimtab_shared();
    if (shared == NULL && trimtab_no_memory()[0] != '\0')
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("trimtab learns nothing in this session, for want of memory: %s", trimtab_no_memory()), errhint(TRIMTAB_MEMORY_HINT)));
    if (shared == NULL)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the shared memory of trimtab is another version's"), errhint("Restart the server.")));
    return shared;
}

/* `name=value` of what differs from the session's own values. */
char *trimtab_changes(const Class *class, const tt_point *point)
{
    StringInfoData text;
    const KnobLevels *levels = class->levels;
    initStringInfo(&text);
    for (int i = 0; i < N_KNOBS; i++)
        if (point->level[i] != levels[i].base && point->level[i] < levels[i].n)
            appendStringInfo(&text, "%s%s=%s", text.len > 0 ? ", " : "", trimtab_knob_name(i),
                             trimtab_knob_text(i, levels[i].value[point->level[i]]));
    return text.data;
}

/* A copy of all classes, so that nothing is formatted under the lock. */
static Class *copy_classes(Shared *shared)
{
    Class *copy = palloc(sizeof shared->class);
    LWLockAcquire(&shared->lock, LW_SHARED);
    memcpy(copy, shared->class, sizeof shared->class);
    LWLockRelease(&shared->lock);
    return copy;
}

Datum trimtab_sections(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
    Class *classes = copy_classes(must_share());
    InitMaterializedSRF(fcinfo, 0);
    for (int i = 0; i < N_CLASSES; i++) {
        const Class *c = &classes[i];
        const tt_account *a = &c->tuner.account;
        double low, high, gain = tt_proven_gain(&c->tuner, &low, &high);
        bool is_measured = c->tuner.base.n > 0;
        Datum values[22];
        bool nulls[22] = {false};
        int n = 0;
        if (!c->is_used) continue;
        values[n++] = Int64GetDatum(i);
        values[n++] = Int64GetDatum((int64)c->key.query_id);
        values[n++] = ObjectIdGetDatum(c->key.database);
        values[n++] = ObjectIdGetDatum(c->key.role);
        values[n++] = Int32GetDatum((int32)c->key.size);
        values[n++] = CStringGetTextDatum(phases[c->tuner.phase]);
        values[n++] = CStringGetTextDatum(trimtab_left_text(c->left));
        values[n++] = Int64GetDatum(c->calls);
        values[n++] = Int64GetDatum((int64)a->n_probes);
        nulls[n] = !is_measured;
        values[n++] = Float8GetDatum(is_measured ? exp(c->tuner.base.mean) : 0);
        values[n++] = CStringGetTextDatum(trimtab_changes(c, &c->tuner.best));
        values[n++] = Float8GetDatum(gain);
        values[n++] = Float8GetDatum(low);
        values[n++] = Float8GetDatum(high);
        values[n++] = Float8GetDatum(a->total);
        values[n++] = Float8GetDatum(a->probe_loss + a->kept_loss);
        values[n++] = Float8GetDatum(a->gained);
        values[n++] = Float8GetDatum(tt_headroom(&c->tuner));
        values[n++] = TimestampTzGetDatum(c->last_at);
        values[n++] = Int32GetDatum(c->tuner.n_screened);
        values[n++] = Int32GetDatum(c->tuner.n_same);
        values[n++] = Float8GetDatum(a->screening);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    return (Datum)0;
}

Datum trimtab_history(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
    Shared *shared = must_share();
    Event *events = palloc(sizeof shared->event);
    int64 n_events;
    LWLockAcquire(&shared->lock, LW_SHARED);
    memcpy(events, shared->event, sizeof shared->event);
    n_events = shared->n_events;
    LWLockRelease(&shared->lock);
    InitMaterializedSRF(fcinfo, 0);
    for (int64 i = Max(0, n_events - N_EVENTS); i < n_events; i++) {
        const Event *e = &events[i % N_EVENTS];
        StringInfoData text;
        Datum values[6];
        bool nulls[6] = {false};
        initStringInfo(&text);
        if (e->kind == EVENT_LOOKED) appendStringInfo(&text, "%d of %d: same plan", e->n_same, e->n_looks);
        for (int k = 0; k < e->n_changed; k++)
            appendStringInfo(&text, "%s%s=%s", k > 0 ? ", " : "", trimtab_knob_name(e->knob[k]), trimtab_knob_text(e->knob[k], e->value[k]));
        values[0] = TimestampTzGetDatum(e->at);
        values[1] = Int64GetDatum((int64)e->key.query_id);
        values[2] = CStringGetTextDatum(kinds[e->kind]);
        values[3] = CStringGetTextDatum(text.data);
        values[4] = Float8GetDatum(e->time_ms);
        values[5] = Float8GetDatum(e->base_ms);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    return (Datum)0;
}

Datum trimtab_parameter_list(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
    double base[N_KNOBS];
    KnobLevels levels[N_KNOBS];
    InitMaterializedSRF(fcinfo, 0);
    trimtab_knob_values(base);
    trimtab_knob_levels(base, levels);
    for (int i = 0; i < N_KNOBS; i++) {
        StringInfoData text;
        Datum values[3];
        bool nulls[3] = {false};
        initStringInfo(&text);
        for (int l = 0; l < levels[i].n; l++) appendStringInfo(&text, "%s%s", l > 0 ? " " : "", trimtab_knob_text(i, levels[i].value[l]));
        values[0] = CStringGetTextDatum(trimtab_knob_name(i));
        values[1] = CStringGetTextDatum(trimtab_knob_text(i, base[i]));
        values[2] = CStringGetTextDatum(text.data);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    return (Datum)0;
}

Datum trimtab_status(PG_FUNCTION_ARGS)
{
    Shared *shared = must_share();
    TupleDesc row;
    char problem[sizeof shared->file_problem];
    double ms[3];
    int64 memory_kb;
    Datum values[8];
    bool nulls[8] = {false};
    int n = 0;
    if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE) elog(ERROR, "return type must be a row type");
    LWLockAcquire(&shared->lock, LW_SHARED);
    for (int i = 0; i < N_CLASSES; i++) n += shared->class[i].is_used;
    memory_kb = shared->memory_kb;
    ms[0] = shared->total_ms;
    ms[1] = shared->loss_ms;
    ms[2] = shared->gained_ms;
    strlcpy(problem, trimtab_file_problem(shared), sizeof problem);
    LWLockRelease(&shared->lock);
    values[0] = CStringGetTextDatum(TRIMTAB_VERSION);
    values[1] = CStringGetTextDatum(trimtab_where());
    values[2] = CStringGetTextDatum(problem);
    values[3] = Int32GetDatum(n);
    values[4] = Int64GetDatum(memory_kb);
    for (int i = 0; i < 3; i++) values[5 + i] = Float8GetDatum(ms[i]);
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls)));
}

/* What is known of all classes is thrown away, also in the file. */
Datum trimtab_reset(PG_FUNCTION_ARGS)
{
    Shared *shared = must_share();
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    memset(shared->class, 0, sizeof shared->class);
    memset(shared->hash, 0, sizeof shared->hash);
    shared->n_events = 0;
    shared->total_ms = shared->loss_ms = shared->gained_ms = 0;
    shared->changes++;
    LWLockRelease(&shared->lock);
    trimtab_save(shared, LOG);
    PG_RETURN_VOID();
}

/* How many classes of that query id were forgotten. */
Datum trimtab_forget(PG_FUNCTION_ARGS)
{
    Shared *shared = must_share();
    uint64 query_id = (uint64)PG_GETARG_INT64(0);
    int n = 0;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    for (int i = 0; i < N_CLASSES; i++)
        if (shared->class[i].is_used && shared->class[i].key.query_id == query_id) {
            memset(&shared->class[i], 0, sizeof shared->class[i]);
            n++;
        }
    shared->changes++;
    LWLockRelease(&shared->lock);
    PG_RETURN_INT32(n);
}

/* The levels of `name=value, name=value`; an error names what cannot be. */
static void parse_point(char *text, const Class *class, tt_point *point)
{
    const KnobLevels *levels = class->levels;
    char *state = NULL;
    tt_default(&class->tuner.space, point);
    for (char *entry = strtok_r(text, ", ", &state); entry != NULL; entry = strtok_r(NULL, ", ", &state)) {
        char *value = strchr(entry, '=');
        double number = 0;
        int knob, found = -1;
        if (value != NULL) *value++ = '\0';
        knob = trimtab_knob_index(entry);
        if (knob < 0 || value == NULL || !trimtab_knob_parse(knob, value, &number))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("cannot pin parameter=%s value=%s", entry, value ? value : ""),
                            errhint("SELECT * FROM trimtab_parameters lists parameters and values.")));
        for (int l = 0; l < levels[knob].n; l++)
            if (fabs(levels[knob].value[l] - number) < 1e-9) found = l;
        if (found < 0)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("parameter=%s has no value=%s to pin", entry, value),
                            errhint("SELECT * FROM trimtab_parameters lists parameters and values.")));
        point->level[knob] = (int16)found;
    }
}

/* Every class of that query id keeps these values from now on, until forgotten or reset; '' pins the session's own. */
Datum trimtab_pin(PG_FUNCTION_ARGS)
{
    Shared *shared = must_share();
    uint64 query_id = (uint64)PG_GETARG_INT64(0);
    Class *classes = copy_classes(shared);
    int n = 0;
    for (int i = 0; i < N_CLASSES; i++) {
        tt_point point;
        if (!classes[i].is_used || classes[i].key.query_id != query_id) continue;
        parse_point(text_to_cstring(PG_GETARG_TEXT_PP(1)), &classes[i], &point);
        LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
        if (memcmp(&shared->class[i].key, &classes[i].key, sizeof classes[i].key) == 0 && tt_pin(&shared->class[i].tuner, &point)) {
            trimtab_record(shared, &shared->class[i], EVENT_PINNED, &point, 0);
            n++;
        }
        shared->changes++;
        LWLockRelease(&shared->lock);
    }
    PG_RETURN_INT32(n);
}

static void add_class(StringInfo out, const Class *c)
{
    const tt_account *a = &c->tuner.account;
    const KnobLevels *levels = c->levels;
    double low, high, gain = tt_proven_gain(&c->tuner, &low, &high);
    bool any = false;
    appendStringInfo(out, "{\"query_id\": \"%lld\", \"database\": %u, \"role\": %u, \"size\": %u, \"phase\": \"%s\", \"left_alone\": \"%s\", ",
                     (long long)c->key.query_id, c->key.database, c->key.role, c->key.size, phases[c->tuner.phase],
                     trimtab_left_text(c->left));
    appendStringInfo(out, "\"plans_compared\": %d, \"same_plan\": %d, \"planning_ms\": %.6g, ", c->tuner.n_screened, c->tuner.n_same, a->screening);
    appendStringInfo(out, "\"calls\": %lld, \"probes\": %llu, \"base_ms\": %.6g, \"gain\": %.6g, \"gain_low\": %.6g, \"gain_high\": %.6g, ",
                     (long long)c->calls, (unsigned long long)a->n_probes, c->tuner.base.n > 0 ? exp(c->tuner.base.mean) : 0.0, gain, low, high);
    appendStringInfo(out, "\"total_ms\": %.6g, \"loss_ms\": %.6g, \"gained_ms\": %.6g, \"settings\": {", a->total,
                     a->probe_loss + a->kept_loss, a->gained);
    for (int i = 0; i < N_KNOBS; i++) {
        if (c->tuner.best.level[i] == levels[i].base || c->tuner.best.level[i] >= levels[i].n) continue;
        appendStringInfo(out, "%s\"%s\": \"%s\"", any ? ", " : "", trimtab_knob_name(i),
                         trimtab_knob_text(i, levels[i].value[c->tuner.best.level[i]]));
        any = true;
    }
    appendStringInfoString(out, "}, \"own\": {");
    for (int i = 0; i < N_KNOBS; i++)
        appendStringInfo(out, "%s\"%s\": \"%s\"", i > 0 ? ", " : "", trimtab_knob_name(i), trimtab_knob_text(i, c->base_values[i]));
    appendStringInfoString(out, "}}");
}

Datum trimtab_export(PG_FUNCTION_ARGS)
{
    Class *classes = copy_classes(must_share());
    StringInfoData out;
    bool any = false;
    initStringInfo(&out);
    appendStringInfo(&out, "{\"schema_version\": 1, \"kind\": \"trimtab sections\", \"server_version\": %d, \"classes\": [", PG_VERSION_NUM);
    for (int i = 0; i < N_CLASSES; i++)
        if (classes[i].is_used) {
            appendStringInfoString(&out, any ? ", " : "");
            add_class(&out, &classes[i]);
            any = true;
        }
    appendStringInfoString(&out, "]}");
    PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}

Datum trimtab_save_now(PG_FUNCTION_ARGS)
{
    PG_RETURN_BOOL(trimtab_save(must_share(), WARNING));
}
