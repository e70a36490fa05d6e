/* trimtab.h: tune a C program from within it, by a session of `trimtab serve`.
 *
 *     long block = 64;
 *     int found;
 *     tt_session *s = tt_session_new(NULL, NULL, "blocks");
 *     tt_int(s, "block", 1, 1024, 1, &block);
 *     tt_text(s, "budget", "40 trials");
 *     if (tt_launch(s) < 0) fail(tt_error(s));
 *     while ((found = tt_fetch(s)) != TT_ENDED) {
 *         if (found < 0) fail(tt_error(s));
 *         if (found == TT_POINT) tt_report(s, seconds_of(block)); // TT_WAIT: other clients have the points, or it is paused
 *     }
 *     tt_best(s);                                   // block has the best value
 *     tt_session_free(s);
 *
 * A session belongs to one thread at a time; several sessions may be used by several threads. A process that is forked with a session
 * joins it by itself with its next tt_fetch. Functions that return int give a negative number on an error, and tt_error says what
 * happened. Pointers to variables must stay valid while the session is used.
 */
#ifndef TRIMTAB_H
#define TRIMTAB_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_VERSION "0.1.0"

typedef struct tt_session tt_session;

enum {
    TT_ERROR = -1, /* see tt_error */
    TT_WAIT = 0,   /* no point is ready: the variables hold the best config so far; measure nothing, or go on with it */
    TT_POINT = 1,  /* the variables hold a point: measure it, and report */
    TT_ENDED = 2   /* the session has ended: the variables hold the best config */
};

/* A session of that name at `url` with `token`. NULL: TRIMTAB_SERVER, else http://127.0.0.1:1979; TRIMTAB_TOKEN, else the file
 * serve.token in TRIMTAB_STATE or .trimtab. Nothing is sent yet. NULL when memory is short. With an https URL the environment variable
 * SSL_CERT_FILE names the authorities to trust, in PEM form; default: those of libcurl. */
tt_session *tt_session_new(const char *url, const char *token, const char *name);

/* Frees everything; does not leave (see tt_leave): a point that was not reported goes to another client, or to this program when it is
 * started again, after the lease of the session only. NULL is fine. */
void tt_session_free(tt_session *session);

/* Knobs, before tt_launch or tt_join; fetch writes their values to `value`, which holds the start when tt_launch is called.
 * A step of 0 is 1 for integers, and none for reals. */
int tt_int(tt_session *session, const char *name, long low, long high, long step, long *value);
int tt_real(tt_session *session, const char *name, double low, double high, double step, double *value);
int tt_bool(tt_session *session, const char *name, int *value);
/* `choices` ends with NULL; `*value` points to one of the caller's own strings. */
int tt_choice(tt_session *session, const char *name, const char *const *choices, const char **value);

/* The knob that was defined last is searched on a logarithmic scale. */
int tt_log(tt_session *session);
/* Its unit, as in "8kB" or "ms". */
int tt_unit(tt_session *session, const char *unit);

/* A key of the session (docs/reference/sessions.md): a text, or any JSON. */
int tt_text(tt_session *session, const char *key, const char *text);
int tt_json(tt_session *session, const char *key, const char *json);
/* A layer with its options as a JSON object; NULL for none. Layers stand in the order in which they are given. */
int tt_layer(tt_session *session, const char *kind, const char *options);

/* Begins the session, or finds the one that was begun in the same way, and joins it. 0, or negative. */
int tt_launch(tt_session *session);
/* Joins a session that somebody has begun; its knobs must have been defined here by name and type. 0, or negative. */
int tt_join(tt_session *session);

/* The next point: TT_POINT, TT_WAIT, TT_ENDED or TT_ERROR. While a point is not reported the same one comes again.
 * Waits up to 20 s for one; tt_wait sets another time, 0 to 30 s. */
int tt_fetch(tt_session *session);
int tt_wait(tt_session *session, double seconds);

/* Reports the figure of the point that was fetched: finite and above 0. It is in the server's history when this returns 0, unless
 * it came too late: another client has reported the point, or the session has ended. A power cut within a second may lose it, and
 * then the point is measured again.
 * Without a point it does nothing, so a program that goes on with the best config may report as ever. */
int tt_report(tt_session *session, double value);
/* Reports that the point gave no figure. status: "crashed", "timed_out", "failed_load", "rejected", "infeasible", or
 * "infrastructure" when the config is not to blame. Of the reason 4,000 characters are kept; bytes that are no UTF-8 become "?". */
int tt_fail(tt_session *session, const char *status, const char *reason);

/* Writes the best config so far to the variables. The other two: how many times better than the start it is, by the last
 * answer, and whether that is proven. */
int tt_best(tt_session *session);
double tt_gain(const tt_session *session);
int tt_is_proven(const tt_session *session);

/* "" while the session goes on; then "better", "no_improvement" or "interrupted"; as the last fetch has it, and valid until the next. */
const char *tt_result(const tt_session *session);

/* "pause", "resume", "finish", "stop" or "restart". */
int tt_control(tt_session *session, const char *what);

/* Sends what a tuning section inside the program has learnt (tt_section_json of clients/c/sections) to the server, which keeps it in its
 * history as a study "section NAME". The session needs neither a name nor knobs. One request that is not tried again: where no
 * server answers it gives a negative number, after 10 s at most while a connection is made. */
int tt_keep_section(tt_session *session, const char *json);

/* Leaves: a point that was not reported goes to somebody else. */
int tt_leave(tt_session *session);

/* What went wrong last, with a hint on a second line; "" when nothing has. Valid until the next call. */
const char *tt_error(const tt_session *session);

#ifdef __cplusplus
}
#endif
#endif
