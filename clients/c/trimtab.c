/* trimtab.c: see trimtab.h. */
#include "trimtab.h"

#include "json.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KIND_INT, KIND_REAL, KIND_BOOL, KIND_CHOICE };
enum { MOST_ANSWER = 4 << 20, MOST_TRIES = 20 };

typedef struct {
    char *name;
    int kind;
    double low, high, step;
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
    long status;
    double wait_s, gain;
    int is_proven;
};

static const char *const KINDS[] = {"integer", "real", "boolean", "choice"};

static char *copied(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static int failed(tt_session *s, const char *what, const char *hint) {
    /* `what` may lie in the answer, never in the error itself */
    s->error.length = 0;
    tt_put(&s->error, what);
    if (hint && *hint) {
        tt_put(&s->error, "\nhint: ");
        tt_put(&s->error, hint);
    }
    return TT_ERROR;
}

static int short_of_memory(tt_session *s) { return failed(s, "memory is short", ""); }

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
    return copied(line);
}

tt_session *tt_session_new(const char *url, const char *token, const char *name) {
    tt_session *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (!url || !*url) url = getenv("TRIMTAB_SERVER");
    if (!url || !*url) url = "http://127.0.0.1:1979";
    if (!token || !*token) token = getenv("TRIMTAB_TOKEN");
    s->url = copied(url);
    s->token = token && *token ? copied(token) : token_of_file();
    s->name = copied(name ? name : "");
    s->result = copied("");
    s->wait_s = 20;
    s->gain = 1;
    s->curl = curl_easy_init();
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
    if (s->curl) curl_easy_cleanup(s->curl);
    free(s);
}

/* ---- what is to be tuned */

