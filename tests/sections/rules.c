/*
 * Rules of the tuner that must hold at every run, checked on work that exists on paper. rules NAME: prints "ok", or what failed.
 */
#include "trimtab_tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SEEDS 100

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            printf("seed %d run %d line %d: %s\n", seed, run, __LINE__, #what);        \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static int seed, run;
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

static void begin(tt_tuner *tuner, int n_params, int n_levels, uint32_t unordered, const tt_options *given)
{
    tt_space space;
    tt_options options = {0};
    memset(&space, 0, sizeof space);
    space.n_params = n_params;
    space.unordered = unordered;
    for (int i = 0; i < n_params; i++) space.param[i] = (tt_param_space){n_levels, 2, 0.1};
    if (given != NULL) options = *given;
    options.seed = (uint64_t)seed;
    state = (unsigned long long)seed * 7919 + 17;
    CHECK(tt_tuner_init(tuner, &space, &options));
}

/* Nothing is tried while runs vary so much that a gain could not be told from chance; it is tried once they are calm. */
static void check_noise(void)
{
    int n_touched = 0;
    for (seed = 1; seed <= N_SEEDS; seed++) {
        tt_tuner tuner;
        begin(&tuner, 2, 8, 0, NULL);
        bool is_touched = false;
        for (run = 0; run < 900; run++) {
            tt_ticket ticket;
            bool was_watching = tuner.phase == TT_WATCHING;
            double noise = run < 500 ? 2.0 : 0.05;
            tt_next(&tuner, 1, &ticket);
            CHECK(!was_watching || (ticket.kind == TT_DEFAULT && tt_is_default(&tuner, &ticket.point)));
            is_touched |= run < 500 && ticket.kind == TT_PROBE;
            tt_tell(&tuner, &ticket, exp(noise * normal() - 0.05 * ticket.point.level[0]), 1);
            if (was_watching && tuner.phase == TT_SEARCHING) CHECK(sqrt(tt_variance(&tuner.base)) <= tuner.options.max_noise && tuner.base.n >= 5);
            if (run == 499 && !is_touched) CHECK(tuner.account.n_probes == 0 && tuner.account.probe_loss <= 0 && tuner.account.kept_loss <= 0);
        }
        n_touched += is_touched;
        if (!is_touched) CHECK(tuner.account.n_probes > 0 && tuner.best.level[0] > 2);
    }
    if (n_touched > N_SEEDS / 20) printf("n_touched=%d\n", n_touched), exit(1);
}

/* Who allows more noise gets more. */
static void check_allowed_noise(void)
{
    tt_options options = {.max_noise = 100};
    for (seed = 1; seed <= N_SEEDS; seed++) {
        tt_tuner tuner;
        begin(&tuner, 2, 8, 0, &options);
        for (run = 0; run < 500; run++) {
            tt_ticket ticket;
            tt_next(&tuner, 1, &ticket);
            tt_tell(&tuner, &ticket, exp(2 * normal()), 1);
        }
        CHECK(tuner.account.n_probes > 0);
    }
}

/* Whether `p` changes what `slow` changes, at the same level or further out; of a choice, at the same one. */
static bool repeats(const tt_space *space, const tt_point *p, const tt_point *slow)
{
    for (int i = 0; i < space->n_params; i++) {
        int from = space->param[i].default_level, change = slow->level[i] - from;
        bool is_choice = (space->unordered >> i & 1) != 0;
        if (change == 0) continue;
        if (is_choice ? p->level[i] != slow->level[i] : change > 0 ? p->level[i] < slow->level[i] : p->level[i] > slow->level[i]) return false;
    }
    return true;
}

/* A cliff beyond level 4 of the first and below level 1 of the second parameter, and a choice that is far too slow. */
static double on_cliff(const tt_point *p)
{
    return (p->level[0] > 4 ? 3 : 1) * (p->level[1] < 1 ? 2 : 1) * (p->level[2] == 5 ? 4 : 1) * exp(-0.02 * p->level[1] - 0.03 * p->level[0]);
}

/* A probe that was slower than max_ratio times what is used is not repeated, and nothing that contains its changes is tried. */
static void check_far_too_slow(uint32_t unordered, double max_ratio, int n_levels, bool is_expected)
{
    int n_slow = 0;
    for (seed = 1; seed <= N_SEEDS; seed++) {
        tt_tuner tuner;
        tt_options options = {.max_ratio = max_ratio, .n_random = 20};
        tt_point slow[64];
        int n = 0;
        begin(&tuner, 3, n_levels, unordered, &options);
        for (run = 0; run < 4000; run++) {
            tt_ticket ticket;
            tt_next(&tuner, 1, &ticket);
            double time = on_cliff(&ticket.point), used = on_cliff(&tuner.best);
            for (int i = 0; i < n && ticket.kind == TT_PROBE; i++) CHECK(!repeats(&tuner.space, &ticket.point, &slow[i]));
            if (ticket.kind == TT_PROBE && time > 1.001 * max_ratio * used && n < 64) slow[n++] = ticket.point;
            tt_tell(&tuner, &ticket, time, 1);
        }
        n_slow += n;
    }
    if ((n_slow > 0) != is_expected) printf("n_slow=%d\n", n_slow), exit(1);
}

/* No choice is nearer than another, and no simplex moves between them. */
static void check_choices(void)
{
    int n_simplex = 0;
    for (seed = 1; seed <= N_SEEDS; seed++) {
        tt_tuner tuner;
        begin(&tuner, 3, 8, 4, NULL);
        for (int level = 0; level < 8; level++) {
            tt_point p = {{2, 2, (int16_t)level}};
            CHECK(fabs(tt_risk(&tuner, &p) - (level == 2 ? 0 : 0.1)) < 1e-9);
        }
        for (run = 0; run < 1500; run++) {
            tt_ticket ticket;
            tt_next(&tuner, 1, &ticket);
            bool is_simplex = ticket.kind == TT_PROBE && tuner.source == TT_SIMPLEX;
            CHECK(!is_simplex || ticket.point.level[2] == tuner.best.level[2]);
            n_simplex += is_simplex;
            tt_tell(&tuner, &ticket, on_cliff(&ticket.point) * (ticket.point.level[2] == 7 ? 0.8 : 1), 1);
        }
        CHECK(tuner.best.level[2] == 7);
    }
    if (n_simplex == 0) puts("no simplex"), exit(1);
}

/* A run of much work may lose more: it is a probe only if that much is covered. */
static void check_large_work(void)
{
    for (seed = 1; seed <= N_SEEDS; seed++) {
        tt_tuner tuner;
        int n_small = 0, n_large = 0;
        begin(&tuner, 2, 8, 0, NULL);
        for (run = 0; run < 400; run++) {
            double work = run % 3 == 0 ? 200 : 1, room = tt_headroom(&tuner);
            tt_ticket ticket;
            tt_next(&tuner, work, &ticket);
            if (ticket.kind == TT_PROBE && tuner.phase == TT_SEARCHING) {
                double risk = tt_risk(&tuner, &ticket.point) * tuner.caution * exp(tuner.base.mean) * work;
                CHECK(room >= 0.999 * risk);
                n_small += work < 2;
                n_large += work > 2;
            }
            tt_tell(&tuner, &ticket, work * exp(0.02 * normal() + 0.1 * abs(ticket.point.level[0] - 2)), work);
        }
        CHECK(n_small > n_large);
    }
}

/* The same tuner, asked for a small run, probes, and asked for a large one, does not; without a word of work it takes a usual one. */
static void check_can_pay(void)
{
    for (seed = 1; seed <= N_SEEDS; seed++) {
        tt_tuner tuner, asked;
        tt_ticket ticket;
        begin(&tuner, 2, 8, 0, NULL);
        for (run = 0; run < 1000; run++) {
            asked = tuner;
            tt_next(&asked, 1, &ticket);
            if (ticket.kind == TT_PROBE) break;
            tt_next(&tuner, 1, &ticket);
            tt_tell(&tuner, &ticket, 7 * exp(0.02 * normal()), 1); /* 7 for each unit of work */
        }
        CHECK(ticket.kind == TT_PROBE);
        double most = tt_headroom(&tuner) / (tt_risk(&asked, &ticket.point) * asked.caution * exp(tuner.base.mean));
        const struct {
            double work;
            bool is_probe;
        } cases[] = {{0.5, true}, {0.99 * most, true}, {1.01 * most, false}, {1000, false}, {0, most >= 1}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            asked = tuner;
            tt_next(&asked, cases[i].work, &ticket);
            CHECK((ticket.kind == TT_PROBE) == cases[i].is_probe);
        }
    }
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";
    if (strcmp(name, "noise") == 0) check_noise(), check_allowed_noise();
    else if (strcmp(name, "slow") == 0) check_far_too_slow(0, 1.5, 8, true), check_far_too_slow(0, 20, 8, false);
    else if (strcmp(name, "slow-choices") == 0) check_far_too_slow(4, 1.5, 8, true), check_far_too_slow(7, 1.5, 6, true);
    else if (strcmp(name, "choices") == 0) check_choices();
    else if (strcmp(name, "work") == 0) check_large_work(), check_can_pay();
    else return 2;
    puts("ok");
    return 0;
}
