/* Promises: see trimtab_tuner.h. The order here: numbers, the account, judging, the public calls. */
#include "trimtab_tuner.h"

#include <math.h>
#include <string.h>

/* Two clocks rarely agree on less than this share of a run: no spread is taken to be smaller. */
#define NOISE_FLOOR 0.002
/* Means follow the environment: they forget what is older than about so many runs. */
#define MEMORY 32.0
/* Page's test: drift allowed, alarm, and the clip that keeps one outlier from raising it; in standard deviations. */
#define CUSUM_SLACK 0.5
#define CUSUM_ALARM 12.0
#define CUSUM_CLIP 4.0
#define MAX_CAUTION 64.0
/* Where points are looked at first, a gain of this factor is proven at once; a smaller one when each point was tried, or none can be paid. */
#define EARLY_GAIN 1.05
#define PLAIN_GAIN 1.5
/* A probe that can be stopped may run so many times as long as what is used, noise apart, if its risk is covered: beyond, stopping it loses less
   than its end would if it takes twice as long. If its risk is not covered, it may run as long as what may be lost, once that is such a
   share: it then shows great gains only, and loses no more than there is. */
#define FULL_LENGTH 1.1
#define GLIMPSE 0.2
/* A smaller risk is waited for instead: its budget comes soon. */
#define LONG_WAIT 0.5
/* A gain that was looked for and whose proof stopped when it looked good is a little too good: its interval is so much wider, until
   so many runs of the default beside the settled best have measured it anew. */
#define SELECTION 2.0
#define ENOUGH_CHECKS 8

static void add(tt_stats *s, double y)
{
    double keep = s->n >= MEMORY ? 1.0 - 1.0 / MEMORY : 1.0, delta = y - s->mean;
    s->n = s->n * keep + 1;
    s->mean += delta / s->n;
    s->m2 = s->m2 * keep + delta * (y - s->mean);
}

double tt_variance(const tt_stats *s)
{
    double v = s->n >= 2 ? s->m2 / (s->n - 1) : 0;
    return v > NOISE_FLOOR * NOISE_FLOOR ? v : NOISE_FLOOR * NOISE_FLOOR;
}

/* One-sided 99.95 % points of Student's t: a proof looks often, a search proves often, and neither may find what is not there. */
static double student(double df)
{
    static const double table[] = {636, 636, 31.6, 12.9, 8.61, 6.87, 5.96, 5.41, 5.04, 4.78, 4.59};
    return df <= 10 ? table[df < 1 ? 1 : (int)df] : 3.29 * (1 + 3.6 / (df - 1));
}

double tt_headroom(const tt_tuner *t)
{
    const tt_account *a = &t->account;
    return t->options.budget * a->total + t->options.reinvest * a->gained - a->probe_loss - a->kept_loss;
}

/* The candidate's loss, as far as one can know it, fits into what may be lost; and a gain like it could pay it back. */
static bool can_pay(const tt_tuner *t, double work)
{
    const tt_record *known = tt_find((tt_tuner *)t, &t->candidate);
    bool is_known = known != NULL && known->n > 0;
    double loss = !is_known ? tt_risk(t, &t->candidate) * t->caution : exp(known->value) - 1;
    double once = exp(t->base.mean) * (work > 0 ? work : t->account.total / ((double)t->account.n_runs + 1e-9) / exp(t->own.mean));
    if (loss <= 0) return tt_headroom(t) >= 0 || is_known;
    return tt_headroom(t) >= loss * once;
}

static bool is_for_glimpse(const tt_tuner *t)
{
    return t->options.can_stop && t->source == TT_HINTS && tt_risk(t, &t->candidate) * t->caution > LONG_WAIT;
}

/* How long a first probe may run, 0 for as long as it takes; false if it may not. */
static bool is_covered(const tt_tuner *t, double work, double *limit)
{
    double once = exp(t->own.mean) * (work > 0 ? work : 1), room = tt_headroom(t);
    bool pays = can_pay(t, work), may_stop = t->options.can_stop && t->phase == TT_SEARCHING;
    *limit = !may_stop ? 0 : pays ? fmax(room, FULL_LENGTH * exp(2 * sqrt(tt_variance(&t->own))) * once) : room;
    return pays || (may_stop && is_for_glimpse(t) && room >= GLIMPSE * once);
}

