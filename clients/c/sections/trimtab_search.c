/*
 * What to try next: hints, few points or choices without an order as arms of a bandit, random probes, and last Nelder and Mead's
 * simplex (trimtab_simplex.c).
 * Nothing here measures, and nothing here spends: trimtab_tuner.c decides whether a candidate can be paid.
 */
#include "trimtab_tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BANDIT_POINTS 8
#define BANDIT_ROUNDS 3
/* What a point of equal or smaller estimate may lose all the same: its first probe waits until so much is covered. Estimates are wrong by a
   factor of their own size (Leis et al. 2015, PVLDB 9:3): one that says 4 times is taken for 2 times. */
#define CHANGE_RISK 0.15
/* An end to looking at points. */
#define MAX_SCREENED 400

double tt_random(tt_tuner *t)
{
    uint64_t z = (t->random += 0x9E3779B97F4A7C15ULL); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* Whether `p` contains what made a banned point slow: each of its changes, at the same level, the next, or further out; a choice
   has no neighbours. */
static bool contains(const tt_space *space, const tt_point *p, const tt_point *slow)
{
    bool any = false;
    for (int i = 0; i < space->n_params; i++) {
        int from = space->param[i].default_level, change = slow->level[i] - from;
        if (change == 0) continue;
        any = true;
        if (!tt_has_order(space, i) && p->level[i] != slow->level[i]) return false;
        if (!tt_has_order(space, i)) continue;
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

/* The record of `p`, new if it has none: then the slowest that is no warning makes room, one that was only looked at first. */
tt_record *tt_room(tt_tuner *t, const tt_point *p)
{
    tt_record *r = tt_find(t, p);
    if (r != NULL) return r;
    if (t->n_records < TT_MAX_RECORDS) r = &t->record[t->n_records++];
    for (int i = 0; r != &t->record[t->n_records - 1] && i < t->n_records; i++) {
        const tt_record *each = &t->record[i];
        if (each->is_banned) continue;
        if (r == NULL || (each->n == 0 && r->n > 0) || ((each->n == 0) == (r->n == 0) && each->value > r->value)) r = &t->record[i];
    }
    if (r == NULL) r = &t->record[0];
    memset(r, 0, sizeof *r);
    r->point = *p;
    return r;
}

tt_record *tt_remember(tt_tuner *t, const tt_point *p, double value)
{
    tt_record *r = tt_room(t, p);
    r->n++;
    r->value += (value - r->value) / r->n;
    return r;
}

bool tt_is_measured(const tt_tuner *t, const tt_point *p)
{
    const tt_record *r = tt_find((tt_tuner *)t, p);
    return r != NULL && r->n > 0;
}

/* What does the same as `p` and was measured; NULL: nothing. The default is not among the records. */
static const tt_record *twin_of(const tt_tuner *t, const tt_record *r)
{
    for (int i = 0; i < t->n_records; i++)
        if (&t->record[i] != r && t->record[i].n > 0 && t->record[i].mark == r->mark) return &t->record[i];
    return NULL;
}

bool tt_is_twin(const tt_tuner *t, const tt_point *p)
{
    const tt_record *r = t->options.is_screened ? tt_find((tt_tuner *)t, p) : NULL;
    return r != NULL && r->mark != 0 && (r->mark == TT_AS_DEFAULT || twin_of(t, r) != NULL);
}

static double n_points(const tt_space *space)
{
    double n = 1;
    for (int i = 0; i < space->n_params; i++) n *= space->param[i].n_levels;
    return n;
}

/* The loss to expect of `p` before it was ever measured, as a share of the default's time: by its estimate where there is one, else each
   change by its risk and its length. */
double tt_risk(const tt_tuner *t, const tt_point *p)
{
    const tt_record *seen = t->options.is_screened ? tt_find((tt_tuner *)t, p) : NULL;
    const tt_record *best = tt_find((tt_tuner *)t, &t->best);
    double risk = 0;
    if (seen != NULL && seen->mark != 0) {
        double cost = seen->cost / (best != NULL && best->mark != 0 ? best->cost : 1);
        return CHANGE_RISK + (cost > 1 ? sqrt(cost) - 1 : 0);
    }
    for (int i = 0; i < t->space.n_params; i++) {
        const tt_param_space *param = &t->space.param[i];
        double length = abs(p->level[i] - t->best.level[i]) / (param->n_levels > 3 ? (param->n_levels - 1) / 2.0 : 1.0);
        if (!tt_has_order(&t->space, i)) length = p->level[i] != t->best.level[i];
        risk += param->risk * length;
    }
    return risk;
}

/* The hint laid over the best so far. */
static void lay_hint(const tt_tuner *t, int h, tt_point *p)
{
    *p = t->best;
    for (int i = 0; i < t->space.n_params; i++)
        if (t->hint[h].level[i] != t->space.param[i].default_level) p->level[i] = t->hint[h].level[i];
}

static bool is_hint_open(const tt_tuner *t, int h, tt_point *p)
{
    if ((t->hints_used >> h & 1) != 0) return false;
    lay_hint(t, h, p);
    return !tt_same(&t->space, p, &t->best) && !tt_is_banned(t, p) && !tt_is_measured(t, p) && !tt_is_twin(t, p);
}

/* As they come; where points were looked at, the least risky first. */
static bool propose_hint(tt_tuner *t)
{
    double least = 0;
    int found = -1;
    for (int h = 0; h < t->n_hints && (found < 0 || t->options.is_screened); h++) {
        tt_point p;
        if (!is_hint_open(t, h, &p)) continue;
        double risk = tt_risk(t, &p);
        if (found >= 0 && risk >= least) continue;
        least = risk;
        found = h;
    }
    if (found < 0) return false;
    lay_hint(t, found, &t->candidate);
    t->hints_used |= 1u << found;
    return true;
}

/* The candidate, a hint, waits for better times; it still is the candidate. */
void tt_reopen_hint(tt_tuner *t)
{
    for (int h = 0; h < t->n_hints; h++) {
        tt_point p;
        lay_hint(t, h, &p);
        if (tt_same(&t->space, &p, &t->candidate)) t->hints_used &= ~(1u << h);
    }
    t->has_candidate = 0;
}

/* Of the points that were tried once and looked good the best, for its proof. */
bool tt_take_finalist(tt_tuner *t)
{
    const tt_record *best = NULL;
    double noise = sqrt(tt_variance(&t->own));
    for (int i = 0; t->options.is_screened && i < t->n_records; i++) {
        const tt_record *r = &t->record[i];
        if (r->n == 0 || r->is_banned || r->is_refuted || r->value > t->best_value - t->options.min_gain - noise) continue;
        if (!tt_same(&t->space, &r->point, &t->best) && (best == NULL || r->value < best->value)) best = r;
    }
    if (best == NULL) return false;
    if (t->has_candidate) tt_reopen_hint(t);
    t->candidate = best->point;
    t->has_candidate = 1;
    tt_begin_proof(t);
    return true;
}

/* Moves one parameter at random, at first not far: how far grows with the probes that were made. Of choices, any other one. */
static void step(tt_tuner *t, tt_point *p)
{
    int i = (int)(tt_random(t) * t->space.n_params), n = t->space.param[i].n_levels;
    if (!tt_has_order(&t->space, i) && n > 1) {
        p->level[i] = (int16_t)((p->level[i] + 1 + (int)(tt_random(t) * (n - 1))) % n);
        return;
    }
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
        if (tt_same(&t->space, &p, &t->best) || tt_is_default(t, &p) || tt_is_banned(t, &p) || tt_is_measured(t, &p) || tt_is_twin(t, &p)) continue;
        double risk = tt_risk(t, &p);
        if (!found || risk < least) t->candidate = p;
        least = found && least < risk ? least : risk;
        found = true;
        kept++;
    }
    return found;
}

/* The simplex is told what is known of a point that does the same. */
static void tell_twin(tt_tuner *t, const tt_point *p)
{
    const tt_record *twin = twin_of(t, tt_find(t, p));
    t->misses++;
    tt_simplex_tell(t, twin != NULL ? twin->value : 0);
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
        else if (tt_is_twin(t, &p)) tell_twin(t, &p);
        else {
            t->candidate = p;
            return true;
        }
    }
    return false;
}

/* How much an arm of a bandit promises, the lowest first: each once, the least risky first; then by its lower confidence bound.
   INFINITY: it is not to be tried. */
static double score_of(tt_tuner *t, const tt_point *p, int drawn)
{
    if (tt_is_default(t, p) || tt_same(&t->space, p, &t->best) || tt_is_banned(t, p) || tt_is_twin(t, p)) return INFINITY;
    const tt_record *known = tt_find(t, p);
    if (known == NULL || known->n == 0) return -1e6 + tt_risk(t, p);
    double score = known->value - sqrt(tt_variance(&t->own)) * sqrt(2 * log(drawn + 2.0) / known->n);
    return score > t->best_value - t->options.min_gain ? INFINITY : score;
}

/* Few points: all of them are arms, a few rounds. */
static bool propose_arm(tt_tuner *t)
{
    int total = (int)n_points(&t->space), drawn = t->n_drawn++;
    double best_score = INFINITY;
    if (drawn >= BANDIT_ROUNDS * total) return false;
    for (int index = 0; index < total; index++) {
        tt_point p;
        memset(&p, 0, sizeof p);
        for (int i = 0, rest = index; i < t->space.n_params; rest /= t->space.param[i++].n_levels)
            p.level[i] = (int16_t)(rest % t->space.param[i].n_levels);
        double score = score_of(t, &p, drawn);
        if (!(score < best_score)) continue;
        best_score = score;
        t->candidate = p;
    }
    return !isinf(best_score);
}

static int n_choices(const tt_space *space)
{
    int n = 0;
    for (int i = 0; i < space->n_params; i++) n += tt_has_order(space, i) ? 0 : space->param[i].n_levels - 1;
    return n;
}

/* Choices have no neighbours in which a search could find its way: each of them, the rest as the best has it, is an arm. */
static bool propose_choice(tt_tuner *t)
{
    int drawn = t->n_drawn++;
    double best_score = INFINITY;
    if (drawn >= BANDIT_ROUNDS * n_choices(&t->space)) return false;
    for (int i = 0; i < t->space.n_params; i++)
        for (int level = 0; !tt_has_order(&t->space, i) && level < t->space.param[i].n_levels; level++) {
            tt_point p = t->best;
            p.level[i] = (int16_t)level;
            double score = score_of(t, &p, drawn);
            if (!(score < best_score)) continue;
            best_score = score;
            t->candidate = p;
        }
    return !isinf(best_score);
}

/* The simplex moves what has an order only; a start with other choices than the best's it cannot have. */
static bool has_choices_of_best(const tt_tuner *t, const tt_point *p)
{
    for (int i = 0; i < t->space.n_params; i++)
        if (!tt_has_order(&t->space, i) && p->level[i] != t->best.level[i]) return false;
    return true;
}

static void start_simplex(tt_tuner *t)
{
    tt_point start = t->best;
    double value = t->best_value;
    for (int i = 0; i < t->n_records; i++)
        if (!t->record[i].is_banned && t->record[i].n > 0 && t->record[i].value < value && has_choices_of_best(t, &t->record[i].point)) {
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
        case TT_CHOICES: found = propose_choice(t); break;
        default: return false;
        }
        if (found || tt_take_finalist(t)) return true;
        if (t->source == TT_HINTS) {
            t->source = n_points(&t->space) <= BANDIT_POINTS ? TT_BANDIT : n_choices(&t->space) > 0 ? TT_CHOICES : TT_RANDOM;
        } else if (t->source == TT_CHOICES) {
            t->source = TT_RANDOM;
            t->n_drawn = 0;
        } else if (t->source == TT_RANDOM && t->n_drawn >= t->options.n_random) {
            t->source = TT_SIMPLEX;
            start_simplex(t);
        } else if (t->source != TT_RANDOM) {
            t->source = TT_DONE;
        }
    }
}

