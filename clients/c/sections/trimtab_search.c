/*
 * What to try next: hints, random probes, few points as arms of a bandit, and last Nelder and Mead's simplex (trimtab_simplex.c).
 * Nothing here measures, and nothing here spends: trimtab_tuner.c decides whether a candidate can be paid.
 */
#include "trimtab_tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BANDIT_POINTS 8
#define BANDIT_ROUNDS 3

double tt_random(tt_tuner *t)
{
    uint64_t z = (t->random += 0x9E3779B97F4A7C15ULL); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* Whether `p` contains what made a banned point slow: each of its changes, at the same level, the next, or further out. */
static bool contains(const tt_space *space, const tt_point *p, const tt_point *slow)
{
    bool any = false;
    for (int i = 0; i < space->n_params; i++) {
        int from = space->param[i].default_level, change = slow->level[i] - from;
        if (change == 0) continue;
        any = true;
        int beyond = (p->level[i] - slow->level[i]) * (change > 0 ? 1 : -1);
        int nearest = (change == 1 || change == -1) ? 0 : -1;
        if (beyond < nearest) return false;
    }
    return any;
}

static bool tt_is_banned(const tt_tuner *t, const tt_point *p)
{
    if (tt_same(&t->space, p, &t->best)) return false;
    for (int i = 0; i < t->n_records; i++)
        if (t->record[i].is_banned && contains(&t->space, p, &t->record[i].point)) return true;
    return false;
}

tt_record *tt_find(tt_tuner *t, const tt_point *p)
{
    for (int i = 0; i < t->n_records; i++)
        if (tt_same(&t->space, p, &t->record[i].point)) return &t->record[i];
    return NULL;
}

tt_record *tt_remember(tt_tuner *t, const tt_point *p, double value)
{
    tt_record *r = tt_find(t, p);
    if (r == NULL && t->n_records < TT_MAX_RECORDS) r = &t->record[t->n_records++];
    if (r == NULL) { /* full: the slowest that is not a warning makes room */
        for (int i = 0; i < t->n_records; i++)
            if (!t->record[i].is_banned && (r == NULL || t->record[i].value > r->value)) r = &t->record[i];
        if (r == NULL) r = &t->record[0];
    }
    if (!tt_same(&t->space, p, &r->point) || r->n == 0) memset(r, 0, sizeof *r);
    r->point = *p;
    r->n++;
    r->value += (value - r->value) / r->n;
    return r;
}

static double n_points(const tt_space *space)
{
    double n = 1;
    for (int i = 0; i < space->n_params; i++) n *= space->param[i].n_levels;
    return n;
}

/* The loss to expect of `p` before it was ever measured, as a share of the default's time: each change by its risk and its length. */
double tt_risk(const tt_tuner *t, const tt_point *p)
{
    double risk = 0;
    for (int i = 0; i < t->space.n_params; i++) {
        const tt_param_space *param = &t->space.param[i];
        double length = abs(p->level[i] - t->best.level[i]) / (param->n_levels > 3 ? (param->n_levels - 1) / 2.0 : 1.0);
        risk += param->risk * length;
    }
    return risk;
}

static bool propose_hint(tt_tuner *t)
{
    while (t->next_hint < t->n_hints) {
        const tt_point *hint = &t->hint[t->next_hint++];
        tt_point p = t->best;
        for (int i = 0; i < t->space.n_params; i++)
            if (hint->level[i] != t->space.param[i].default_level) p.level[i] = hint->level[i];
        if (tt_same(&t->space, &p, &t->best) || tt_is_banned(t, &p) || tt_find(t, &p) != NULL) continue;
        t->candidate = p;
        return true;
    }
    return false;
}

/* Moves one parameter at random, at first not far: how far grows with the probes that were made. */
static void step(tt_tuner *t, tt_point *p)
{
    int i = (int)(tt_random(t) * t->space.n_params), n = t->space.param[i].n_levels;
    int reach = 1 + (n - 1) / 4 * t->n_drawn / 2, level = p->level[i] + (int)(tt_random(t) * (2 * reach + 1)) - reach;
    p->level[i] = (int16_t)(level < 0 ? 0 : level >= n ? n - 1 : level);
}

/* One or two parameters move; of four draws the least risky is taken. */
static bool propose_random(tt_tuner *t)
{
    double least = 0;
    bool found = false;
    if (t->n_drawn++ >= t->options.n_random) return false;
    for (int tries = 0, kept = 0; tries < 16 && kept < 4; tries++) {
        tt_point p = t->best;
        step(t, &p);
        if (tt_random(t) < 0.5) step(t, &p);
        if (tt_same(&t->space, &p, &t->best) || tt_is_default(t, &p) || tt_is_banned(t, &p) || tt_find(t, &p) != NULL) continue;
        double risk = tt_risk(t, &p);
        if (!found || risk < least) t->candidate = p;
        least = found && least < risk ? least : risk;
        found = true;
        kept++;
    }
    return found;
}

static bool propose_simplex(tt_tuner *t)
{
    tt_point p;
    for (int i = 0; i < 200 && t->misses < t->options.patience && tt_simplex_ask(t, &p); i++) {
        const tt_record *known = tt_find(t, &p);
        if (tt_is_default(t, &p)) tt_simplex_tell(t, 0);
        else if (tt_same(&t->space, &p, &t->best)) tt_simplex_tell(t, t->best_value);
        else if (known != NULL && known->n > 0) tt_simplex_tell(t, known->value);
        else if (tt_is_banned(t, &p)) tt_simplex_tell(t, TT_BANNED_VALUE);
        else {
            t->candidate = p;
            return true;
        }
    }
    return false;
}

/* Few points: each once, the least risky first; then the one whose lower confidence bound promises most, a few rounds. */
static bool propose_arm(tt_tuner *t)
{
    int total = (int)n_points(&t->space), drawn = t->n_drawn++;
    double best_score = 0, noise = sqrt(tt_variance(&t->own));
    bool found = false;
    if (drawn >= BANDIT_ROUNDS * total) return false;
    for (int index = 0; index < total; index++) {
        tt_point p;
        memset(&p, 0, sizeof p);
        for (int i = 0, rest = index; i < t->space.n_params; rest /= t->space.param[i++].n_levels)
            p.level[i] = (int16_t)(rest % t->space.param[i].n_levels);
        if (tt_is_default(t, &p) || tt_same(&t->space, &p, &t->best) || tt_is_banned(t, &p)) continue;
        const tt_record *known = tt_find(t, &p);
        double score = known == NULL ? -1e6 + tt_risk(t, &p) : known->value - noise * sqrt(2 * log(drawn + 2.0) / known->n);
        if (known != NULL && score > t->best_value - t->options.min_gain) continue;
        if (!found || score < best_score) {
            best_score = score;
            t->candidate = p;
            found = true;
        }
    }
    return found;
}

static void start_simplex(tt_tuner *t)
{
    tt_point start = t->best;
    double value = t->best_value;
    for (int i = 0; i < t->n_records; i++)
        if (!t->record[i].is_banned && t->record[i].value < value) {
            start = t->record[i].point;
            value = t->record[i].value;
        }
    t->misses = 0;
    tt_simplex_begin(t, &start, value);
}

bool tt_propose(tt_tuner *t)
{
    for (;;) {
        bool found = false;
        switch (t->source) {
        case TT_HINTS: found = propose_hint(t); break;
        case TT_RANDOM: found = propose_random(t); break;
        case TT_SIMPLEX: found = propose_simplex(t); break;
        case TT_BANDIT: found = propose_arm(t); break;
        default: return false;
        }
        if (found) return true;
        if (t->source == TT_HINTS) {
            t->source = n_points(&t->space) <= BANDIT_POINTS ? TT_BANDIT : TT_RANDOM;
        } else if (t->source == TT_RANDOM && t->n_drawn >= t->options.n_random) {
            t->source = TT_SIMPLEX;
            start_simplex(t);
        } else if (t->source != TT_RANDOM) {
            t->source = TT_DONE;
        }
    }
}
