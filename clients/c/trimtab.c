/* trimtab.c: see trimtab.h. */
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_REASON = 4000 };

char *tt_copied(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

char *tt_stripped(const char *text) {
    static const char blank[] = " \t\r\n";
    char *copy = tt_copied(text + strspn(text, blank));
    size_t length = copy ? strlen(copy) : 0;
    while (length && strchr(blank, copy[length - 1])) copy[--length] = 0;
    return copy;
}

int tt_failed(tt_session *s, const char *what, const char *hint) {
    s->error.length = 0;
    tt_put(&s->error, what);
    if (hint && *hint) {
        tt_put(&s->error, "\nhint: ");
        tt_put(&s->error, hint);
    }
    return TT_ERROR;
}

int tt_short_of_memory(tt_session *s) { return tt_failed(s, "memory is short", ""); }

const char *tt_error(const tt_session *s) { return s->error.text && s->error.length ? s->error.text : ""; }

/* The first line of serve.token, or "". */
static char *token_of_file(void) {
    const char *folder = getenv("TRIMTAB_STATE");
    tt_buffer path = {0};
    char line[512] = "";
    FILE *file;
    tt_put(&path, folder && *folder ? folder : ".trimtab");
    tt_put(&path, "/serve.token");
    file = path.failed ? NULL : fopen(path.text, "r");
    if (file) {
        if (!fgets(line, sizeof line, file)) line[0] = 0;
        fclose(file);
    }
    line[strcspn(line, "\r\n")] = 0;
    tt_buffer_free(&path);
    return tt_stripped(line);
}

tt_session *tt_session_new(const char *url, const char *token, const char *name) {
    tt_session *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (!url || !*url) url = getenv("TRIMTAB_SERVER");
    if (!url || !*url) url = "http://127.0.0.1:1979";
    if (!token || !*token) token = getenv("TRIMTAB_TOKEN");
    s->url = tt_stripped(url);
    s->token = token && *token ? tt_stripped(token) : token_of_file();
    s->name = tt_copied(name ? name : "");
    s->result = tt_copied("");
    s->wait_s = 20;
    s->gain = 1;
    s->curl = curl_easy_init();
    s->connected_by = getpid();
    if (!s->url || !s->token || !s->name || !s->result || !s->curl) {
        tt_session_free(s);
        return NULL;
    }
    while (*s->url && s->url[strlen(s->url) - 1] == '/') s->url[strlen(s->url) - 1] = 0;
    return s;
}

void tt_session_free(tt_session *s) {
    size_t i;
    if (!s) return;
    for (i = 0; i < s->n_knobs; i++) {
        free(s->knobs[i].name);
        free(s->knobs[i].unit);
    }
    free(s->knobs);
    free(s->url);
    free(s->token);
    free(s->name);
    free(s->client);
    free(s->ticket);
    free(s->result);
    tt_buffer_free(&s->options);
    tt_buffer_free(&s->layers);
    tt_buffer_free(&s->answer);
    tt_buffer_free(&s->error);
    if (s->curl && s->connected_by == getpid()) curl_easy_cleanup(s->curl);
    free(s);
}

/* ---- what is to be tuned */

static knob *added(tt_session *s, const char *name, int kind, void *value) {
    knob *grown;
    if (!name || !*name || !value || s->client) {
        tt_failed(s, "a knob needs a name and a variable", "define knobs before tt_launch or tt_join");
        return NULL;
    }
    grown = realloc(s->knobs, (s->n_knobs + 1) * sizeof *grown);
    if (!grown) {
        tt_short_of_memory(s);
        return NULL;
    }
    s->knobs = grown;
    grown += s->n_knobs;
    memset(grown, 0, sizeof *grown);
    grown->name = tt_copied(name);
    grown->unit = tt_copied("");
    if (!grown->name || !grown->unit) {
        free(grown->name);
        free(grown->unit);
        tt_short_of_memory(s);
        return NULL;
    }
    grown->kind = kind;
    grown->value = value;
    s->n_knobs++;
    return grown;
}

int tt_int(tt_session *s, const char *name, long low, long high, long step, long *value) {
    knob *made = added(s, name, KIND_INT, value);
    if (!made) return TT_ERROR;
    made->whole.low = low;
    made->whole.high = high;
    made->whole.step = step;
    return 0;
}

int tt_real(tt_session *s, const char *name, double low, double high, double step, double *value) {
    knob *made = added(s, name, KIND_REAL, value);
    if (!made) return TT_ERROR;
    made->real.low = low;
    made->real.high = high;
    made->real.step = step;
    return 0;
}

int tt_bool(tt_session *s, const char *name, int *value) { return added(s, name, KIND_BOOL, value) ? 0 : TT_ERROR; }

int tt_choice(tt_session *s, const char *name, const char *const *choices, const char **value) {
    knob *made;
    if (!choices || !choices[0]) return tt_failed(s, "a choice needs choices", "give texts, and NULL behind the last");
    made = added(s, name, KIND_CHOICE, value);
    if (!made) return TT_ERROR;
    made->choices = choices;
    return 0;
}

int tt_log(tt_session *s) {
    if (!s->n_knobs) return tt_failed(s, "no knob was defined yet", "");
    s->knobs[s->n_knobs - 1].is_log = 1;
    return 0;
}

int tt_unit(tt_session *s, const char *unit) {
    char *copy;
    if (!s->n_knobs) return tt_failed(s, "no knob was defined yet", "");
    copy = tt_copied(unit);
    if (!copy) return tt_short_of_memory(s);
    free(s->knobs[s->n_knobs - 1].unit);
    s->knobs[s->n_knobs - 1].unit = copy;
    return 0;
}

int tt_json(tt_session *s, const char *key, const char *json) {
    tt_put(&s->options, ",");
    tt_put_string(&s->options, key);
    tt_put(&s->options, ":");
    tt_put(&s->options, json);
    return s->options.failed ? tt_short_of_memory(s) : 0;
}

int tt_text(tt_session *s, const char *key, const char *text) {
    tt_buffer quoted = {0};
    int outcome;
    tt_put_string(&quoted, text);
    outcome = quoted.failed ? tt_short_of_memory(s) : tt_json(s, key, quoted.text);
    tt_buffer_free(&quoted);
    return outcome;
}

int tt_layer(tt_session *s, const char *kind, const char *options) {
    tt_put(&s->layers, s->layers.length ? ",{\"kind\":" : "{\"kind\":");
    tt_put_string(&s->layers, kind);
    tt_put(&s->layers, ",\"options\":");
    tt_put(&s->layers, options ? options : "{}");
    tt_put(&s->layers, "}");
    return s->layers.failed ? tt_short_of_memory(s) : 0;
}

int tt_wait(tt_session *s, double seconds) {
    if (!(seconds >= 0 && seconds <= 30)) return tt_failed(s, "a fetch waits for 0 to 30 seconds", "");
    s->wait_s = seconds;
    return 0;
}

/* ---- the conversation */

/* Takes gain and proof of a best config; gives its values. */
static const char *take_gain(tt_session *s, const char *best) {
    const char *gain = tt_member(best, "gain"), *proven = tt_member(best, "is_proven");
    s->gain = gain ? tt_number_at(gain) : 1;
    s->is_proven = proven && strncmp(proven, "true", 4) == 0;
    return tt_member(best, "config");
}

/* The best config stands in every answer. */
static const char *take_best(tt_session *s) { return take_gain(s, tt_member(s->answer.text, "best")); }

int tt_launch(tt_session *s) {
    tt_buffer body = {0};
    size_t i;
    int outcome;
    if (!s->n_knobs) return tt_failed(s, "nothing is to be tuned", "define knobs first, as with tt_int");
    tt_put(&body, "{\"name\":");
    tt_put_string(&body, s->name);
    tt_put(&body, ",\"knobs\":[");
    for (i = 0; i < s->n_knobs; i++) {
        if (i) tt_put(&body, ",");
        tt_put_knob(&body, &s->knobs[i]);
    }
    tt_put(&body, "]");
    if (s->layers.length) {
        tt_put(&body, ",\"layers\":[");
        tt_put(&body, s->layers.text);
        tt_put(&body, "]");
    }
    if (s->options.length) tt_put(&body, s->options.text);
    tt_put(&body, "}");
    outcome = body.failed ? tt_short_of_memory(s) : tt_request(s, "POST", "/sessions", body.text);
    tt_buffer_free(&body);
    return outcome < 0 ? outcome : tt_join(s);
}

int tt_join(tt_session *s) {
    tt_buffer path = {0}, body = {0};
    int outcome = tt_path_of(s, &path, "/clients");
    char *client;
    tt_put(&body, "{\"name\":\"C " TT_VERSION "\",");
    tt_put_request(&body);
    tt_put(&body, "}");
    if (outcome == 0) outcome = body.failed ? tt_short_of_memory(s) : tt_request(s, "POST", path.text, body.text);
    tt_buffer_free(&path);
    tt_buffer_free(&body);
    if (outcome < 0) return outcome;
    client = tt_string(tt_member(s->answer.text, "client"));
    if (!client) return tt_failed(s, "the server's answer is not understood", "is it of another version?");
    free(s->client);
    s->client = client;
    s->joined_by = getpid();
    take_best(s);
    return 0;
}

/* Whether the answer says that the server knows the client, and not the point that was reported. */
static int is_of_ticket(const tt_session *s) {
    const char *unknown = tt_member(s->answer.text, "unknown");
    return unknown && strncmp(unknown, "\"ticket\"", 8) == 0;
}

/* A request of this client; a server that was started anew does not know it, and it joins again. */
static int ask(tt_session *s, const char *what, const char *rest) {
    int tries, outcome = TT_ERROR;
    if (!s->client) return tt_failed(s, "the session was not joined", "call tt_launch or tt_join first");
    for (tries = 0; tries < 2; tries++) {
        tt_buffer path = {0}, body = {0};
        outcome = tt_path_of(s, &path, what);
        tt_put(&body, "{\"client\":");
        tt_put_string(&body, s->client);
        tt_put(&body, rest);
        tt_put(&body, "}");
        if (outcome == 0) outcome = body.failed ? tt_short_of_memory(s) : tt_request(s, "POST", path.text, body.text);
        tt_buffer_free(&path);
        tt_buffer_free(&body);
        if (outcome == 0 || s->status != 404 || tries || is_of_ticket(s)) break;
        if (tt_join(s) < 0) break;
    }
    return outcome;
}

static int take_point(tt_session *s) {
    free(s->ticket);
    s->ticket = tt_string(tt_member(s->answer.text, "ticket"));
    if (!s->ticket) return tt_failed(s, "the server's answer is not understood", "is it of another version?");
    take_best(s);
    return tt_take_config(s, tt_member(s->answer.text, "config")) < 0 ? TT_ERROR : TT_POINT;
}

/* How the session has ended; "" where the answer does not say so: it goes on, perhaps again after a restart. */
static int take_result(tt_session *s) {
    char *result = tt_string(tt_member(s->answer.text, "result"));
    if (!result) result = tt_copied("");
    if (!result) return tt_short_of_memory(s);
    free(s->result);
    s->result = result;
    return 0;
}

int tt_fetch(tt_session *s) {
    tt_buffer rest = {0};
    char *state;
    int outcome, is_point, is_end;
    if (s->client && s->joined_by != getpid() && tt_join(s) < 0) return TT_ERROR; /* it was forked */
    tt_put(&rest, ",\"wait_s\":");
    tt_put_number(&rest, s->wait_s);
    outcome = rest.failed ? tt_short_of_memory(s) : ask(s, "/fetch", rest.text);
    tt_buffer_free(&rest);
    if (outcome == 0) outcome = take_result(s);
    if (outcome < 0) return outcome;
    state = tt_string(tt_member(s->answer.text, "state"));
    is_point = state && strcmp(state, "point") == 0;
    is_end = state && strcmp(state, "ended") == 0;
    free(state);
    if (is_point) return take_point(s);
    free(s->ticket);
    s->ticket = NULL;
    if (tt_take_config(s, take_best(s)) < 0) return TT_ERROR;
    return is_end ? TT_ENDED : TT_WAIT;
}

static int said(tt_session *s, const tt_buffer *what) {
    tt_buffer rest = {0};
    int outcome;
    tt_put(&rest, ",\"ticket\":");
    tt_put_string(&rest, s->ticket);
    tt_put(&rest, what->text ? what->text : "");
    outcome = rest.failed || what->failed ? tt_short_of_memory(s) : ask(s, "/report", rest.text);
    tt_buffer_free(&rest);
    /* the server was killed before it had written the point down, another client has reported it, or the session was ended or restarted: nothing is wrong with the program */
    if (outcome < 0 && s->status != 404 && s->status != 409 && s->status != 410) return outcome;
    if (outcome < 0) s->error.length = 0;
    free(s->ticket);
    s->ticket = NULL;
    if (outcome == 0) take_best(s);
    return 0;
}

int tt_report(tt_session *s, double value) {
    tt_buffer what = {0};
    int outcome;
    if (!(value > 0) || isinf(value)) return tt_failed(s, "a figure must be finite and above 0", "report a failure with tt_fail");
    if (!s->ticket) return 0;
    tt_put(&what, ",\"value\":");
    tt_put_number(&what, value);
    outcome = said(s, &what);
    tt_buffer_free(&what);
    return outcome;
}

int tt_fail(tt_session *s, const char *status, const char *reason) {
    tt_buffer what = {0};
    int outcome;
    if (!s->ticket) return 0;
    tt_put(&what, ",\"failed\":{\"status\":");
    tt_put_string(&what, status ? status : "crashed");
    tt_put(&what, ",\"reason\":");
    tt_put_text(&what, reason ? reason : "", MOST_REASON);
    tt_put(&what, "}");
    outcome = said(s, &what);
    tt_buffer_free(&what);
    return outcome;
}

int tt_best(tt_session *s) {
    tt_buffer path = {0};
    int outcome = tt_path_of(s, &path, "/best");
    if (outcome == 0) outcome = tt_request(s, "GET", path.text, NULL);
    tt_buffer_free(&path);
    return outcome < 0 ? outcome : tt_take_config(s, take_gain(s, s->answer.text));
}

double tt_gain(const tt_session *s) { return s->gain; }

int tt_is_proven(const tt_session *s) { return s->is_proven; }

const char *tt_result(const tt_session *s) { return s->result; }

int tt_control(tt_session *s, const char *what) {
    static const char *const known[] = {"pause", "resume", "finish", "stop", "restart"};
    tt_buffer path = {0}, body = {0};
    size_t i;
    int outcome;
    for (i = 0; i < sizeof known / sizeof *known && strcmp(known[i], what) != 0; i++) {
    }
    if (i == sizeof known / sizeof *known) return tt_failed(s, "no such control", "use pause, resume, finish, stop or restart");
    outcome = tt_path_of(s, &path, "/");
    tt_put(&path, what);
    tt_put(&body, "{");
    if (strcmp(what, "restart") == 0) tt_put_request(&body);
    tt_put(&body, "}");
    if (outcome == 0) outcome = path.failed || body.failed ? tt_short_of_memory(s) : tt_request(s, "POST", path.text, body.text);
    tt_buffer_free(&path);
    tt_buffer_free(&body);
    return outcome;
}

int tt_keep_section(tt_session *s, const char *json) {
    if (!json || *json != '{') return tt_failed(s, "what a section has learnt is a JSON object", "send what tt_section_json gives, whole");
    return tt_request_once(s, "POST", "/sections", json);
}

int tt_leave(tt_session *s) {
    tt_buffer path = {0};
    int outcome;
    if (!s->client) return 0;
    outcome = tt_path_of(s, &path, "/clients/");
    tt_put(&path, s->client);
    if (outcome == 0 && path.failed) outcome = tt_short_of_memory(s);
    /* a process that was forked and has fetched nothing holds the client of another one */
    if (outcome == 0 && s->joined_by == getpid()) outcome = tt_request(s, "DELETE", path.text, NULL);
    tt_buffer_free(&path);
    if (outcome < 0 && s->status == 404) { /* it has left: the answer to its first try was lost, or the server was started anew */
        s->error.length = 0;
        outcome = 0;
    }
    free(s->client);
    s->client = NULL;
    free(s->ticket);
    s->ticket = NULL;
    return outcome;
}
