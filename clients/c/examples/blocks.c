/* Tunes the block size of a matrix product: blocks [URL]. Several of them may run at once: they share the search. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "trimtab.h"

enum { N = 192 };
static double a[N][N], b[N][N], c[N][N];

static long least(long x, long y) { return x < y ? x : y; }

static double seconds_of(long block, int is_transposed) {
    struct timespec began, ended;
    long i, j, k, jj, kk;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) c[i][j] = 0;
    for (jj = 0; jj < N; jj += block)
        for (kk = 0; kk < N; kk += block)
            for (i = 0; i < N; i++)
                for (j = jj; j < least(jj + block, N); j++)
                    for (k = kk; k < least(kk + block, N); k++) c[i][j] += a[i][k] * (is_transposed ? b[j][k] : b[k][j]);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
}

int main(int argc, char **argv) {
    static const char *const ways[] = {"by-rows", "transposed", NULL};
    const char *way = ways[0];
    long block = 8;
    int found, code = 1;
    tt_session *s = tt_session_new(argc > 1 ? argv[1] : NULL, NULL, "blocks");
    if (!s) return 1;
    tt_int(s, "block", 1, N, 1, &block);
    tt_log(s);
    tt_choice(s, "way", ways, &way);
    tt_text(s, "budget", "20 trials");
    tt_json(s, "clients", "2");
    if (tt_launch(s) < 0) goto end;
    while ((found = tt_fetch(s)) != TT_ENDED) {
        if (found < 0) goto end;
        if (found == TT_POINT && tt_report(s, seconds_of(block, way == ways[1])) < 0) goto end;
    }
    if (tt_best(s) < 0) goto end;
    printf("best: block=%ld way=%s, %.3g times as fast as the start%s\n", block, way, tt_gain(s), tt_is_proven(s) ? ", proven" : "");
    code = 0;
end:
    if (code) fprintf(stderr, "error: %s\n", tt_error(s));
    if (!code) tt_leave(s);
    tt_session_free(s);
    return code;
}
