/* Points of a space, and whether a tuner that was read from elsewhere can be one. Promises: see trimtab_tuner.h. */
#include "trimtab_tuner.h"

#include <math.h>
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

bool tt_has_order(const tt_space *space, int param)
{
    return (space->unordered >> param & 1) == 0;
}

bool tt_is_inside(const tt_space *space, const tt_point *p)
{
    for (int i = 0; i < space->n_params; i++)
        if (p->level[i] < 0 || p->level[i] >= space->param[i].n_levels) return false;
    return true;
}

static bool is_space(const tt_space *s)
{
    if (s->n_params < 1 || s->n_params > TT_MAX_PARAMS) return false;
    for (int i = 0; i < s->n_params; i++) {
        const tt_param_space *p = &s->param[i];
        if (p->n_levels < 1 || p->n_levels > INT16_MAX || p->default_level < 0 || p->default_level >= p->n_levels) return false;
        if (isnan(p->risk)) return false;
    }
    return true;
}

static bool is_simplex(const tt_simplex *x, const tt_space *s)
{
    if (x->n < 0 || x->n > s->n_params || x->at < 0 || x->at > x->n + 1) return false;
    for (int d = 0; d < x->n; d++) {
        if (x->param[d] < 0 || x->param[d] >= s->n_params || !isfinite(x->trial[d])) return false;
        for (int v = 0; v <= x->n; v++)
            if (!isfinite(x->x[v][d])) return false;
    }
    return true;
}

/* Sums and means that are no numbers would stop each probe, or allow all. */
static bool are_numbers(const tt_tuner *t)
{
    const tt_options *o = &t->options;
    const double all[] = {o->budget, o->min_gain, o->max_ratio, o->max_noise, o->reinvest, t->base.n, t->base.mean, t->base.m2, t->own.n, t->own.mean,
                          t->own.m2, t->best_value, t->best_error, t->cusum_up, t->cusum_down, t->caution, t->account.total,
                          t->account.probe_loss, t->account.kept_loss, t->account.gained, t->account.screening};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!isfinite(all[i])) return false;
    return true;
}

/* Counts that only ever grow from 0. */
static bool are_counts(const tt_tuner *t)
{
    const int32_t all[] = {t->lease, t->misses, t->since_probe, t->since_check, t->since_restart, t->n_promoted, t->n_checks, t->n_screened, t->n_same};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < 0) return false;
    return t->misses < 1 << 30 && t->n_promoted < 1 << 30 && t->n_checks < 1 << 30 && t->n_screened < 1 << 30 && t->n_same < 1 << 30 &&
           t->since_check < 1 << 30 && t->n_restarts >= 0 && t->n_restarts < 1 << 30 && t->n_drawn >= 0 && t->n_drawn < 1 << 16;
}

/* What is shown of it is a number. */
static bool is_shown(const tt_tuner *t)
{
    double low, high, gain = tt_proven_gain(t, &low, &high);
    return isfinite(gain) && isfinite(low) && isfinite(high) && isfinite(exp(t->base.mean));
}

bool tt_is_sane(const tt_tuner *t)
{
    const tt_space *s = &t->space;
    if (!is_space(s) || !tt_is_inside(s, &t->best) || !tt_is_inside(s, &t->candidate) || !is_simplex(&t->simplex, s) || !are_numbers(t)) return false;
    if (t->n_hints < 0 || t->n_hints > TT_MAX_HINTS || t->n_records < 0 || t->n_records > TT_MAX_RECORDS) return false;
    for (int i = 0; i < t->n_hints; i++)
        if (!tt_is_inside(s, &t->hint[i])) return false;
    for (int i = 0; i < t->n_records; i++)
        if (!tt_is_inside(s, &t->record[i].point)) return false;
    return t->phase >= TT_WATCHING && t->phase <= TT_PINNED && t->source >= TT_HINTS && t->source <= TT_CHOICES &&
           t->options.n_watch > 0 && t->options.n_watch < 1 << 20 && are_counts(t) && is_shown(t);
}
