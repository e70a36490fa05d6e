/*
 * trimtab_sections.h: a program that tunes itself while it works.
 *
 * A section is a piece of work that runs often; its parameters are the integers that may change how fast it runs and must not
 * change what comes out. Between tt_begin and tt_end the library measures; what it sets is what it has proven faster, the
 * default, or now and then a probe; all probing together loses no more than a share of the time (tt_options.budget, 2 %).
 *
 *     static long cutoff = 16;
 *     const tt_param params[] = {{.name = "cutoff", .low = 4, .high = 256, .step = 4, .initial = 16, .address = &cutoff}};
 *     tt_group *group = tt_group_open(NULL, NULL);
 *     tt_section *sort = tt_section_open(group, "sort", params, 1, NULL);
 *     ...
 *     tt_run run;
 *     tt_begin(sort, &run, n);
 *     sort_with_cutoff(data, n);
 *     tt_end(sort, &run, n);
 *
 * C99 and POSIX, no other library than libm. Nothing here fails a program: whatever goes wrong leaves the defaults in place, and
 * tt_group_error says what it was. With TRIMTAB_SECTIONS=off in the environment every run uses the defaults and nothing is kept.
 */
#ifndef TRIMTAB_SECTIONS_H
#define TRIMTAB_SECTIONS_H

#include "trimtab_tuner.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tt_param_kind { TT_ORDERED = 0, TT_CHOICE };

/* A parameter. Either low, high and step, or a list of values in the order in which they should be searched. A TT_CHOICE is one of
   several ways (algorithms, layouts): its values have no order, and each is tried for itself.
   With an address or a setter the values are written by tt_begin; without either, ask tt_value. */
typedef struct tt_param {
    const char *name;
    long low, high, step; /* step 0 stands for 1 */
    const long *values;   /* copied */
    int n_values;
    long initial; /* the default: one of the values */
    double risk;  /* loss to expect of a bad value, as a share of the default's time; 0 stands for 0.25 */
    long *address;
    void (*set)(void *context, long value);
    void *context;
    int kind;
} tt_param;

typedef struct tt_group tt_group;
typedef struct tt_section tt_section;

/* One run of a section; on the stack of its thread. */
typedef struct tt_run {
    tt_ticket ticket;
    uint64_t began_ns;
    int32_t is_measured;
    int32_t is_inside;
} tt_run;

/* Nanoseconds of a clock that never goes back. */
typedef uint64_t (*tt_clock)(void);

/*
 * Sections that share what they learn. `path` NULL: within this process. Else a file (best below /dev/shm) through which all
 * processes that open it share, and which outlives them. `clock` NULL: CLOCK_MONOTONIC. Never fails but for memory (NULL): a file
 * that cannot be used (another version's, damaged, locked for more than a second, no rights, no room) leaves this process with knowledge of
 * its own, and a section whose part of it is damaged begins with the defaults.
 */
tt_group *tt_group_open(const char *path, tt_clock clock);

/* What went wrong last, with a hint; "" when nothing did. Valid until the group is closed. */
const char *tt_group_error(const tt_group *group);

/* Closes all its sections; no run may be open. Values stay as they were written last. */
void tt_group_close(tt_group *group);

/* NULL for parameters that make no sense (see tt_group_error). Names, values and options are copied; one section per name. Where processes
   share a section, the risks and options of the one that has opened it last hold. What follows takes NULL for a section, too: the values
   stay as the program has them, tt_value gives 0, and nothing is known. */
tt_section *tt_section_open(tt_group *group, const char *name, const tt_param *params, int n_params, const tt_options *options);

/*
 * Begins a run: `work` is how much it will do (rows, bytes, items), 0 if not known. Any thread. Sections with addresses or setters
 * change values only when no other run of this process is inside; a run that overlaps another is then not measured.
 */
void tt_begin(tt_section *section, tt_run *run, double work);

/* The value of parameter `index` in this run. */
long tt_value(const tt_section *section, const tt_run *run, int index);

/* Ends a run that did `work` (> 0). */
void tt_end(tt_section *section, tt_run *run, double work);

/* Ends a run that failed or must not count. */
void tt_cancel(tt_section *section, tt_run *run);

/* What is known, as JSON with schema_version 1, in the way of snprintf: the length it has, and as much as fits. Send it to
   `trimtab serve` (tt_keep_section of clients/c), or keep it as a file for `trimtab history import --format sections`. */
int tt_section_json(tt_section *section, char *out, size_t size);

/* A copy of the tuner as it is now, for those who want to look inside. */
void tt_section_tuner(tt_section *section, tt_tuner *copy);

#ifdef __cplusplus
}
#endif
#endif