static void drop_candidate(tt_tuner *t)
{
    t->has_candidate = 0;
    t->phase = TT_SEARCHING;
}

static void refute(tt_tuner *t)
{
    tt_room(t, &t->candidate)->is_refuted = 1;
    t->misses++;
    drop_candidate(t);
}

void tt_begin_proof(tt_tuner *t)
{
    t->phase = TT_PROVING;
    memset(&t->proof_best, 0, sizeof t->proof_best);
    memset(&t->proof_candidate, 0, sizeof t->proof_candidate);
}

static void promote(tt_tuner *t, double difference, double error)
{
    t->best = t->candidate;
    t->best_value += difference;
    t->best_error = sqrt(t->best_error * t->best_error + error * error);
    t->own = t->proof_candidate;
    t->cusum_up = t->cusum_down = 0;
    t->misses = 0;
    t->n_promoted++;
    t->since_check = t->n_checks = 0;
    drop_candidate(t);
}

/* A gain that no drift between two runs explains needs fewer turns; its noise is the largest that was seen. */
static bool is_plain(const tt_tuner *t, double difference, double *error)
{
    const tt_stats *b = &t->proof_best, *c = &t->proof_candidate;
    double noise = fmax(tt_variance(&t->own), fmax(tt_variance(b), tt_variance(c)));
    if (!t->options.is_screened || b->n < 1 || c->n < 2 || difference > -log(PLAIN_GAIN)) return false;
    *error = sqrt(noise * (1 / b->n + 1 / c->n));
    return difference + student(fmin(t->own.n - 1, 8)) * *error < 0;
}

/* After each run of a proof: proven, hopeless, or go on. Only runs made for the proof count, in turns. */
static void look_at_proof(tt_tuner *t)
{
    const tt_stats *b = &t->proof_best, *c = &t->proof_candidate;
    double plain_error, plain = c->mean - b->mean;
    if (is_plain(t, plain, &plain_error)) {
        promote(t, plain, plain_error);
        return;
    }
    if (b->n < 3 || c->n < 3) return;
    double df = b->n + c->n - 2, pooled = (b->m2 + c->m2) / df;
    if (pooled < NOISE_FLOOR * NOISE_FLOOR) pooled = NOISE_FLOOR * NOISE_FLOOR;
    double error = sqrt(pooled * (1 / b->n + 1 / c->n)), difference = c->mean - b->mean;
    if (difference <= -t->options.min_gain && difference + student(df) * error < 0) promote(t, difference, error);
    /* What was looked at has rivals that wait: a proof without prospects ends sooner. */
    else if (difference - (t->options.is_screened ? 1 : 2) * error > -t->options.min_gain || c->n >= t->options.max_proof) refute(t);
}

/* The risks that were declared are a guess: a probe that lost more makes all further ones wait until more can be lost. */
static void learn_caution(tt_tuner *t, double loss)
{
    double expected = tt_risk(t, &t->candidate);
    if (loss > expected * t->caution) t->caution = fmin(MAX_CAUTION, fmax(1.5 * t->caution, loss / fmax(expected, 0.01)));
    else t->caution = fmax(1, 0.9 * t->caution);
}

static void judge(tt_tuner *t, double y)
{
    double difference = y - t->own.mean;
    if (t->phase == TT_PROVING) {
        tt_remember(t, &t->candidate, difference + t->best_value);
        if (difference > log(t->options.max_ratio)) {
            refute(t);
            return;
        }
        add(&t->proof_candidate, y);
        look_at_proof(t);
        return;
    }
    /* Where points were looked at, their risk is an estimate of its own, and what noise adds is no part of it. */
    learn_caution(t, exp(difference - (t->options.is_screened ? sqrt(tt_variance(&t->own)) : 0)) - 1);
    tt_record *r = tt_remember(t, &t->candidate, difference + t->best_value);
    if (t->source == TT_SIMPLEX) tt_simplex_tell(t, r->value);
    if (difference > log(t->options.max_ratio)) r->is_banned = 1;
    if (difference < -(t->options.is_screened ? log(EARLY_GAIN) : t->options.min_gain / 2)) {
        tt_begin_proof(t);
        return;
    }
    t->misses++;
    drop_candidate(t);
}

