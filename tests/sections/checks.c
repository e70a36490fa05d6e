/*
 * What must hold in C itself, for the sanitizers: threads that share a section, a tuner told nonsense, processes that share a block
 * while all live and when some die. checks BLOCK: prints "ok" or the line that failed; checks BLOCK learn: see learn; checks BLOCK json LOCALE: what it learnt as JSON. The clock is the caller's: no check depends on how fast this runs.
 */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include "trimtab_sections.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                   \
    do {                                                              \
        if (!(what)) {                                                \
            printf("line %d: %s\n", __LINE__, #what);                 \
            exit(1);                                                  \
        }                                                             \
    } while (0)

static __thread uint64_t now;
static uint64_t my_clock(void)
{
    return now;
}

static tt_section *section;
static long shared_value = 2;

static void *work(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    for (int i = 0; i < 4000; i++) {
        tt_run run;
        tt_begin(section, &run, 1);
        long x = tt_value(section, &run, 0);
        now += (uint64_t)(1000 + 100 * labs(x - 6) + (state = state * 1103515245u + 12345u) / 65536 % 20);
        /* not a probe: what a cancelled one tried, and all beyond it, is not tried again, were it the fastest */
        if (i % 97 == 0 && run.ticket.kind != TT_PROBE) tt_cancel(section, &run);
        else tt_end(section, &run, 1);
    }
    return NULL;
}

static void check_threads(void)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2}};
    pthread_t thread[4];
    tt_tuner tuner;
    tt_group *group = tt_group_open(NULL, my_clock);
    CHECK((section = tt_section_open(group, "threads", params, 1, NULL)) != NULL);
    for (size_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    tt_section_tuner(section, &tuner);
    CHECK(tt_is_sane(&tuner) && tuner.best.level[0] == 6);
    CHECK(tuner.account.n_runs + tuner.account.n_lost == 16000);
    tt_group_close(group);
}

/* What made a probe fail may be its values: it is not tried again. */
static void check_cancelled(void)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2}};
    tt_group *group = tt_group_open(NULL, my_clock);
    long cancelled = -1;
    CHECK((section = tt_section_open(group, "cancelled", params, 1, NULL)) != NULL);
    for (int i = 0; i < 4000; i++) {
        tt_run run;
        tt_begin(section, &run, 1);
        long x = tt_value(section, &run, 0);
        now += (uint64_t)(1000 + 100 * labs(x - 6));
        CHECK(x != cancelled);
        if (cancelled >= 0 || run.ticket.kind != TT_PROBE) tt_end(section, &run, 1);
        else {
            cancelled = x;
            tt_cancel(section, &run);
        }
    }
    CHECK(cancelled >= 0);
    tt_group_close(group);
}

static void *overlap(void *nothing)
{
    for (int i = 0; i < 2000; i++) {
        tt_run run;
        tt_begin(section, &run, 1);
        long before = shared_value;
        sched_yield();
        CHECK(shared_value == before); /* nobody changes it while anybody is inside */
        now += 1000;
        tt_end(section, &run, 1);
    }
    return nothing;
}

static void check_addresses(void)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2, .address = &shared_value}};
    pthread_t thread[3];
    tt_group *group = tt_group_open(NULL, my_clock);
    CHECK((section = tt_section_open(group, "addresses", params, 1, NULL)) != NULL);
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, overlap, NULL);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    tt_group_close(group);
}

static void check_nonsense(void)
{
    tt_space space = {.n_params = 2, .param = {{5, 2, 0.1}, {1, 0, 0.1}}};
    static const double bad[] = {0, -1, NAN, INFINITY};
    tt_tuner tuner;
    tt_point outside = {{5, 0}};
    CHECK(tt_tuner_init(&tuner, &space, NULL));
    CHECK(!tt_hint(&tuner, &outside) && !tt_pin(&tuner, &outside));
    for (int i = 0; i < 4000; i++) {
        tt_ticket ticket;
        tt_next(&tuner, 0, &ticket);
        double time = i % 5 == 0 ? bad[i / 5 % 4] : 1 + 0.01 * (i % 3);
        tt_tell(&tuner, &ticket, time, i % 7 == 0 ? bad[i / 7 % 4] : 1);
        if (i % 11 == 0) tt_tell(&tuner, &ticket, time, 1); /* told twice */
        if (i % 501 == 0) tt_restart(&tuner);
        CHECK(tt_is_sane(&tuner) && !isnan(tuner.account.total) && !isnan(tt_headroom(&tuner)));
    }
    tuner.since_restart = tuner.since_probe = INT32_MAX; /* as after an hour of runs of a microsecond */
    for (int i = 0; i < 5; i++) {
        tt_ticket ticket;
        tt_next(&tuner, 0, &ticket);
        tt_tell(&tuner, &ticket, 1, 1);
        CHECK(tt_is_sane(&tuner));
    }
    space.param[0].default_level = 5;
    CHECK(!tt_tuner_init(&tuner, &space, NULL));
    space.n_params = TT_MAX_PARAMS + 1;
    CHECK(!tt_tuner_init(&tuner, &space, NULL));
}

