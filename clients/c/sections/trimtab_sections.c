/* Promises: see trimtab_sections.h. */
#define _POSIX_C_SOURCE 200809L
#include "trimtab_share.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEFAULT_RISK 0.25

static long value_at(const tt_param *p, int level)
{
    return p->values != NULL ? p->values[level] : p->low + level * p->step;
}

tt_group *tt_group_open(const char *path, tt_clock clock)
{
    tt_group *group = calloc(1, sizeof *group);
    const char *off = getenv("TRIMTAB_SECTIONS");
    if (group == NULL) return NULL;
    group->clock = clock != NULL ? clock : tt_monotonic;
    group->is_off = off != NULL && strcmp(off, "off") == 0;
    if (path != NULL && !group->is_off) group->block = tt_map(group, path);
    group->is_mapped = group->block != NULL;
    if (group->block == NULL) group->block = calloc(1, sizeof(tt_block));
    if (group->block == NULL) {
        free(group);
        return NULL;
    }
    return group;
}

const char *tt_group_error(const tt_group *group)
{
    return group->error;
}

void tt_group_close(tt_group *group)
{
    if (group == NULL) return;
    while (group->sections != NULL) {
        tt_section *section = group->sections;
        group->sections = section->next;
        for (int i = 0; i < section->n_params; i++) {
            free((void *)section->param[i].name);
            free((void *)section->param[i].values);
        }
        free(section->alone);
        free(section);
    }
    if (group->is_mapped) munmap(group->block, sizeof(tt_block));
    else free(group->block);
    free(group);
}

/* Names stand in JSON as they are. */
static bool is_name(const char *name)
{
    if (name == NULL || name[0] == '\0') return false;
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\' || *c == 127) return false;
    return true;
}

/* How many values it has, up to one more than there may be; the range can be as wide as a long. */
static long n_values_of(const tt_param *p)
{
    if (p->values != NULL) return p->n_values;
    if (p->step < 1 || p->high < p->low) return 0;
    unsigned long steps = ((unsigned long)p->high - (unsigned long)p->low) / (unsigned long)p->step;
    return steps < INT16_MAX ? (long)steps + 1 : INT16_MAX + 1L;
}

/* The levels of a parameter; 0 with a complaint when it makes no sense. */
static int levels_of(tt_group *group, const char *section, const tt_param *p, tt_param_space *space)
{
    long n = n_values_of(p);
    if (!is_name(p->name)) {
        tt_complain(group, "section=%s parameter=%s is no name\nhint: a name without quotes, backslashes and control characters", section,
                    p->name == NULL ? "" : p->name);
        return 0;
    }
    if (n > INT16_MAX) {
        tt_complain(group, "section=%s parameter=%s has more than %d values\nhint: a larger step", section, p->name, INT16_MAX);
        return 0;
    }
    if (n < 1) {
        tt_complain(group, "section=%s parameter=%s low=%ld high=%ld step=%ld has no range\nhint: low <= high, or a list of values",
                    section, p->name, p->low, p->high, p->step);
        return 0;
    }
    for (int level = 0; level < n; level++)
        if (value_at(p, level) == p->initial) {
            space->n_levels = (int32_t)n;
            space->default_level = level;
            space->risk = p->risk > 0 ? p->risk : DEFAULT_RISK;
            return (int)n;
        }
    tt_complain(group, "section=%s parameter=%s initial=%ld is not one of its values\nhint: low + k * step, or of the list", section,
                p->name, p->initial);
    return 0;
}

static bool copy_param(tt_param *to, const tt_param *from)
{
    *to = *from;
    to->name = strdup(from->name);
    if (from->values == NULL) return to->name != NULL;
    size_t bytes = sizeof(long) * (size_t)from->n_values;
    long *values = malloc(bytes);
    if (values != NULL) memcpy(values, from->values, bytes);
    to->values = values;
    return to->name != NULL && values != NULL;
}

