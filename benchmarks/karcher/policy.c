/*
 * Simulates executions of queries whose plans were measured, with the tuner of the PostgreSQL extension in between: policy.py.
 * What plan.c and screen.c of the extension do with a ticket, without PostgreSQL. Input, all numbers, on stdin: see read_input.
 */
#include "trimtab_tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_QUERIES 64
/* As in screen.c. */
#define LOOKS 3
/* Two gains of one statement rarely add up: what a candidate gains in addition to others is taken for a tenth at most. */
#define LEAST_MORE 0.9
#define UNKNOWN_COST 2.0

typedef struct Plan {
    unsigned mark; /* TT_AS_DEFAULT: the default's */
    double ratio, cost;
    int n_plannings; /* of one look */
} Plan;

typedef struct Query {
    double ms, plan_ms;
    Plan plan[TT_MAX_HINTS];
} Query;

typedef struct Class {
    tt_tuner tuner;
    const Query *query;
    double plain_ms, ms;
} Class;

typedef struct Server {
    double total, loss, gained;
    int is_shared; /* one budget for all classes */
} Server;

static tt_space space;
static tt_point hint[TT_MAX_HINTS];
static Query query[MAX_QUERIES];
static int n_hints, n_queries;
static double noise;

static double normal(void)
{
    double u = (rand() + 0.5) / (RAND_MAX + 1.0), v = (rand() + 0.5) / (RAND_MAX + 1.0);
    return sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

static int hint_of(const tt_point *p)
{
    for (int h = 0; h < n_hints; h++)
        if (tt_same(&space, p, &hint[h])) return h;
    return -1;
}

static int is_within(const tt_point *p, const tt_point *part)
{
    for (int i = 0; i < space.n_params; i++)
        if (part->level[i] != space.param[i].default_level && p->level[i] != part->level[i]) return 0;
    return 1;
}

/* What the plan with `p` does; of a point that was not measured what the candidates within it do together. */
static Plan plan_of(const Class *c, const tt_point *p)
{
    Plan plan = {TT_AS_DEFAULT, 1, 1, 2};
    int own = hint_of(p);
    unsigned mark = 0;
    if (own >= 0) return c->query->plan[own];
    for (int h = 0; h < n_hints; h++) {
        const Plan *part = &c->query->plan[h];
        if (!is_within(p, &hint[h]) || part->mark == TT_AS_DEFAULT) continue;
        plan.ratio = mark == 0 ? part->ratio : plan.ratio * fmax(part->ratio, LEAST_MORE);
        mark = mark * 31 + part->mark;
    }
    if (mark > TT_AS_DEFAULT) plan.mark = mark;
    if (mark > TT_AS_DEFAULT) plan.cost = UNKNOWN_COST;
    return plan;
}

static int can_pay(const Server *s, double budget)
{
    return !s->is_shared || budget * s->total + 0.25 * s->gained >= s->loss;
}

static void book(Server *s, const tt_account *before, const tt_account *after)
{
    s->total += after->total - before->total;
    s->loss += after->probe_loss - before->probe_loss + after->kept_loss - before->kept_loss;
    s->gained += after->gained - before->gained;
}

static double look(Class *c, const tt_point *p, int n_more)
{
    Plan plan = plan_of(c, p);
    double ms = c->query->plan_ms * (plan.n_plannings + n_more);
    tt_screen(&c->tuner, p, plan.mark, plan.cost, ms);
    return ms;
}

/* The plans that are compared before the ticket is drawn; the time that it takes. */
static double screen(Class *c, const Server *s)
{
    tt_point p;
    double ms = 0;
    while (can_pay(s, c->tuner.options.budget) && tt_headroom(&c->tuner) > LOOKS * c->query->plan_ms && tt_to_screen(&c->tuner, &p))
        ms += look(c, &p, ms == 0);
    return ms;
}

static void use_best(Class *c, tt_ticket *ticket)
{
    memset(ticket, 0, sizeof *ticket);
    ticket->kind = TT_BEST;
    ticket->epoch = c->tuner.epoch;
    ticket->point = c->tuner.best;
}

/* The ticket of the next execution; the time that looking at plans takes. */
static double draw(Class *c, const Server *s, tt_ticket *ticket)
{
    int is_searching = c->tuner.phase == TT_SEARCHING || c->tuner.phase == TT_PROVING;
    double ms = c->tuner.phase == TT_SEARCHING ? screen(c, s) : 0;
    if (is_searching && !can_pay(s, c->tuner.options.budget)) use_best(c, ticket);
    else tt_next(&c->tuner, 1, ticket);
    if (ticket->kind != TT_PROBE || c->tuner.phase != TT_SEARCHING) return ms;
    ms += look(c, &ticket->point, 1);
    if (tt_still_fits(&c->tuner, ticket)) return ms;
    tt_return(&c->tuner, ticket);
    use_best(c, ticket);
    return ms;
}

static double once(const Class *c, double ratio)
{
    return c->query->ms * ratio * exp(noise * normal());
}

static void execute(Class *c, Server *s)
{
    tt_account before = c->tuner.account;
    tt_ticket ticket;
    double extra = draw(c, s, &ticket), ms = once(c, plan_of(c, &ticket.point).ratio);
    if (ticket.kind == TT_PROBE && ticket.limit > 0 && ms > ticket.limit) {
        extra += ticket.limit;
        tt_abandon(&c->tuner, &ticket, ticket.limit);
        use_best(c, &ticket);
        ms = once(c, plan_of(c, &ticket.point).ratio);
    }
    tt_tell(&c->tuner, &ticket, ms, 1);
    c->ms += ms + extra;
    c->plain_ms += once(c, 1);
    book(s, &before, &c->tuner.account);
}

static void start(Class *c, int which, int seed)
{
    tt_options options = {.budget = 0.02, .min_gain = 0.03, .max_ratio = 1.5, .is_screened = 1, .can_stop = 1, .n_random = 17, .patience = 34};
    memset(c, 0, sizeof *c);
    options.seed = (uint64_t)(which * 1000 + seed) | 1;
    c->query = &query[which];
    tt_tuner_init(&c->tuner, &space, &options);
    for (int h = 0; h < n_hints; h++) tt_hint(&c->tuner, &hint[h]);
}

/* Each query by itself: its number, the ratio over all executions, what the found settings bring, probes; means over the repeats. */
static void each_query(int n, int repeats)
{
    static Class c;
    for (int q = 0; q < n_queries; q++) {
        double ratio = 0, at_the_end = 0, probes = 0;
        srand((unsigned)q + 7);
        for (int r = 0; r < repeats; r++) {
            Server s = {0};
            start(&c, q, r + 1);
            for (int i = 0; i < n; i++) execute(&c, &s);
            ratio += c.plain_ms / c.ms / repeats;
            at_the_end += 1 / plan_of(&c, &c.tuner.best).ratio / repeats;
            probes += (double)c.tuner.account.n_probes / repeats;
        }
        printf("query %d %.4f %.4f %.1f\n", q + 1, ratio, at_the_end, probes);
    }
}

/* All queries one after another in one server: the ratio over all rounds, and over the last third. */
static void stream(int rounds, int repeats)
{
    static Class c[MAX_QUERIES];
    double ratio = 0, settled = 0;
    for (int r = 0; r < repeats; r++) {
        Server s = {.is_shared = 1};
        double plain = 0, ours = 0, plain_before = 0, ours_before = 0;
        srand((unsigned)r + 100);
        for (int q = 0; q < n_queries; q++) start(&c[q], q, r + 1);
        for (int i = 0; i < rounds; i++) {
            if (i == rounds - rounds / 3) plain_before = plain, ours_before = ours;
            plain = ours = 0;
            for (int q = 0; q < n_queries; q++) execute(&c[q], &s), plain += c[q].plain_ms, ours += c[q].ms;
        }
        ratio += plain / ours / repeats;
        settled += (plain - plain_before) / (ours - ours_before) / repeats;
    }
    printf("stream %d %.4f %.4f\n", rounds, ratio, settled);
}

static double number(void)
{
    double x;
    if (scanf("%lf", &x) != 1) {
        fprintf(stderr, "error: the input ends too early\n");
        exit(2);
    }
    return x;
}

/* The length of a list. */
static int length(int most)
{
    int n = (int)number();
    if (n >= 1 && n <= most) return n;
    fprintf(stderr, "error: a list of %d, not 1 to %d\n", n, most);
    exit(2);
}

/* Parameters (levels, the default's, risk), candidates (a level for each parameter), queries (ms, ms of a planning, and for each
   candidate: mark, time and estimate over the default's, plannings of a look). Each list begins with its length. */
static void read_input(void)
{
    space.n_params = length(TT_MAX_PARAMS);
    for (int i = 0; i < space.n_params; i++) {
        space.param[i].n_levels = (int)number();
        space.param[i].default_level = (int)number();
        space.param[i].risk = number();
    }
    n_hints = length(TT_MAX_HINTS);
    for (int h = 0; h < n_hints; h++)
        for (int i = 0; i < space.n_params; i++) hint[h].level[i] = (int16_t)number();
    n_queries = length(MAX_QUERIES);
    for (int q = 0; q < n_queries; q++) {
        query[q].ms = number();
        query[q].plan_ms = number();
        for (int h = 0; h < n_hints; h++) {
            Plan *plan = &query[q].plan[h];
            plan->mark = (unsigned)number();
            plan->ratio = number();
            plan->cost = number();
            plan->n_plannings = (int)number();
        }
    }
}

int main(int argc, char **argv)
{
    int executions = argc > 1 ? atoi(argv[1]) : 50, rounds = argc > 2 ? atoi(argv[2]) : 60, repeats = argc > 3 ? atoi(argv[3]) : 40;
    noise = argc > 4 ? atof(argv[4]) : 0.05;
    read_input();
    each_query(executions, repeats);
    stream(rounds, repeats);
    return 0;
}