static knob *added(tt_session *s, const char *name, int kind, void *value) {
    knob *grown;
    if (!name || !*name || !value || s->client) {
        failed(s, "a knob needs a name and a variable", "define knobs before tt_launch or tt_join");
        return NULL;
    }
    grown = realloc(s->knobs, (s->n_knobs + 1) * sizeof *grown);
    if (!grown) {
        short_of_memory(s);
        return NULL;
    }
    s->knobs = grown;
    grown += s->n_knobs;
    memset(grown, 0, sizeof *grown);
    grown->name = copied(name);
    grown->unit = copied("");
    if (!grown->name || !grown->unit) {
        free(grown->name);
        free(grown->unit);
        short_of_memory(s);
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
    made->low = (double)low;
    made->high = (double)high;
    made->step = (double)step;
    return 0;
}

int tt_real(tt_session *s, const char *name, double low, double high, double step, double *value) {
    knob *made = added(s, name, KIND_REAL, value);
    if (!made) return TT_ERROR;
    made->low = low;
    made->high = high;
    made->step = step;
    return 0;
}

int tt_bool(tt_session *s, const char *name, int *value) { return added(s, name, KIND_BOOL, value) ? 0 : TT_ERROR; }

int tt_choice(tt_session *s, const char *name, const char *const *choices, const char **value) {
    knob *made;
    if (!choices || !choices[0]) return failed(s, "a choice needs choices", "give texts, and NULL behind the last");
    made = added(s, name, KIND_CHOICE, value);
    if (!made) return TT_ERROR;
    made->choices = choices;
    return 0;
}

int tt_log(tt_session *s) {
    if (!s->n_knobs) return failed(s, "no knob was defined yet", "");
    s->knobs[s->n_knobs - 1].is_log = 1;
    return 0;
}

int tt_unit(tt_session *s, const char *unit) {
    char *copy;
    if (!s->n_knobs) return failed(s, "no knob was defined yet", "");
    copy = copied(unit);
    if (!copy) return short_of_memory(s);
    free(s->knobs[s->n_knobs - 1].unit);
    s->knobs[s->n_knobs - 1].unit = copy;
    return 0;
}

int tt_json(tt_session *s, const char *key, const char *json) {
    tt_put(&s->options, ",");
    tt_put_string(&s->options, key);
    tt_put(&s->options, ":");
    tt_put(&s->options, json);
    return s->options.failed ? short_of_memory(s) : 0;
}

int tt_text(tt_session *s, const char *key, const char *text) {
    tt_buffer quoted = {0};
    int outcome;
    tt_put_string(&quoted, text);
    outcome = quoted.failed ? short_of_memory(s) : tt_json(s, key, quoted.text);
    tt_buffer_free(&quoted);
    return outcome;
}

int tt_layer(tt_session *s, const char *kind, const char *options) {
    tt_put(&s->layers, s->layers.length ? ",{\"kind\":" : "{\"kind\":");
    tt_put_string(&s->layers, kind);
    tt_put(&s->layers, ",\"options\":");
    tt_put(&s->layers, options ? options : "{}");
    tt_put(&s->layers, "}");
    return s->layers.failed ? short_of_memory(s) : 0;
}

int tt_wait(tt_session *s, double seconds) {
    if (!(seconds >= 0 && seconds <= 30)) return failed(s, "a fetch waits for 0 to 30 seconds", "");
    s->wait_s = seconds;
    return 0;
}

/* ---- requests */

static size_t take(char *data, size_t size, size_t n, void *into) {
    tt_buffer *answer = into;
    if (answer->length + size * n > MOST_ANSWER) return 0;
    tt_put_bytes(answer, data, size * n);
    return answer->failed ? 0 : size * n;
}

/* Sends one request; the answer is in s->answer, its status in s->status (0: there was none). */
static int send_once(tt_session *s, const char *method, const char *url, const char *body) {
    struct curl_slist *headers = NULL, *more;
    tt_buffer bearer = {0};
    CURLcode code = CURLE_OUT_OF_MEMORY;
    s->answer.length = 0;
    s->status = 0;
    tt_put(&s->answer, "");
    tt_put(&bearer, "Authorization: Bearer ");
    tt_put(&bearer, s->token);
    headers = curl_slist_append(NULL, "Content-Type: application/json");
    more = headers && *s->token && !bearer.failed ? curl_slist_append(headers, bearer.text) : headers;
    if (more) {
        headers = more;
        curl_easy_reset(s->curl);
        curl_easy_setopt(s->curl, CURLOPT_URL, url);
        curl_easy_setopt(s->curl, CURLOPT_CUSTOMREQUEST, method);
        curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, headers);
        if (body) curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, take);
        curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, &s->answer);
        curl_easy_setopt(s->curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(s->curl, CURLOPT_CONNECTTIMEOUT, 10L);
        curl_easy_setopt(s->curl, CURLOPT_TIMEOUT, 60L);
        code = curl_easy_perform(s->curl);
        if (code == CURLE_OK) curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &s->status);
    }
    curl_slist_free_all(headers);
    tt_buffer_free(&bearer);
    if (code == CURLE_OK) return 0;
    return failed(s, curl_easy_strerror(code), "is `trimtab serve` running there? TRIMTAB_SERVER says where");
}

