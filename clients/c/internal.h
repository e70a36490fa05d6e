/* internal.h: a session, and what the files of the client share. Not installed. */
#ifndef TRIMTAB_INTERNAL_H
#define TRIMTAB_INTERNAL_H

#include "json.h"
#include "trimtab.h"

#include <curl/curl.h>
#include <sys/types.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

enum { KIND_INT, KIND_REAL, KIND_BOOL, KIND_CHOICE };

typedef struct {
    char *name;
    int kind;
    struct {
        long low, high, step;
    } whole; /* of KIND_INT: a double does not hold every long */
    struct {
        double low, high, step;
    } real; /* of KIND_REAL */
    int is_log;
    char *unit;
    const char *const *choices;
    void *value;
} knob;

struct tt_session {
    char *url, *token, *name, *client, *ticket, *result;
    knob *knobs;
    size_t n_knobs;
    tt_buffer options, layers, answer, error;
    CURL *curl;
    pid_t connected_by, joined_by; /* whose the connection and the client are: a forked process has others */
    long status;
    double wait_s, gain;
    int is_proven;
};

/* A copy to be freed; NULL when memory is short. The other one is without the spaces and ends of lines around the text. */
char *tt_copied(const char *text);
char *tt_stripped(const char *text);

/* Keeps what tt_error says; TT_ERROR. `what` may lie in the answer, never in the error itself. */
int tt_failed(tt_session *s, const char *what, const char *hint);
int tt_short_of_memory(tt_session *s);

/* request.c: "/sessions/NAME" and what follows it, once the name is known to be a word. */
int tt_path_of(tt_session *s, tt_buffer *path, const char *rest);

/* One request; tried again while the server cannot answer, for a minute after that was seen first. The answer is in s->answer, its status in s->status. */
int tt_request(tt_session *s, const char *method, const char *path, const char *body);

/* The same without a second try. */
int tt_request_once(tt_session *s, const char *method, const char *path, const char *body);

/* `"request":"..."` of a request that is to be done once, however often it is sent because its answer was lost. */
void tt_put_request(tt_buffer *body);

/* values.c: the number at a place of an answer; NaN when it is none. */
double tt_number_at(const char *at);

/* Writes the config at `config` into the program's variables. */
int tt_take_config(tt_session *s, const char *config);

/* A knob as the server wants it. */
void tt_put_knob(tt_buffer *body, const knob *k);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
