/*
 * trimtab_tuner.h: decides which values a piece of work runs with next, from nothing but how long it took.
 *
 * Promises: a plain struct without pointers (it can live in shared memory or a file), no clock, no lock, no allocation, no
 * input or output. Equal seeds and equal answers give equal decisions. Times are in any unit, as long as it is one unit.
 * The caller holds a lock around each call when several threads or processes share a tuner.
 *
 * The law: whatever is uncertain runs with the default. A point is used only after fresh measurements in turns with what was
 * used before have proven it faster; probing may lose no more than a share of all time (the budget).
 *
 * Sources: random probes, then Nelder-Mead on the lattice, stop when improvement is marginal (Karcher and Landhaeusser 2018);
 * few points, and choices without an order: a bandit by lower confidence bound (Auer, Cesa-Bianchi, Fischer 2002); drift: Page's two-sided CUSUM (1954).
 */
#ifndef TRIMTAB_TUNER_H
#define TRIMTAB_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_MAX_PARAMS 28
#define TT_MAX_HINTS 20
#define TT_MAX_RECORDS 96
/* Changes with every change of the structs below: a block or file of another layout is refused. */
#define TT_LAYOUT 4

/* A level for each parameter, counted from 0. */
typedef struct tt_point {
    int16_t level[TT_MAX_PARAMS];
} tt_point;

typedef struct tt_param_space {
    int32_t n_levels;      /* 1 to 32767 */
    int32_t default_level; /* 0 to n_levels - 1 */
    double risk;           /* loss to expect of a bad level, as a share of the default's time; probes go by it, least first */
} tt_param_space;

typedef struct tt_space {
    int32_t n_params;   /* 1 to TT_MAX_PARAMS */
    uint32_t unordered; /* bit i: the levels of parameter i are choices without an order; no level is near another */
    tt_param_space param[TT_MAX_PARAMS];
} tt_space;

/* 0 in any field stands for its default. */
typedef struct tt_options {
    double budget;      /* share of all time that probing may lose; 0.02 */
    double min_gain;    /* a smaller gain is not worth a change; 0.03 */
    double max_ratio;   /* a probe slower than this times what is used is not repeated, and what contains it is left; 1.5 */
    double max_noise;   /* standard deviation of log time above which nothing is tried; 0.5 */
    double reinvest;    /* share of proven gain that further probing may lose; 0.25 */
    int32_t n_watch;    /* runs with the default before the first probe; 5 */
    int32_t n_random;   /* random probes before the simplex; 2 + number of parameters; -1: none */
    int32_t patience;   /* probes of the simplex without improvement that end the search; 4 + 2 * number of parameters */
    int32_t max_proof;  /* runs of a candidate in its proof; 16 */
    int32_t recheck;    /* once settled, one in so many runs is the default, to see whether it still is slower; 32 */
    int32_t lease;      /* a probe that was not told after so many other runs is lost; 256 */
    int32_t is_screened; /* 1: the caller looks at each point before it is tried, see tt_to_screen; 0 */
    int32_t can_stop;    /* 1: the caller stops a probe at its ticket's limit, and runs the work with what is used; 0 */
    uint64_t seed;      /* of the random probes; 1 */
} tt_options;

enum tt_phase { TT_WATCHING = 0, TT_SEARCHING, TT_PROVING, TT_SETTLED, TT_PINNED };
enum tt_kind { TT_DEFAULT = 0, TT_BEST, TT_PROBE };
enum tt_source { TT_HINTS = 0, TT_RANDOM, TT_SIMPLEX, TT_BANDIT, TT_DONE, TT_CHOICES };

/* One run: what it runs with. Owned by the caller between tt_next and tt_tell or tt_abandon. */
typedef struct tt_ticket {
    tt_point point;
    int32_t kind;
    uint32_t epoch;
    uint32_t serial;
    int32_t padding;
    double limit; /* of a probe's time, after which it is to be stopped and abandoned; 0: none */
} tt_ticket;

/* Mean and spread of log(time / work). */
typedef struct tt_stats {
    double n, mean, m2;
} tt_stats;

typedef struct tt_record {
    tt_point point;
    double value; /* log of its time over the default's */
    int32_t n;
    int32_t is_banned;
    int32_t is_refuted, padding; /* its proof found no gain */
    uint64_t mark; /* of what it does, as the caller told; 0: not looked at */
    double cost;   /* its estimate over the default's */
} tt_record;

/* Where the time went. All sums in the unit of the times told. */
typedef struct tt_account {
    double total;      /* all runs */
    double probe_loss; /* probes slower than the default would have been */
    double kept_loss;  /* runs with the best point slower than the default would have been */
    double gained;     /* runs faster than the default would have been */
    double screening;  /* what looking at points took; in total and probe_loss too */
    uint64_t n_runs, n_probes, n_lost;
} tt_account;

typedef struct tt_simplex {
    int32_t n, stage, at, padding;
    int16_t param[TT_MAX_PARAMS];
    float x[TT_MAX_PARAMS + 1][TT_MAX_PARAMS];
    double f[TT_MAX_PARAMS + 1];
    float trial[TT_MAX_PARAMS], reflected[TT_MAX_PARAMS];
    double f_reflected;
} tt_simplex;

