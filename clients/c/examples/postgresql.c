/* Tunes a PostgreSQL as Active Harmony's users did: fetch, ALTER SYSTEM, reload, run, report.
 *
 *     PGHOST=/tmp PGUSER=postgres ./postgresql 'select count(*) from a join b using (id)'
 *
 * It speaks through psql, whose environment says which server is meant, and resets what it has set at the end. Two knobs that need
 * no restart, and a layer that keeps them within a memory budget: a point beyond it is never set.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trimtab.h"

enum { MOST_COMMANDS = 4, MOST_LOOKS = 600 };

/* Runs psql once with those commands, the last of them NULL, without a shell; 0 when all succeeded. */
static int psql(const char *const *commands, int is_silent) {
    const char *program = getenv("PSQL") ? getenv("PSQL") : "psql";
    char *words[6 + 2 * MOST_COMMANDS] = {(char *)program, (char *)"-Xq", (char *)"-v", (char *)"ON_ERROR_STOP=1"};
    int status, n = 4;
    pid_t child;
    for (; *commands; commands++) {
        words[n++] = (char *)"-c";
        words[n++] = (char *)*commands;
    }
    child = fork();
    if (child < 0) return -1;
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || (is_silent && !freopen("/dev/null", "w", stderr))) _exit(127);
        execvp(program, words);
        _exit(127);
    }
    if (waitpid(child, &status, 0) < 0) return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void pause_ms(long ms) {
    struct timespec time = {0, 0};
    time.tv_nsec = ms * 1000000;
    nanosleep(&time, NULL);
}

/* Sets the values, and waits until a new session has them: a reload takes effect when the server comes to it. */
static int set(long work_mem, long temp_buffers, const char *plan) {
    char sql[3][160], check[320];
    const char *const change[] = {sql[0], sql[1], sql[2], "select pg_reload_conf()", NULL};
    const char *const look[] = {check, NULL};
    int tries;
    snprintf(sql[0], sizeof sql[0], "alter system set work_mem = '%ldkB'", work_mem);
    snprintf(sql[1], sizeof sql[1], "alter system set temp_buffers = '%ldkB'", temp_buffers);
    snprintf(sql[2], sizeof sql[2], "alter system set enable_hashjoin = %s", plan);
    snprintf(check, sizeof check,
             "select 1 / (count(*) = 3)::int from pg_settings where (name, setting) in "
             "(('work_mem', '%ld'), ('temp_buffers', '%ld'), ('enable_hashjoin', '%s'))",
             work_mem, temp_buffers / 8, plan);
    if (psql(change, 0)) return -1;
    for (tries = 0; tries < MOST_LOOKS && psql(look, 1); tries++) pause_ms(50);
    return tries < MOST_LOOKS ? 0 : -1;
}

static int reset(void) {
    static const char *const commands[] = {"alter system reset work_mem", "alter system reset temp_buffers",
                                           "alter system reset enable_hashjoin", "select pg_reload_conf()", NULL};
    return psql(commands, 0);
}

static double seconds_of(const char *query) {
    const char *const commands[] = {query, NULL};
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (psql(commands, 0)) return -1;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
}

static volatile sig_atomic_t is_stopped;

static void on_signal(int number) {
    (void)number;
    is_stopped = 1;
}

int main(int argc, char **argv) {
    static const char *const plans[] = {"on", "off", NULL};
    const char *plan = plans[0], *budget = getenv("BUDGET"), *proof = getenv("PROOF");
    long work_mem = 4096, temp_buffers = 8192;
    int found, code = 1, is_changed = 0;
    tt_session *s;
    if (argc != 2) {
        fprintf(stderr, "usage: postgresql 'QUERY'\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    s = tt_session_new(NULL, NULL, "postgresql");
    if (!s) return 1;
    tt_int(s, "work_mem", 64, 1 << 20, 1, &work_mem);
    tt_log(s);
    tt_unit(s, "kB");
    tt_int(s, "temp_buffers", 800, 1 << 20, 8, &temp_buffers);
    tt_log(s);
    tt_unit(s, "kB");
    tt_choice(s, "enable_hashjoin", plans, &plan);
    tt_layer(s, "constraint", "{\"holds\": \"10 * work_mem + 10 * temp_buffers <= 1GiB\"}");
    tt_text(s, "budget", budget ? budget : "30 trials");
    tt_json(s, "proof", proof ? proof : "true");
    if (tt_launch(s) < 0) goto end;
    while (!is_stopped && (found = tt_fetch(s)) != TT_ENDED) {
        double seconds;
        if (found < 0) goto end;
        if (found == TT_WAIT) continue;
        is_changed = 1;
        seconds = set(work_mem, temp_buffers, plan) ? -1 : seconds_of(argv[1]);
        if (is_stopped) break; /* Ctrl-C ends psql, too: that is no fault of the config */
        if ((seconds > 0 ? tt_report(s, seconds) : tt_fail(s, "crashed", "psql has failed")) < 0) goto end;
    }
    if (tt_best(s) < 0) goto end;
    printf("work_mem = %ldkB\ntemp_buffers = %ldkB\nenable_hashjoin = %s\n%.3g times as fast as the start%s\n", work_mem, temp_buffers,
           plan, tt_gain(s), tt_is_proven(s) ? ", proven" : "");
    code = 0;
end:
    if (code) fprintf(stderr, "error: %s\n", tt_error(s));
    if (is_changed && reset()) { /* else what somebody has set by ALTER SYSTEM is theirs */
        fprintf(stderr, "error: the server was not reset\nhint: alter system reset work_mem, temp_buffers and enable_hashjoin\n");
        code = 1;
    }
    if (!code) tt_leave(s);
    tt_session_free(s);
    return code;
}
