/*
 * Levels of settings: the values of a statement stand only while its planner, its executor's start and its executor's run are on the
 * stack, each in a level of its own. Statements inside it (functions) get the session's own values.
 */
#include "statement.h"

int trimtab_outer = 0;
bool trimtab_is_in_force = false, trimtab_is_refused = false;
static bool is_statement_in_force = false; /* ... for the statement of the top level */
static double force_base[N_KNOBS];

/* A (sub)transaction of that nesting level has ended: what began in it is no longer on the stack. */
void trimtab_unwound(int level)
{
    if (trimtab_outer >= level) trimtab_outer = 0;
}

static int open_level(const Planned *p, bool executing, double nudge)
{
    int level = trimtab_apply(p->base, &p->ticket.point, executing, nudge);
    trimtab_is_refused = level < 0;
    if (level > 0) {
        trimtab_is_in_force = is_statement_in_force = true;
        memcpy(force_base, p->base, sizeof force_base);
    }
    return Max(level, 0);
}

/* Opens a level of settings; the values stand until close_level, or until the transaction fails. */
int trimtab_open_level(const Planned *p, bool executing)
{
    return open_level(p, executing, 0);
}

/* For a look at a plan: costs are a little nearer to the session's own. */
int trimtab_open_nudged(const Planned *p, double nudge)
{
    return open_level(p, false, nudge);
}

void trimtab_close_level(int level)
{
    if (level == 0) return;
    trimtab_is_in_force = is_statement_in_force = false;
    trimtab_unapply(level);
}

/* For what runs inside a statement that has other values. */
int trimtab_open_base(bool *was_in_force)
{
    *was_in_force = trimtab_is_in_force;
    if (!trimtab_is_in_force) return 0;
    trimtab_is_in_force = false;
    return trimtab_apply_base(force_base);
}

void trimtab_close_base(int level, bool was_in_force)
{
    trimtab_is_in_force = was_in_force;
    trimtab_unapply(level);
}

/* An error has taken the values back: of the whole statement, or of what it had called and has caught. */
void trimtab_levels_failed(bool is_whole)
{
    if (is_whole) trimtab_is_in_force = is_statement_in_force = false;
    else trimtab_is_in_force = is_statement_in_force;
}

double trimtab_elapsed_ms(instr_time began)
{
    instr_time ended;
    INSTR_TIME_SET_CURRENT(ended);
    INSTR_TIME_SUBTRACT(ended, began);
    return INSTR_TIME_GET_MILLISEC(ended);
}