/* A program whose section cannot be opened, on a machine that has too few of something, goes on with what it has. */
static void check_no_section(void)
{
    long value = 8;
    const tt_param param = {.name = "x", .low = 1, .high = 4, .initial = 8, .address = &value};
    tt_group *group = tt_group_open(NULL, NULL);
    tt_section *none = tt_section_open(group, "s", &param, 1, NULL);
    char json[] = "before";
    tt_tuner tuner;
    tt_run run;
    CHECK(none == NULL && tt_section_open(NULL, "s", &param, 1, NULL) == NULL);
    tt_begin(none, &run, 1);
    CHECK(value == 8 && tt_value(none, &run, 0) == 0);
    tt_end(none, &run, 1);
    tt_begin(none, &run, 1);
    tt_cancel(none, &run);
    CHECK(value == 8 && tt_section_json(none, json, sizeof json) == 0 && json[0] == '\0');
    tt_section_tuner(none, &tuner);
    CHECK(tuner.account.n_runs == 0);
    tt_group_close(group);
    tt_group_close(NULL);
}

/* However often the environment changes: what was best stands among the hints once, and pushes none out that was there. */
static void check_hints_after_restarts(void)
{
    const tt_space space = {.n_params = 2, .param = {{30, 0, 0.1}, {30, 0, 0.1}}};
    tt_tuner tuner;
    CHECK(tt_tuner_init(&tuner, &space, NULL));
    for (int16_t i = 1; i < TT_MAX_HINTS; i++) CHECK(tt_hint(&tuner, &(tt_point){{i, 0}}));
    for (int i = 0; i < 50; i++) {
        const tt_point best = {{3, i % 2 == 0 ? 0 : 7}};
        CHECK(tt_pin(&tuner, &best));
        tt_restart(&tuner);
        CHECK(tt_is_sane(&tuner) && tt_same(&space, &tuner.hint[0], &best));
    }
    CHECK(tuner.n_hints == TT_MAX_HINTS);
    for (int16_t i = 1; i < TT_MAX_HINTS; i++) {
        bool is_there = false;
        for (int h = 0; h < tuner.n_hints; h++) is_there |= tt_same(&space, &tuner.hint[h], &(tt_point){{i, 0}});
        CHECK(is_there);
    }
}

/* Children die at any instant, some of them with the lock of the slot: those that come after go on. */
static void check_deaths(const char *path)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2}};
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            tt_group *group = tt_group_open(path, my_clock);
            section = tt_section_open(group, "deaths", params, 1, NULL);
            for (;;) {
                tt_run run;
                tt_begin(section, &run, 1);
                now += (uint64_t)(1000 + 100 * labs(tt_value(section, &run, 0) - 6));
                tt_end(section, &run, 1);
            }
        }
        nanosleep(&(struct timespec){0, 3000000}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    tt_group *group = tt_group_open(path, my_clock);
    tt_tuner tuner;
    CHECK(tt_group_error(group)[0] == '\0');
    CHECK((section = tt_section_open(group, "deaths", params, 1, NULL)) != NULL);
    work((void *)1);
    tt_section_tuner(section, &tuner);
    CHECK(tt_is_sane(&tuner) && tuner.best.level[0] == 6);
    tt_group_close(group);
}

enum { N_TOGETHER = 2000, N_SEEN = 300 };

/* Counts of what two processes did, which both see. A child ends when it has done enough after the other has; or, where that is to die,
   after its death: what it held then is begun anew. */
typedef struct together {
    int done[2], one_dies, is_dead;
} together;

static void work_together(const char *path, together *both, int me)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2}};
    tt_group *group = tt_group_open(path, my_clock);
    section = tt_section_open(group, "together", params, 1, NULL);
    CHECK(section != NULL && tt_group_error(group)[0] == '\0');
    for (int after = 0; after < N_TOGETHER;) {
        tt_run run;
        tt_begin(section, &run, 1);
        now += (uint64_t)(1000 + 100 * labs(tt_value(section, &run, 0) - 6));
        tt_end(section, &run, 1);
        __atomic_add_fetch(&both->done[me], 1, __ATOMIC_SEQ_CST);
        after += both->one_dies ? __atomic_load_n(&both->is_dead, __ATOMIC_SEQ_CST)
                                : __atomic_load_n(&both->done[1 - me], __ATOMIC_SEQ_CST) >= N_SEEN;
    }
    tt_tuner tuner;
    tt_section_tuner(section, &tuner);
    CHECK(tuner.best.level[0] == 6); /* what both have learnt */
    tt_group_close(group);
}