static bool is_seen(const tt_tuner *t, const tt_point *p)
{
    const tt_record *r = tt_find((tt_tuner *)t, p);
    return r != NULL && r->mark != 0;
}

bool tt_to_screen(tt_tuner *t, tt_point *point)
{
    if (!t->options.is_screened || t->phase != TT_SEARCHING || t->lease > 0) return false;
    for (;;) {
        if (t->has_candidate && !is_seen(t, &t->candidate)) {
            *point = t->candidate;
            return true;
        }
        if (t->has_candidate && !tt_is_twin(t, &t->candidate)) return false;
        if (t->has_candidate && t->source == TT_SIMPLEX) tell_twin(t, &t->candidate);
        t->has_candidate = 0;
        if (t->n_screened >= MAX_SCREENED) t->source = TT_DONE;
        for (int h = 0; t->source == TT_HINTS && h < t->n_hints; h++)
            if (is_hint_open(t, h, point) && !is_seen(t, point)) return true;
        if (!tt_propose(t) || t->phase != TT_SEARCHING) return false;
        t->has_candidate = 1;
    }
}

void tt_screen(tt_tuner *t, const tt_point *point, uint64_t mark, double cost, double time)
{
    tt_record *r = tt_room(t, point);
    r->mark = mark;
    r->cost = cost > 0 ? cost : 1;
    t->n_screened++;
    t->n_same += tt_is_twin(t, point);
    if (!(time > 0) || isinf(time)) return;
    t->account.total += time;
    t->account.probe_loss += time;
    t->account.screening += time;
}