static void watch(tt_tuner *t)
{
    if (t->base.n < t->options.n_watch || sqrt(tt_variance(&t->base)) > t->options.max_noise) return;
    t->phase = TT_SEARCHING;
    t->own = t->base;
}

static void note_drift(tt_tuner *t, double y)
{
    double r = (y - t->own.mean) / sqrt(tt_variance(&t->own));
    r = r > CUSUM_CLIP ? CUSUM_CLIP : r < -CUSUM_CLIP ? -CUSUM_CLIP : r;
    t->cusum_up = fmax(0, t->cusum_up + r - CUSUM_SLACK);
    t->cusum_down = fmax(0, t->cusum_down - r - CUSUM_SLACK);
    /* Each restart waits longer than the one before: an environment that never rests is left with the default mostly. */
    int wait = (4 * t->options.n_watch) << (t->n_restarts < 8 ? t->n_restarts : 8);
    if (fmax(t->cusum_up, t->cusum_down) > CUSUM_ALARM && t->since_restart > wait) tt_restart(t);
}

/* The default runs now and then beside a settled best: the best must still be the faster one. */
static void check_best(tt_tuner *t)
{
    double error = sqrt(tt_variance(&t->base) / fmin(t->base.n, 4) + tt_variance(&t->own) / fmin(t->own.n, 16));
    if (t->own.mean - t->base.mean > 2 * error) tt_restart(t);
}

static void note_default(tt_tuner *t, double y)
{
    /* The first run of all fills caches: it says nothing. */
    if (t->phase == TT_WATCHING && t->account.n_runs == 1) return;
    if (t->phase != TT_WATCHING && t->base.n > 4) t->base.m2 *= 4 / t->base.n, t->base.n = 4; /* rare: the newest count most */
    add(&t->base, y);
    if (t->phase == TT_WATCHING) watch(t);
    else if (t->phase == TT_SETTLED) {
        t->n_checks++;
        check_best(t);
    }
}

static void note_best(tt_tuner *t, double y)
{
    if (t->phase == TT_PROVING) {
        add(&t->proof_best, y);
        add(&t->own, y);
        if (tt_is_default(t, &t->best)) add(&t->base, y);
        look_at_proof(t);
        return;
    }
    note_drift(t, y);
    if (t->phase == TT_WATCHING) return; /* it restarted */
    add(&t->own, y);
    if (tt_is_default(t, &t->best)) t->base = t->own;
}

static void book(tt_tuner *t, const tt_ticket *ticket, double time, double work)
{
    tt_account *a = &t->account;
    a->n_runs++;
    a->total += time;
    if (ticket->kind == TT_PROBE) a->n_probes++;
    if (t->base.n < 1 || tt_is_default(t, &ticket->point)) return;
    double difference = time - exp(t->base.mean) * work;
    if (difference < 0) a->gained -= difference;
    else if (ticket->kind == TT_PROBE) a->probe_loss += difference;
    else a->kept_loss += difference;
}

void tt_set_options(tt_tuner *t, const tt_options *options)
{
    tt_options *o = &t->options;
    if (options != NULL) *o = *options;
#define OR(field, value) o->field = o->field > 0 ? o->field : (value)
    OR(budget, 0.02);
    OR(min_gain, 0.03);
    OR(max_ratio, 1.5);
    OR(max_noise, 0.5);
    OR(reinvest, 0.25);
    OR(n_watch, 5);
    OR(patience, 4 + 2 * t->space.n_params);
    OR(max_proof, 16);
    OR(recheck, 32);
    OR(lease, 256);
    OR(seed, 1);
#undef OR
    o->n_random = o->n_random < 0 ? 0 : o->n_random == 0 ? 2 + t->space.n_params : o->n_random;
    if (o->n_watch < 3) o->n_watch = 3; /* fewer say nothing of noise */
}

