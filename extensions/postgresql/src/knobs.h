/* The table of parameters, for the files that read it (knobs.c) and set its values (apply.c). */
#ifndef TRIMTAB_KNOBS_H
#define TRIMTAB_KNOBS_H

#include "trimtab.h"

#include "utils/guc_tables.h"

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

#pragma GCC visibility push(hidden)

extern Knob trimtab_knobs[N_KNOBS];
extern struct config_generic *trimtab_guc_of(Knob *knob);
extern double trimtab_value_of(Knob *knob);

#pragma GCC visibility pop

#endif
