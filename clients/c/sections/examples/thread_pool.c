/*
 * A pool of threads that finds how many of them to use, and how many items each takes at a time: few threads leave cores idle, many
 * wait for each other; small batches queue for the lock, large ones leave the last thread alone with the rest. What is computed is the
 * same with all of them. `thread_pool [RUNS]` prints what was learnt, as JSON.
 */
#define _POSIX_C_SOURCE 200809L
#include "trimtab_sections.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define N_THREADS 8
#define N_ITEMS 20000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t begins, ended;
    long n_active, batch; /* tuned; changed between two jobs only */
    long next, sum;
    unsigned job;
    int n_busy;
    bool is_over;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .begins = PTHREAD_COND_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER, .n_active = 1, .batch = 1};

static long cost_of(long item)
{
    unsigned x = (unsigned)item;
    for (int i = 0; i < 20; i++) x = x * 1103515245u + 12345u;
    return x >> 16;
}

/* Batch after batch until nothing is left; the lock is held, but for the work. */
static void work(void)
{
    while (pool.next < N_ITEMS) {
        long from = pool.next, to = from + pool.batch < N_ITEMS ? from + pool.batch : N_ITEMS, sum = 0;
        pool.next = to;
        pthread_mutex_unlock(&pool.lock);
        for (long item = from; item < to; item++) sum += cost_of(item);
        pthread_mutex_lock(&pool.lock);
        pool.sum += sum;
    }
}

static void *serve(void *number)
{
    unsigned seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.is_over && pool.job == seen) pthread_cond_wait(&pool.begins, &pool.lock);
        if (pool.is_over) break;
        seen = pool.job;
        if (*(const long *)number < pool.n_active) work();
        if (--pool.n_busy == 0) pthread_cond_signal(&pool.ended);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static long run_job(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.next = pool.sum = 0;
    pool.n_busy = N_THREADS;
    pool.job++;
    pthread_cond_broadcast(&pool.begins);
    while (pool.n_busy > 0) pthread_cond_wait(&pool.ended, &pool.lock);
    long sum = pool.sum;
    pthread_mutex_unlock(&pool.lock);
    return sum;
}

/* The library calls it before a run whose value differs from the one before. */
static void set_active(void *n_changes, long value)
{
    pool.n_active = value;
    ++*(int *)n_changes;
}

int main(int argc, char **argv)
{
    static const long batches[] = {1, 4, 16, 64, 256, 1024};
    static pthread_t thread[N_THREADS];
    static long number[N_THREADS];
    int n_runs = argc > 1 ? atoi(argv[1]) : 2000, n_changes = 0;
    const tt_param params[] = {
        {.name = "threads", .low = 1, .high = N_THREADS, .initial = 1, .set = set_active, .context = &n_changes},
        {.name = "batch", .values = batches, .n_values = 6, .initial = 1, .address = &pool.batch},
    };
    char json[1024];
    long expected = 0;
    tt_group *group = tt_group_open(NULL, NULL);
    tt_section *section = group == NULL ? NULL : tt_section_open(group, "pool", params, 2, NULL);
    if (section == NULL) return 1;
    for (long i = 0; i < N_ITEMS; i++) expected += cost_of(i);
    for (long i = 0; i < N_THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, serve, &number[i]) != 0) return 1;
    }
    for (int r = 0; r < n_runs; r++) {
        tt_run run;
        tt_begin(section, &run, N_ITEMS);
        long sum = run_job();
        tt_end(section, &run, N_ITEMS);
        if (sum != expected) return 2;
    }
    pthread_mutex_lock(&pool.lock);
    pool.is_over = true;
    pthread_cond_broadcast(&pool.begins);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
    tt_section_json(section, json, sizeof json);
    puts(json);
    tt_group_close(group);
    return 0;
}