bool tt_tuner_init(tt_tuner *t, const tt_space *space, const tt_options *options)
{
    if (space->n_params < 1 || space->n_params > TT_MAX_PARAMS) return false;
    for (int i = 0; i < space->n_params; i++) {
        const tt_param_space *p = &space->param[i];
        if (p->n_levels < 1 || p->n_levels > INT16_MAX || p->default_level < 0 || p->default_level >= p->n_levels) return false;
    }
    memset(t, 0, sizeof *t);
    t->space = *space;
    tt_set_options(t, options);
    t->random = t->options.seed;
    t->caution = 1;
    tt_default(space, &t->best);
    return true;
}

bool tt_hint(tt_tuner *t, const tt_point *point)
{
    if (t->n_hints >= TT_MAX_HINTS || !tt_is_inside(&t->space, point)) return false;
    t->hint[t->n_hints++] = *point;
    return true;
}

/* One that is among the hints moves; else the last of them makes room where they are full. */
static void hint_first(tt_tuner *t, tt_point point)
{
    int at = 0;
    while (at < t->n_hints && !tt_same(&t->space, &t->hint[at], &point)) at++;
    if (at == TT_MAX_HINTS) at--;
    else if (at == t->n_hints) t->n_hints++;
    memmove(&t->hint[1], &t->hint[0], sizeof(tt_point) * (size_t)at);
    t->hint[0] = point;
}

void tt_restart(tt_tuner *t)
{
    if (!tt_is_default(t, &t->best)) hint_first(t, t->best);
    t->phase = TT_WATCHING;
    t->source = TT_HINTS;
    t->epoch++;
    t->n_restarts++;
    t->lease = t->has_candidate = t->n_drawn = t->misses = t->n_records = t->n_screened = t->n_same = 0;
    t->hints_used = 0;
    t->since_probe = t->since_check = t->since_restart = t->n_checks = 0;
    tt_default(&t->space, &t->best);
    t->best_value = t->best_error = t->cusum_up = t->cusum_down = 0;
    memset(&t->base, 0, sizeof t->base);
    memset(&t->own, 0, sizeof t->own);
}

bool tt_pin(tt_tuner *t, const tt_point *point)
{
    if (!tt_is_inside(&t->space, point)) return false;
    t->phase = TT_PINNED;
    t->best = *point;
    t->best_value = t->best_error = 0;
    t->has_candidate = t->lease = 0;
    t->epoch++;
    return true;
}

static void give(const tt_tuner *t, tt_ticket *ticket, int kind)
{
    ticket->kind = kind;
    if (kind == TT_DEFAULT) tt_default(&t->space, &ticket->point);
    else ticket->point = kind == TT_PROBE ? t->candidate : t->best;
}

static bool is_probe_due(tt_tuner *t, double work, double *limit)
{
    if (t->lease > 0 && --t->lease > 0) return false; /* one is under way */
    tt_point unseen;
    if (tt_to_screen(t, &unseen)) return false;
    if (!t->has_candidate) {
        if (!tt_propose(t)) {
            t->phase = TT_SETTLED;
            t->since_check = 0;
            return false;
        }
        t->has_candidate = 1;
    }
    if (t->phase == TT_PROVING ? t->proof_candidate.n > t->proof_best.n : t->since_probe < 1) return false;
    if (can_pay(t, work)) return is_covered(t, work, limit);
    /* Too risky for now: meanwhile what looked good is proven. What only a glimpse can show is waited for: the gain may be great. */
    if (t->phase == TT_SEARCHING && t->source == TT_HINTS && !is_for_glimpse(t)) (void)tt_take_finalist(t);
    return is_covered(t, work, limit);
}

