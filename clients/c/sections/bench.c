/*
 * What a section costs: a begin and end, by number of threads, beside a read of the clock alone. The work is empty, so its times are
 * mostly those of the clock and drift as that does: the section searches, settles, and searches again.
 * Nanoseconds of CPU time a call (begin and end are two), as JSON: what else the machine does hardly changes them. bench [RUNS];
 * `make bench` builds and runs it.
 */
#define _POSIX_C_SOURCE 200809L
#include "trimtab_sections.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static tt_section *section;
static int n_runs = 2000000;

static double read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Of all threads. */
static double cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void *drive(void *nothing)
{
    tt_run run;
    for (int i = 0; i < n_runs; i++) {
        tt_begin(section, &run, 1);
        tt_end(section, &run, 1);
    }
    return nothing;
}

static double with_threads(int n)
{
    pthread_t thread[8];
    double began = cpu_ns();
    for (int i = 0; i < n; i++) pthread_create(&thread[i], NULL, drive, NULL);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    return (cpu_ns() - began) / (2.0 * n * n_runs);
}

int main(int argc, char **argv)
{
    const tt_param params[] = {{.name = "a", .low = 0, .high = 7, .initial = 2}, {.name = "b", .low = 0, .high = 7, .initial = 2}};
    tt_group *group = tt_group_open(NULL, NULL);
    if (argc > 1) n_runs = atoi(argv[1]);
    section = group == NULL ? NULL : tt_section_open(group, "bench", params, 2, NULL);
    if (section == NULL || n_runs < 1) return 1;
    double began = cpu_ns(), sink = 0;
    for (int i = 0; i < n_runs; i++) sink += read_ns(CLOCK_MONOTONIC);
    double clock_ns = (cpu_ns() - began) / n_runs;
    drive(NULL); /* the first search */
    double one = with_threads(1), two = with_threads(2);
    printf("{\"clock_ns\": %.1f, \"call_ns\": %.1f, \"call_ns_2_threads\": %.1f, \"is_real\": %d}\n", clock_ns, one, two, sink > 0);
    tt_group_close(group);
    return 0;
}