static uint64_t fingerprint(const tt_section *section, const tt_space *space)
{
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (int i = 0; i < section->n_params; i++) {
        const tt_param *p = &section->param[i];
        for (const char *c = p->name; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
        for (int level = 0; level < space->param[i].n_levels; level++)
            hash = (hash ^ (uint64_t)value_at(p, level)) * 1099511628211ULL;
        hash = (hash ^ (uint64_t)p->initial) * 1099511628211ULL;
        if (p->kind == TT_CHOICE) hash = (hash ^ TT_CHOICE) * 1099511628211ULL;
    }
    return hash;
}

tt_section *tt_section_open(tt_group *group, const char *name, const tt_param *params, int n_params, const tt_options *options)
{
    if (group == NULL) return NULL;
    if (!is_name(name) || strlen(name) >= NAME_BYTES || n_params < 1 || n_params > TT_MAX_PARAMS) {
        tt_complain(group, "section=%s n_params=%d\nhint: 1 to %d parameters, a name below %d bytes without quotes, backslashes and control characters",
                    name == NULL ? "" : name, n_params, TT_MAX_PARAMS, NAME_BYTES);
        return NULL;
    }
    tt_section *section = calloc(1, sizeof *section);
    if (section == NULL) return NULL;
    section->group = group;
    section->next = group->sections;
    group->sections = section; /* closed with the group, whatever becomes of it */
    for (int i = 0; i < n_params; i++) {
        tt_param param = params[i];
        if (param.step == 0) param.step = 1;
        if (levels_of(group, name, &param, &section->space.param[i]) == 0) return NULL;
        section->n_params = i + 1;
        if (!copy_param(&section->param[i], &param)) return NULL;
        section->writes |= param.address != NULL || param.set != NULL;
        if (param.kind == TT_CHOICE) section->space.unordered |= 1U << i;
    }
    section->space.n_params = n_params;
    if (options != NULL) section->options = *options;
    tt_default(&section->space, &section->now);
    section->slot = tt_take_slot(section, name, fingerprint(section, &section->space));
    return section->slot == NULL ? NULL : section;
}

/* The tuner, locked; a tuner whose owner died in the middle of a call starts anew. NULL if it cannot be locked: the section is left. */
static tt_tuner *hold(tt_section *section)
{
    tt_tuner *tuner = &section->slot->tuner;
    enum tt_taken taken = __atomic_load_n(&section->is_left, __ATOMIC_RELAXED) ? TT_NOT_TAKEN : tt_take_lock(&section->slot->lock, tt_patience(section));
    if (taken == TT_STOLEN) tt_tuner_init(tuner, &section->space, &section->options);
    if (taken != TT_NOT_TAKEN) return tuner;
    if (__atomic_exchange_n(&section->is_left, 1, __ATOMIC_RELAXED) == 0)
        tt_complain(section->group, "section=%s is locked by process=%u in the file\nhint: it runs with the defaults; remove the file if that is no process of yours",
                    section->slot->name, (unsigned)section->slot->lock);
    return NULL;
}

/* One that only threads of this process hold, whose setters may take their time. */
static void lock_own(uint32_t *lock)
{
    (void)tt_take_lock(lock, UINT64_MAX);
}

static void release(tt_section *section)
{
    tt_unlock(&section->slot->lock);
}

static void write_values(tt_section *section, const tt_point *point)
{
    for (int i = 0; i < section->n_params; i++) {
        const tt_param *p = &section->param[i];
        long value = value_at(p, point->level[i]);
        if (p->address != NULL) *p->address = value;
        if (p->set != NULL && (section->now.level[i] != point->level[i])) p->set(p->context, value);
    }
    section->now = *point;
}

void tt_begin(tt_section *section, tt_run *run, double work)
{
    run->is_measured = 0;
    run->is_inside = 0;
    if (section == NULL) return;
    if (section->group->is_off) {
        tt_default(&section->space, &run->ticket.point);
        return;
    }
    if (section->writes) {
        lock_own(&section->lock);
        run->is_inside = 1;
        if (section->n_inside++ > 0) {
            run->ticket.point = section->now;
            tt_unlock(&section->lock);
            return;
        }
    }
    tt_tuner *tuner = hold(section);
    if (tuner == NULL) {
        tt_default(&section->space, &run->ticket.point);
    } else {
        tt_next(tuner, work, &run->ticket);
        release(section);
    }
    if (section->writes) {
        write_values(section, &run->ticket.point);
        tt_unlock(&section->lock);
    }
    run->is_measured = tuner != NULL;
    run->began_ns = section->group->clock();
}

long tt_value(const tt_section *section, const tt_run *run, int index)
{
    return section == NULL || index < 0 || index >= section->n_params ? 0 : value_at(&section->param[index], run->ticket.point.level[index]);
}

static void leave(tt_section *section, tt_run *run)
{
    if (!run->is_inside) return;
    run->is_inside = 0;
    lock_own(&section->lock);
    section->n_inside--;
    tt_unlock(&section->lock);
}

void tt_end(tt_section *section, tt_run *run, double work)
{
    uint64_t time = run->is_measured ? section->group->clock() - run->began_ns : 0;
    tt_tuner *tuner = run->is_measured ? hold(section) : NULL;
    if (tuner != NULL) {
        tt_tell(tuner, &run->ticket, (double)time, work);
        release(section);
    }
    run->is_measured = 0;
    leave(section, run);
}

void tt_cancel(tt_section *section, tt_run *run)
{
    uint64_t time = run->is_measured ? section->group->clock() - run->began_ns : 0;
    tt_tuner *tuner = run->is_measured ? hold(section) : NULL;
    if (tuner != NULL) {
        tt_abandon(tuner, &run->ticket, (double)time);
        release(section);
    }
    run->is_measured = 0;
    leave(section, run);
}

void tt_section_tuner(tt_section *section, tt_tuner *copy)
{
    if (section == NULL) {
        memset(copy, 0, sizeof *copy);
        return;
    }
    const tt_tuner *tuner = hold(section);
    if (tuner == NULL) {
        tt_tuner_init(copy, &section->space, &section->options);
        return;
    }
    *copy = *tuner;
    release(section);
}

typedef struct text {
    char *out;
    size_t size, used;
} text;

static void put(text *to, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    bool has_room = to->used < to->size;
    int n = vsnprintf(has_room ? to->out + to->used : NULL, has_room ? to->size - to->used : 0, format, words);
    va_end(words);
    to->used += n > 0 ? (size_t)n : 0;
}

/* `"name": number` and what follows; with a point, whatever the program's locale writes between the digits. */
static void put_number(text *to, const char *name, const char *format, double value, const char *after)
{
    char number[64];
    const char *point = localeconv()->decimal_point;
    snprintf(number, sizeof number, format, value);
    char *found = strstr(number, point);
    if (found != NULL && strcmp(point, ".") != 0) {
        const char *digits = found + strlen(point);
        *found = '.';
        memmove(found + 1, digits, strlen(digits) + 1);
    }
    put(to, "\"%s\": %s%s", name, number, after);
}

static void put_values(text *to, const tt_section *section, const char *name, const tt_point *point)
{
    put(to, "\"%s\": {", name);
    for (int i = 0; i < section->n_params; i++)
        put(to, "%s\"%s\": %ld", i > 0 ? ", " : "", section->param[i].name, value_at(&section->param[i], point->level[i]));
    put(to, "}, ");
}

static void put_choices(text *to, const tt_section *section)
{
    const char *comma = "";
    put(to, "\"choices\": [");
    for (int i = 0; i < section->n_params; i++) {
        if (section->param[i].kind != TT_CHOICE) continue;
        put(to, "%s\"%s\"", comma, section->param[i].name);
        comma = ", ";
    }
    put(to, "], ");
}

int tt_section_json(tt_section *section, char *out, size_t size)
{
    static const char *const phases[] = {"watching", "searching", "proving", "settled", "pinned"};
    text to = {out, size, 0};
    tt_tuner t;
    tt_point defaults;
    double low, high, gain;
    if (section == NULL) {
        if (size > 0) out[0] = '\0';
        return 0;
    }
    tt_section_tuner(section, &t);
    gain = tt_proven_gain(&t, &low, &high);
    tt_default(&section->space, &defaults);
    put(&to, "{\"kind\": \"trimtab section\", \"schema_version\": 1, \"section\": \"%s\", \"phase\": \"%s\", ", section->slot->name, phases[t.phase]);
    put(&to, "\"runs\": %llu, \"probes\": %llu, ", (unsigned long long)t.account.n_runs, (unsigned long long)t.account.n_probes);
    put_values(&to, section, "defaults", &defaults);
    put_values(&to, section, "values", &t.best);
    put_choices(&to, section);
    put_number(&to, "default_ns", "%.6g", t.base.n > 0 ? exp(t.base.mean) : 0, ", ");
    put_number(&to, "gain", "%.4f", gain, ", ");
    put_number(&to, "gain_low", "%.4f", low, ", ");
    put_number(&to, "gain_high", "%.4f", high, ", \"account_s\": {");
    put_number(&to, "total", "%.6f", t.account.total / 1e9, ", ");
    put_number(&to, "probe_loss", "%.6f", t.account.probe_loss / 1e9, ", ");
    put_number(&to, "kept_loss", "%.6f", t.account.kept_loss / 1e9, ", ");
    put_number(&to, "gained", "%.6f", t.account.gained / 1e9, "}}");
    return (int)to.used;
}