typedef struct tt_tuner {
    tt_space space;
    tt_options options;
    uint64_t random;
    int32_t phase, source;
    uint32_t epoch, serial;
    int32_t lease, has_candidate, n_drawn, misses;
    int32_t n_hints, n_records, since_probe, since_check, n_restarts, n_promoted, since_restart, n_checks, n_screened, n_same;
    uint32_t hints_used, padding;
    tt_point hint[TT_MAX_HINTS];
    tt_point best, candidate;
    double best_value;          /* log of the best's time over the default's, as proven; 0: the default is the best */
    double best_error;          /* its standard error */
    tt_stats base, own;         /* of the default; of the best */
    tt_stats proof_best, proof_candidate;
    double cusum_up, cusum_down;
    double caution;             /* how much riskier than declared probes have been; 1 or more */
    tt_record record[TT_MAX_RECORDS];
    tt_simplex simplex;
    tt_account account;
} tt_tuner;

/* Starts anew. `options` may be NULL. False, and nothing done, if the space is not valid. */
bool tt_tuner_init(tt_tuner *tuner, const tt_space *space, const tt_options *options);

/* Other options from now on; with NULL those that are there, and defaults for their zeros. */
void tt_set_options(tt_tuner *tuner, const tt_options *options);

/* A point worth a try before the random ones: levels that differ from the default's are laid over the best so far.
   False when TT_MAX_HINTS are there or the point is outside the space. */
bool tt_hint(tt_tuner *tuner, const tt_point *point);

/* What the next run shall use; `work` is how much it will do, 0 if not known before. Each ticket ends in tell or abandon. */
void tt_next(tt_tuner *tuner, double work, tt_ticket *ticket);

/* The run took `time` and did `work` (> 0). A run with other values than a number above 0 is taken as abandoned. */
void tt_tell(tt_tuner *tuner, const tt_ticket *ticket, double time, double work);

/* The run failed, was cancelled or cannot be compared; `time` (0 or more) is lost with it. A probe is not tried again. */
void tt_abandon(tt_tuner *tuner, const tt_ticket *ticket, double time);

/* The run never began, or ran with other values: nothing was lost and nothing learnt. */
void tt_return(tt_tuner *tuner, const tt_ticket *ticket);

/* Where a look at a point shows what it does before it runs (the plan of a query), points that do the same are tried once, and the risk of
   the others is known better; each is tried once, and then the best of them are proven. With options.is_screened: the next point to
   look at; no probe is due before. False: none now. */
bool tt_to_screen(tt_tuner *tuner, tt_point *point);

/* What a look at `point` showed, and the `time` it took, which counts as lost. Points of equal `mark` do the same; `mark` 0 is for none and
   TT_AS_DEFAULT for what the default does. `cost` is an estimate of its time over the default's (above 0). */
#define TT_AS_DEFAULT 1
void tt_screen(tt_tuner *tuner, const tt_point *point, uint64_t mark, double cost, double time);

/* Whether the candidate that was handed out, after another look at it, still is worth its risk. */
bool tt_still_fits(const tt_tuner *tuner, const tt_ticket *ticket);

/* The environment changed: measures anew; the best so far is the first to be tried again. */
void tt_restart(tt_tuner *tuner);

/* Uses `point` from now on, without measuring anything against it. False if it is outside the space. */
bool tt_pin(tt_tuner *tuner, const tt_point *point);

/* The default's time over the best's as proven, with the ends of its 95 % interval; 1 for all while nothing is proven. */
double tt_proven_gain(const tt_tuner *tuner, double *low, double *high);

/* What probing may still lose, in the unit of the times; negative when it must pay back first. */
double tt_headroom(const tt_tuner *tuner);

/* Whether every index and count of a tuner that came from elsewhere (a file, a shared block) is in range. */
bool tt_is_sane(const tt_tuner *tuner);

bool tt_same(const tt_space *space, const tt_point *a, const tt_point *b);
void tt_default(const tt_space *space, tt_point *point);

/* Between the files of this library; not for callers. */
#define TT_BANNED_VALUE 2.0 /* what the simplex is told of a point that failed, or contains one that was far too slow */
double tt_variance(const tt_stats *stats);
bool tt_has_order(const tt_space *space, int param);
bool tt_is_inside(const tt_space *space, const tt_point *point);
bool tt_is_default(const tt_tuner *tuner, const tt_point *point);
bool tt_propose(tt_tuner *tuner);
double tt_risk(const tt_tuner *tuner, const tt_point *point);
tt_record *tt_find(tt_tuner *tuner, const tt_point *point);
tt_record *tt_remember(tt_tuner *tuner, const tt_point *point, double value);
tt_record *tt_room(tt_tuner *tuner, const tt_point *point);
bool tt_is_measured(const tt_tuner *tuner, const tt_point *point);
bool tt_is_twin(const tt_tuner *tuner, const tt_point *point);
void tt_reopen_hint(tt_tuner *tuner);
bool tt_take_finalist(tt_tuner *tuner);
void tt_begin_proof(tt_tuner *tuner);
void tt_simplex_begin(tt_tuner *tuner, const tt_point *start, double value);
bool tt_simplex_ask(tt_tuner *tuner, tt_point *point);
void tt_simplex_tell(tt_tuner *tuner, double value);
double tt_random(tt_tuner *tuner);

#ifdef __cplusplus
}
#endif
#endif