bool tt_still_fits(const tt_tuner *t, const tt_ticket *ticket)
{
    double limit;
    if (ticket->kind != TT_PROBE || ticket->epoch != t->epoch || ticket->serial != t->serial || t->phase != TT_SEARCHING) return true;
    return !tt_is_twin(t, &ticket->point) && is_covered(t, 1, &limit);
}

void tt_next(tt_tuner *t, double work, tt_ticket *ticket)
{
    ticket->epoch = t->epoch;
    ticket->serial = 0;
    ticket->padding = 0;
    ticket->limit = 0;
    switch (t->phase) {
    case TT_PINNED:
        give(t, ticket, TT_BEST);
        return;
    case TT_WATCHING:
        give(t, ticket, TT_DEFAULT);
        return;
    case TT_SETTLED:
        if (!tt_is_default(t, &t->best) && ++t->since_check >= t->options.recheck) {
            t->since_check = 0;
            give(t, ticket, TT_DEFAULT);
        } else give(t, ticket, TT_BEST);
        return;
    default:
        if (!is_probe_due(t, work, &ticket->limit)) {
            ticket->limit = 0;
            give(t, ticket, TT_BEST);
            return;
        }
        t->lease = t->options.lease;
        t->since_probe = 0;
        ticket->serial = ++t->serial;
        give(t, ticket, TT_PROBE);
    }
}

void tt_return(tt_tuner *t, const tt_ticket *ticket)
{
    t->account.n_lost++;
    if (ticket->kind != TT_PROBE || ticket->epoch != t->epoch || ticket->serial != t->serial) return;
    t->lease = 0;
    t->since_probe = 1; /* it still is its turn */
}

void tt_abandon(tt_tuner *t, const tt_ticket *ticket, double time)
{
    t->account.n_lost++;
    if (time > 0 && !isinf(time)) {
        t->account.total += time;
        if (ticket->kind == TT_PROBE) t->account.probe_loss += time;
    }
    if (ticket->kind != TT_PROBE || ticket->epoch != t->epoch || ticket->serial != t->serial) return;
    /* What made a probe fail may be its values: it is not tried again. */
    t->lease = 0;
    tt_remember(t, &t->candidate, TT_BANNED_VALUE)->is_banned = 1;
    if (t->phase == TT_SEARCHING && t->source == TT_SIMPLEX) tt_simplex_tell(t, TT_BANNED_VALUE);
    drop_candidate(t);
}

void tt_tell(tt_tuner *t, const tt_ticket *ticket, double time, double work)
{
    if (!(time > 0) || !(work > 0) || isinf(time) || isinf(work)) {
        tt_abandon(t, ticket, 0);
        return;
    }
    book(t, ticket, time, work);
    if (ticket->epoch != t->epoch || t->phase == TT_PINNED) return;
    double y = log(time / work);
    if (t->since_restart < INT32_MAX) t->since_restart++; /* short runs are soon so many */
    if (ticket->kind == TT_PROBE) {
        if (ticket->serial != t->serial || !t->has_candidate) return; /* lost long ago */
        t->lease = 0;
        judge(t, y);
        return;
    }
    if (t->since_probe < INT32_MAX) t->since_probe++;
    bool is_best = tt_same(&t->space, &ticket->point, &t->best);
    if (t->phase == TT_WATCHING || (ticket->kind == TT_DEFAULT && !is_best)) note_default(t, y);
    else if (is_best) note_best(t, y);
}

double tt_proven_gain(const tt_tuner *t, double *low, double *high)
{
    bool none = t->phase == TT_PINNED || tt_is_default(t, &t->best), is_rechecked = t->n_checks >= ENOUGH_CHECKS;
    double value = t->best_value, error = SELECTION * t->best_error;
    if (is_rechecked) {
        value = t->own.mean - t->base.mean;
        error = sqrt(tt_variance(&t->base) / fmin(t->base.n, 4) + tt_variance(&t->own) / fmin(t->own.n, MEMORY));
    }
    value = none ? 0 : -value;
    error = none ? 0 : 1.96 * error;
    if (low != NULL) *low = exp(value - error);
    if (high != NULL) *high = exp(value + error);
    return exp(value);
}