static void start_together(const char *path, together *both, int one_dies, pid_t child[2])
{
    memset(both, 0, sizeof *both);
    both->one_dies = one_dies;
    for (int me = 0; me < 2; me++) {
        child[me] = fork();
        if (child[me] != 0) continue;
        work_together(path, both, me);
        _exit(0);
    }
}

/* Two processes that live at the same time learn the same, and no run of either is lost. */
static void check_together(const char *path, together *both)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2}};
    pid_t child[2];
    int status;
    start_together(path, both, 0, child);
    for (int me = 0; me < 2; me++) CHECK(waitpid(child[me], &status, 0) == child[me] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tt_group *group = tt_group_open(path, my_clock);
    tt_tuner tuner;
    CHECK((section = tt_section_open(group, "together", params, 1, NULL)) != NULL);
    tt_section_tuner(section, &tuner);
    CHECK((int)tuner.account.n_runs == both->done[0] + both->done[1] && both->done[0] >= N_TOGETHER && tuner.account.n_lost == 0);
    tt_group_close(group);
}

/* One of two dies while it works, perhaps with the lock: the other goes on and has learnt in the end. */
static void check_one_dies(const char *path, together *both)
{
    pid_t child[2];
    int status;
    start_together(path, both, 1, child);
    while (__atomic_load_n(&both->done[1], __ATOMIC_SEQ_CST) < N_SEEN) sched_yield();
    kill(child[1], SIGKILL);
    CHECK(waitpid(child[1], &status, 0) == child[1]);
    __atomic_store_n(&both->is_dead, 1, __ATOMIC_SEQ_CST);
    CHECK(waitpid(child[0], &status, 0) == child[0] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What may be lost is the program's to say, each time anew: it goes on with what the file knows, as it says now. */
static void check_new_limits(const char *path)
{
    tt_param param = {.name = "x", .low = 0, .high = 7, .initial = 2, .risk = 0.1};
    tt_options options = {.budget = 0.05};
    tt_tuner before, after;
    tt_group *group = tt_group_open(path, my_clock);
    CHECK((section = tt_section_open(group, "limits", &param, 1, &options)) != NULL);
    work((void *)1);
    tt_section_tuner(section, &before);
    tt_group_close(group);
    param.risk = 0.5;
    options.budget = 0.01;
    group = tt_group_open(path, my_clock);
    CHECK((section = tt_section_open(group, "limits", &param, 1, &options)) != NULL && tt_group_error(group)[0] == '\0');
    tt_section_tuner(section, &after);
    CHECK(after.account.n_runs == before.account.n_runs && after.best.level[0] == before.best.level[0]);
    CHECK(after.options.budget == 0.01 && after.space.param[0].risk == 0.5);
    tt_group_close(group);
}

/* One process that begins with what a file knows, learns, and says which value it began with, where it ended, and the message. */
static void learn(const char *path)
{
    static const long values[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const tt_param params[] = {{.name = "x", .values = values, .n_values = 8, .initial = 2}};
    tt_group *group = tt_group_open(path, my_clock);
    tt_tuner tuner;
    CHECK((section = tt_section_open(group, "s", params, 1, NULL)) != NULL);
    tt_section_tuner(section, &tuner);
    printf("begins with %ld, ", values[tuner.best.level[0]]);
    work((void *)1);
    tt_section_tuner(section, &tuner);
    printf("learnt %ld: %.*s\n", values[tuner.best.level[0]], (int)strcspn(tt_group_error(group), "\n"), tt_group_error(group));
    tt_group_close(group);
}

/* In a program that writes numbers as people of some country do. */
static void show(const char *path, const char *country)
{
    const tt_param params[] = {{.name = "x", .low = 0, .high = 7, .initial = 2}};
    char json[2048];
    tt_group *group = tt_group_open(path, my_clock);
    CHECK(setlocale(LC_NUMERIC, country) != NULL && (section = tt_section_open(group, "s", params, 1, NULL)) != NULL);
    work((void *)1);
    CHECK(tt_section_json(section, json, sizeof json) < (int)sizeof json);
    puts(json);
    tt_group_close(group);
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        show(argv[1], argv[3]);
        return 0;
    }
    if (argc > 2) {
        learn(argv[1]);
        return 0;
    }
    together *both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check_nonsense();
    check_no_section();
    check_hints_after_restarts();
    check_threads();
    check_cancelled();
    check_addresses();
    if (argc > 1) {
        check_deaths(argv[1]);
        check_new_limits(argv[1]);
        check_together(argv[1], both);
        for (int round = 0; round < 5; round++) check_one_dies(argv[1], both);
    }
    puts("ok");
    return 0;
}