static void pause_ms(long ms) {
    struct timespec time;
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

/* What a refused request was told. */
static int refused(tt_session *s) {
    char *detail = tt_string(tt_member(s->answer.text, "detail")), *hint = tt_string(tt_member(s->answer.text, "hint"));
    char bare[64];
    snprintf(bare, sizeof bare, "the server answered with status=%ld", s->status);
    failed(s, detail ? detail : bare, hint);
    free(detail);
    free(hint);
    return TT_ERROR;
}

static int is_passing(long status) { return !status || status == 429 || (status >= 502 && status <= 504) || status == 507; }

/* A request; tried again for about a minute while the server cannot answer. */
static int request(tt_session *s, const char *method, const char *path, const char *body) {
    tt_buffer url = {0};
    int tries, outcome = TT_ERROR;
    long ms = 100;
    tt_put(&url, s->url);
    tt_put(&url, "/api/v1");
    tt_put(&url, path);
    if (url.failed) return short_of_memory(s);
    for (tries = 0; tries < MOST_TRIES; tries++) {
        outcome = send_once(s, method, url.text, body);
        if (outcome == 0 && s->status >= 200 && s->status < 300) break;
        if (outcome == 0) outcome = refused(s);
        if (!is_passing(s->status)) break;
        if (tries + 1 < MOST_TRIES) pause_ms(ms);
        ms = ms < 4000 ? 2 * ms : 4000;
    }
    tt_buffer_free(&url);
    if (outcome == 0) s->error.length = 0;
    return outcome;
}

/* "/sessions/NAME" and what follows; the name is a word by the server's rule, and checked here before it goes into a path. */
static int path_of(tt_session *s, tt_buffer *path, const char *rest) {
    const char *at;
    for (at = s->name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            return failed(s, "a session's name holds letters, digits, '.', '_' and '-' only", "");
    if (!*s->name) return failed(s, "a session needs a name", "");
    tt_put(path, "/sessions/");
    tt_put(path, s->name);
    tt_put(path, rest);
    return path->failed ? short_of_memory(s) : 0;
}

/* ---- values */

static double number_at(const char *at) {
    /* strtod reads the comma of the locale; JSON has a point */
    char text[64];
    size_t n = strcspn(at, ",}] \t\r\n");
    char *point;
    if (n >= sizeof text) return NAN;
    memcpy(text, at, n);
    text[n] = 0;
    point = strchr(text, '.');
    if (point && localeconv()->decimal_point[0]) *point = localeconv()->decimal_point[0];
    return strtod(text, NULL);
}

static int written(tt_session *s, const knob *k, const char *at) {
    size_t i;
    char *text;
    if (k->kind == KIND_INT) *(long *)k->value = strtol(at, NULL, 10);
    if (k->kind == KIND_REAL) *(double *)k->value = number_at(at);
    if (k->kind == KIND_BOOL) *(int *)k->value = strncmp(at, "true", 4) == 0;
    if (k->kind != KIND_CHOICE) return 0;
    text = tt_string(at);
    for (i = 0; text && k->choices[i]; i++)
        if (strcmp(k->choices[i], text) == 0) {
            *(const char **)k->value = k->choices[i];
            free(text);
            return 0;
        }
    free(text);
    return failed(s, "the server gave a choice that this program does not know", "the session was begun by another program");
}

/* Writes the config at `config` into the variables. */
static int take_config(tt_session *s, const char *config) {
    size_t i;
    for (i = 0; i < s->n_knobs; i++) {
        const char *at = tt_member(config, s->knobs[i].name);
        if (!at) return failed(s, "the session has no such knob as this program has", s->knobs[i].name);
        if (written(s, &s->knobs[i], at) < 0) return TT_ERROR;
    }
    return 0;
}

/* Gain and proof stand in every answer. */
static const char *take_best(tt_session *s) {
    const char *best = tt_member(s->answer.text, "best");
    const char *gain = tt_member(best, "gain"), *proven = tt_member(best, "is_proven");
    s->gain = gain ? number_at(gain) : 1;
    s->is_proven = proven && strncmp(proven, "true", 4) == 0;
    return tt_member(best, "config");
}

static void put_knob(tt_buffer *body, const knob *k) {
    size_t i;
    tt_put(body, "{\"name\":");
    tt_put_string(body, k->name);
    tt_put(body, ",\"kind\":");
    tt_put_string(body, KINDS[k->kind]);
    tt_put(body, ",\"default\":");
    if (k->kind == KIND_INT) tt_put_long(body, *(long *)k->value);
    if (k->kind == KIND_REAL) tt_put_number(body, *(double *)k->value);
    if (k->kind == KIND_BOOL) tt_put(body, *(int *)k->value ? "true" : "false");
    if (k->kind == KIND_CHOICE) {
        const char *start = *(const char **)k->value;
        tt_put_string(body, start ? start : k->choices[0]);
        tt_put(body, ",\"choices\":[");
        for (i = 0; k->choices[i]; i++) {
            if (i) tt_put(body, ",");
            tt_put_string(body, k->choices[i]);
        }
        tt_put(body, "]");
    }
    if (k->kind == KIND_INT || k->kind == KIND_REAL) {
        tt_put(body, ",\"low\":");
        k->kind == KIND_INT ? tt_put_long(body, (long)k->low) : tt_put_number(body, k->low);
        tt_put(body, ",\"high\":");
        k->kind == KIND_INT ? tt_put_long(body, (long)k->high) : tt_put_number(body, k->high);
        if (k->step > 0) {
            tt_put(body, ",\"step\":");
            k->kind == KIND_INT ? tt_put_long(body, (long)k->step) : tt_put_number(body, k->step);
        }
        if (k->is_log) tt_put(body, ",\"log\":true");
        tt_put(body, ",\"unit\":");
        tt_put_string(body, k->unit);
    }
    tt_put(body, "}");
}

/* ---- the conversation */

int tt_launch(tt_session *s) {
    tt_buffer body = {0};
    size_t i;
    int outcome;
    if (!s->n_knobs) return failed(s, "nothing is to be tuned", "define knobs first, as with tt_int");
    tt_put(&body, "{\"name\":");
    tt_put_string(&body, s->name);
    tt_put(&body, ",\"knobs\":[");
    for (i = 0; i < s->n_knobs; i++) {
        if (i) tt_put(&body, ",");
        put_knob(&body, &s->knobs[i]);
    }
    tt_put(&body, "]");
    if (s->layers.length) {
        tt_put(&body, ",\"layers\":[");
        tt_put(&body, s->layers.text);
        tt_put(&body, "]");
    }
    if (s->options.length) tt_put(&body, s->options.text);
    tt_put(&body, "}");
    outcome = body.failed ? short_of_memory(s) : request(s, "POST", "/sessions", body.text);
    tt_buffer_free(&body);
    return outcome < 0 ? outcome : tt_join(s);
}

int tt_join(tt_session *s) {
    tt_buffer path = {0};
    int outcome = path_of(s, &path, "/clients");
    char *client;
    if (outcome == 0) outcome = request(s, "POST", path.text, "{\"name\":\"C " TT_VERSION "\"}");
    tt_buffer_free(&path);
    if (outcome < 0) return outcome;
    client = tt_string(tt_member(s->answer.text, "client"));
    if (!client) return failed(s, "the server's answer is not understood", "is it of another version?");
    free(s->client);
    s->client = client;
    take_best(s);
    return 0;
}

/* A request of this client; a server that was started anew does not know it, and it joins again. */
static int ask(tt_session *s, const char *what, const char *rest) {
    int tries, outcome = TT_ERROR;
    if (!s->client) return failed(s, "the session was not joined", "call tt_launch or tt_join first");
    for (tries = 0; tries < 2; tries++) {
        tt_buffer path = {0}, body = {0};
        outcome = path_of(s, &path, what);
        tt_put(&body, "{\"client\":");
        tt_put_string(&body, s->client);
        tt_put(&body, rest);
        tt_put(&body, "}");
        if (outcome == 0) outcome = body.failed ? short_of_memory(s) : request(s, "POST", path.text, body.text);
        tt_buffer_free(&path);
        tt_buffer_free(&body);
        if (outcome == 0 || s->status != 404 || tries) break;
        if (tt_join(s) < 0) break;
    }
    return outcome;
}

static int take_point(tt_session *s) {
    free(s->ticket);
    s->ticket = tt_string(tt_member(s->answer.text, "ticket"));
    if (!s->ticket) return failed(s, "the server's answer is not understood", "is it of another version?");
    take_best(s);
    return take_config(s, tt_member(s->answer.text, "config")) < 0 ? TT_ERROR : TT_POINT;
}

int tt_fetch(tt_session *s) {
    tt_buffer rest = {0};
    char *state, *result;
    int outcome, is_point, is_end;
    tt_put(&rest, ",\"wait_s\":");
    tt_put_number(&rest, s->wait_s);
    outcome = rest.failed ? short_of_memory(s) : ask(s, "/fetch", rest.text);
    tt_buffer_free(&rest);
    if (outcome < 0) return outcome;
    state = tt_string(tt_member(s->answer.text, "state"));
    is_point = state && strcmp(state, "point") == 0;
    is_end = state && strcmp(state, "ended") == 0;
    free(state);
    if (is_point) return take_point(s);
    free(s->ticket);
    s->ticket = NULL;
    if (take_config(s, take_best(s)) < 0) return TT_ERROR;
    if (!is_end) return TT_WAIT;
    result = tt_string(tt_member(s->answer.text, "result"));
    if (result) {
        free(s->result);
        s->result = result;
    }
    return TT_ENDED;
}

static int said(tt_session *s, const tt_buffer *what) {
    tt_buffer rest = {0};
    int outcome;
    tt_put(&rest, ",\"ticket\":");
    tt_put_string(&rest, s->ticket);
    tt_put(&rest, what->text ? what->text : "");
    outcome = rest.failed || what->failed ? short_of_memory(s) : ask(s, "/report", rest.text);
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
    if (!(value > 0) || isinf(value)) return failed(s, "a figure must be finite and above 0", "report a failure with tt_fail");
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
    tt_put_string(&what, reason ? reason : "");
    tt_put(&what, "}");
    outcome = said(s, &what);
    tt_buffer_free(&what);
    return outcome;
}

int tt_best(tt_session *s) {
    tt_buffer path = {0};
    int outcome = path_of(s, &path, "/best");
    const char *config, *gain, *proven;
    if (outcome == 0) outcome = request(s, "GET", path.text, NULL);
    tt_buffer_free(&path);
    if (outcome < 0) return outcome;
    config = tt_member(s->answer.text, "config");
    gain = tt_member(s->answer.text, "gain");
    proven = tt_member(s->answer.text, "is_proven");
    s->gain = gain ? number_at(gain) : 1;
    s->is_proven = proven && strncmp(proven, "true", 4) == 0;
    return take_config(s, config);
}

double tt_gain(const tt_session *s) { return s->gain; }

int tt_is_proven(const tt_session *s) { return s->is_proven; }

const char *tt_result(const tt_session *s) { return s->result; }

int tt_control(tt_session *s, const char *what) {
    static const char *const known[] = {"pause", "resume", "finish", "stop", "restart"};
    tt_buffer path = {0};
    size_t i;
    int outcome;
    for (i = 0; i < sizeof known / sizeof *known && strcmp(known[i], what) != 0; i++) {
    }
    if (i == sizeof known / sizeof *known) return failed(s, "no such control", "use pause, resume, finish, stop or restart");
    outcome = path_of(s, &path, "/");
    tt_put(&path, what);
    if (outcome == 0) outcome = path.failed ? short_of_memory(s) : request(s, "POST", path.text, "{}");
    tt_buffer_free(&path);
    return outcome;
}

int tt_leave(tt_session *s) {
    tt_buffer path = {0};
    int outcome;
    if (!s->client) return 0;
    outcome = path_of(s, &path, "/clients/");
    tt_put(&path, s->client);
    if (outcome == 0) outcome = path.failed ? short_of_memory(s) : request(s, "DELETE", path.text, NULL);
    tt_buffer_free(&path);
    free(s->client);
    s->client = NULL;
    free(s->ticket);
    s->ticket = NULL;
    return outcome;
}
