/* Points of a space, and whether a tuner that was read from elsewhere can be one. Promises: see trimtab_tuner.h. */
#include "trimtab_tuner.h"

#include <string.h>

bool tt_same(const tt_space *space, const tt_point *a, const tt_point *b)
{
    return memcmp(a->level, b->level, sizeof(int16_t) * (size_t)space->n_params) == 0;
}

void tt_default(const tt_space *space, tt_point *point)
{
    memset(point, 0, sizeof *point);
    for (int i = 0; i < space->n_params; i++) point->level[i] = (int16_t)space->param[i].default_level;
}

bool tt_is_default(const tt_tuner *t, const tt_point *p)
{
    for (int i = 0; i < t->space.n_params; i++)
        if (p->level[i] != t->space.param[i].default_level) return false;
    return true;
}

bool tt_is_inside(const tt_space *space, const tt_point *p)
{
    for (int i = 0; i < space->n_params; i++)
        if (p->level[i] < 0 || p->level[i] >= space->param[i].n_levels) return false;
    return true;
}

bool tt_is_sane(const tt_tuner *t)
{
    const tt_space *s = &t->space;
    if (s->n_params < 1 || s->n_params > TT_MAX_PARAMS || !tt_is_inside(s, &t->best) || !tt_is_inside(s, &t->candidate)) return false;
    for (int i = 0; i < s->n_params; i++)
        if (s->param[i].n_levels < 1 || s->param[i].default_level < 0 || s->param[i].default_level >= s->param[i].n_levels) return false;
    for (int i = 0; i < t->simplex.n && i < TT_MAX_PARAMS; i++)
        if (t->simplex.param[i] < 0 || t->simplex.param[i] >= s->n_params) return false;
    for (int i = 0; i < t->n_hints && i < TT_MAX_HINTS; i++)
        if (!tt_is_inside(s, &t->hint[i])) return false;
    return t->phase >= TT_WATCHING && t->phase <= TT_PINNED && t->n_hints >= 0 && t->n_hints <= TT_MAX_HINTS &&
           t->n_records >= 0 && t->n_records <= TT_MAX_RECORDS && t->simplex.n >= 0 &&
           t->simplex.n <= s->n_params && t->simplex.at >= 0 && t->simplex.at <= t->simplex.n + 1 && t->options.n_watch > 0 &&
           t->options.n_watch < 1 << 20 && t->n_restarts >= 0;
}
