/*
 * Nelder and Mead's simplex (1965) on a lattice, one step at a time: ask gives the point whose value is wanted, tell takes it.
 * Vertices are real numbers; what is asked is rounded and clipped to the space, as AtuneRT does.
 */
#include "trimtab_tuner.h"

#include <math.h>
#include <string.h>

enum { FILL, REFLECT, EXPAND, CONTRACT, SHRINK, CONVERGED };

static int level_of(const tt_param_space *param, double x)
{
    int level = (int)floor(x + 0.5);
    if (level < 0) return 0;
    return level >= param->n_levels ? param->n_levels - 1 : level;
}

/* The trial of the centroid of all but the worst, moved by `factor` away from the worst. */
static void move(tt_simplex *s, double factor, float *out)
{
    for (int d = 0; d < s->n; d++) {
        double centre = 0;
        for (int v = 0; v < s->n; v++) centre += s->x[v][d];
        centre /= s->n;
        out[d] = (float)(centre + factor * (centre - s->x[s->n][d]));
    }
}

static void sort_vertices(tt_simplex *s)
{
    for (int i = 1; i <= s->n; i++)
        for (int j = i; j > 0 && s->f[j] < s->f[j - 1]; j--) {
            float x[TT_MAX_PARAMS];
            double f = s->f[j];
            memcpy(x, s->x[j], sizeof x);
            memcpy(s->x[j], s->x[j - 1], sizeof x);
            memcpy(s->x[j - 1], x, sizeof x);
            s->f[j] = s->f[j - 1];
            s->f[j - 1] = f;
        }
}

static bool is_one_cell(const tt_tuner *t)
{
    const tt_simplex *s = &t->simplex;
    for (int d = 0; d < s->n; d++) {
        const tt_param_space *param = &t->space.param[s->param[d]];
        for (int v = 1; v <= s->n; v++)
            if (level_of(param, s->x[v][d]) != level_of(param, s->x[0][d])) return false;
    }
    return true;
}

static void next_round(tt_tuner *t)
{
    tt_simplex *s = &t->simplex;
    sort_vertices(s);
    if (is_one_cell(t)) {
        s->stage = CONVERGED;
        return;
    }
    s->stage = REFLECT;
    move(s, 1.0, s->trial);
}

static void begin_shrink(tt_simplex *s)
{
    for (int v = 1; v <= s->n; v++)
        for (int d = 0; d < s->n; d++) s->x[v][d] = (s->x[0][d] + s->x[v][d]) / 2;
    s->stage = SHRINK;
    s->at = 1;
    memcpy(s->trial, s->x[1], sizeof s->trial);
}

static void replace_worst(tt_tuner *t, const float *x, double f)
{
    tt_simplex *s = &t->simplex;
    memcpy(s->x[s->n], x, sizeof s->x[0]);
    s->f[s->n] = f;
    next_round(t);
}

/* One vertex per parameter that has an order beside the start, the least risky parameter first, a quarter of its range away. */
void tt_simplex_begin(tt_tuner *t, const tt_point *start, double value)
{
    tt_simplex *s = &t->simplex;
    memset(s, 0, sizeof *s);
    for (int p = 0; p < t->space.n_params; p++) {
        if (t->space.param[p].n_levels < 2 || !tt_has_order(&t->space, p)) continue;
        int d = s->n++;
        for (; d > 0 && t->space.param[s->param[d - 1]].risk > t->space.param[p].risk; d--) s->param[d] = s->param[d - 1];
        s->param[d] = (int16_t)p;
    }
    for (int v = 0; v <= s->n; v++)
        for (int d = 0; d < s->n; d++) s->x[v][d] = start->level[s->param[d]];
    for (int d = 0; d < s->n; d++) {
        int n = t->space.param[s->param[d]].n_levels, at = start->level[s->param[d]], step = n / 4 > 0 ? n / 4 : 1;
        bool up = at + step > n - 1 ? false : at - step < 0 ? true : tt_random(t) < 0.5;
        s->x[d + 1][d] = (float)(up ? at + step : at - step);
    }
    s->f[0] = value;
    s->stage = s->n > 0 ? FILL : CONVERGED;
    s->at = 1;
    memcpy(s->trial, s->x[1], sizeof s->trial);
}

bool tt_simplex_ask(tt_tuner *t, tt_point *point)
{
    const tt_simplex *s = &t->simplex;
    if (s->stage == CONVERGED) return false;
    *point = t->best;
    for (int d = 0; d < s->n; d++) point->level[s->param[d]] = (int16_t)level_of(&t->space.param[s->param[d]], s->trial[d]);
    return true;
}

static void tell_reflected(tt_tuner *t, double value)
{
    tt_simplex *s = &t->simplex;
    memcpy(s->reflected, s->trial, sizeof s->trial);
    s->f_reflected = value;
    if (value < s->f[0]) {
        s->stage = EXPAND;
        move(s, 2.0, s->trial);
    } else if (value < s->f[s->n - 1] || s->n == 1) {
        if (value < s->f[s->n]) replace_worst(t, s->reflected, value);
        else begin_shrink(s);
    } else {
        s->stage = CONTRACT;
        move(s, value < s->f[s->n] ? 0.5 : -0.5, s->trial);
    }
}

void tt_simplex_tell(tt_tuner *t, double value)
{
    tt_simplex *s = &t->simplex;
    switch (s->stage) {
    case FILL:
    case SHRINK:
        if (s->at <= s->n) s->f[s->at++] = value; /* beyond: it was read from a damaged file */
        if (s->at > s->n) next_round(t);
        else memcpy(s->trial, s->x[s->at], sizeof s->trial);
        break;
    case REFLECT:
        tell_reflected(t, value);
        break;
    case EXPAND:
        if (value < s->f_reflected) replace_worst(t, s->trial, value);
        else replace_worst(t, s->reflected, s->f_reflected);
        break;
    case CONTRACT:
        if (value < (s->f_reflected < s->f[s->n] ? s->f_reflected : s->f[s->n])) replace_worst(t, s->trial, value);
        else begin_shrink(s);
        break;
    default:
        break;
    }
}
