/*
 * Runs a tuner on pieces of work that exist on paper only and prints a line of JSON for each: what all runs took over what the
 * default would have taken (`ratio`), what the best point is worth, and how far probing ever went beyond its budget (`overdrawn`,
 * in runs of the default). simulate LANDSCAPE NOISE RUNS SEEDS PARAMS LEVELS
 *
 * In "choices" the first parameter is a choice of algorithms, of which one is the fastest; in "mistaken" the same is declared as if
 * they had an order.
 */
#include "trimtab_tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long state;

static double uniform(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

#define MAX_LEVELS 64
static double algorithm[MAX_LEVELS]; /* log of its time over the default's, which is level 2 */
static int fastest;

static void draw_algorithms(int n_levels)
{
    for (int i = 0; i < n_levels; i++) algorithm[i] = 0.1 + 0.5 * uniform();
    do fastest = (int)(n_levels * uniform());
    while (fastest == 2);
    algorithm[fastest] = -0.5;
    algorithm[2] = 0;
}

static bool has_algorithms(const char *landscape)
{
    return strcmp(landscape, "choices") == 0 || strcmp(landscape, "mistaken") == 0;
}

/* Log of the time over the default's; the default is level 2 of each parameter. */
static double truth(const char *landscape, const tt_space *s, const tt_point *p, int run, int n_runs)
{
    double sum = 0;
    if (strcmp(landscape, "flat") == 0) return 0;
    if (strcmp(landscape, "traps") == 0) { /* the default is the best of all; everything else is slower, much of it far slower */
        for (int i = 0; i < s->n_params; i++) sum += 0.4 * abs(p->level[i] - 2);
        return sum;
    }
    if (strcmp(landscape, "turning") == 0 && run > n_runs / 2) /* what was fast becomes slow */
        return p->level[0] == 2 ? 0 : 0.3 * (p->level[0] - 2);
    if (has_algorithms(landscape)) sum = algorithm[p->level[0]];
    for (int i = has_algorithms(landscape) ? 1 : 0; i < s->n_params; i++) { /* a bowl: each parameter has its own best level */
        double aim = i % 3 == 0 ? 6 : i % 3 == 1 ? 2 : 4, here = p->level[i] - aim, there = 2 - aim;
        sum += 0.03 * (here * here - there * there);
    }
    return sum;
}

static void simulate(const char *landscape, double noise, int n_runs, int seed, int n_params, int n_levels)
{
    tt_tuner tuner;
    tt_space space = {0};
    tt_options options = {0};
    double all = 0, plain = 0, overdrawn = 0;
    space.n_params = n_params;
    for (int i = 0; i < n_params; i++) {
        space.param[i].n_levels = n_levels;
        space.param[i].default_level = 2;
        space.param[i].risk = 0.1;
    }
    space.unordered = strcmp(landscape, "choices") == 0;
    options.seed = (unsigned)seed;
    state = (unsigned)seed * 7919ULL + 17;
    if (has_algorithms(landscape)) draw_algorithms(n_levels);
    if (!tt_tuner_init(&tuner, &space, &options)) exit(2);
    for (int run = 0; run < n_runs; run++) {
        tt_ticket ticket;
        tt_next(&tuner, 0, &ticket);
        double chance = exp(noise * normal()) * (run == 0 ? 3 : 1);
        double scale = strcmp(landscape, "turning") == 0 && run > n_runs / 2 ? 1.6 : 1;
        double time = scale * chance * exp(truth(landscape, &space, &ticket.point, run, n_runs));
        all += time;
        plain += scale * chance;
        tt_tell(&tuner, &ticket, time, 1);
        overdrawn = fmax(overdrawn, (all - plain - tuner.options.budget * all));
        if (!tt_is_sane(&tuner)) exit(3);
    }
    double low, high, gain = tt_proven_gain(&tuner, &low, &high);
    printf("{\"seed\": %d, \"ratio\": %.4f, \"truth\": %.4f, \"gain\": %.4f, \"low\": %.4f, \"high\": %.4f, \"overdrawn\": %.3f, "
           "\"probes\": %llu, \"restarts\": %d, \"phase\": %d, \"is_fastest\": %d}\n",
           seed, all / plain, exp(truth(landscape, &space, &tuner.best, n_runs, n_runs)), gain, low, high, overdrawn,
           (unsigned long long)tuner.account.n_probes, tuner.n_restarts, tuner.phase, tuner.best.level[0] == fastest);
}

int main(int argc, char **argv)
{
    if (argc != 7 || atoi(argv[6]) > MAX_LEVELS) return 2;
    for (int seed = 1; seed <= atoi(argv[4]); seed++)
        simulate(argv[1], atof(argv[2]), atoi(argv[3]), seed, atoi(argv[5]), atoi(argv[6]));
    return 0;
}
