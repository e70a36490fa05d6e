/* request.c: one request to the server, tried again while it cannot answer. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ANSWER = 4 << 20, PATIENCE_S = 60, LONGEST_PAUSE_MS = 5000, IN_VAIN = -1 };

static size_t take(char *data, size_t size, size_t n, void *into) {
    tt_buffer *answer = into;
    if (answer->length + size * n > MOST_ANSWER) return 0;
    tt_put_bytes(answer, data, size * n);
    return answer->failed ? 0 : size * n;
}

/* Whether the server is on this machine. A proxy would be sent the token, and would ask its own machine. */
static int is_here(const char *url) {
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host = strstr(url, "://");
    size_t i, length;
    host = host ? host + 3 : url;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        length = strlen(names[i]);
        if (!strncasecmp(host, names[i], length) && (!host[length] || host[length] == ':' || host[length] == '/')) return 1;
    }
    return 0;
}

/* Why no request could be sent; IN_VAIN as the status where that will be the same at every try. */
static int unsent(tt_session *s, CURLcode code) {
    const char *hint = "is `trimtab serve` running there? TRIMTAB_SERVER says where";
    int is_address = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
    if (is_address) hint = "write the server's address as http://127.0.0.1:1979";
    if (code == CURLE_SSL_CACERT_BADFILE) hint = "let SSL_CERT_FILE name a file with certificates in PEM form";
    if (is_address || code == CURLE_SSL_CACERT_BADFILE) s->status = IN_VAIN;
    return tt_failed(s, curl_easy_strerror(code), hint);
}

/* A connection of this process: over that of the process which it was forked from each would read what is meant for the other. That one
 * is left as it is, because closing it reads from it. */
static int connected(tt_session *s) {
    CURL *own;
    if (s->connected_by == getpid()) return 1;
    own = curl_easy_init();
    if (!own) return 0;
    s->curl = own;
    s->connected_by = getpid();
    return 1;
}

/* Sends one request; the answer is in s->answer, its status in s->status (0: there was none). */
static int send_once(tt_session *s, const char *method, const char *url, const char *body) {
    const char *authorities = getenv("SSL_CERT_FILE"); /* libcurl has a file of its own and reads no environment */
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
        if (authorities && *authorities) curl_easy_setopt(s->curl, CURLOPT_CAINFO, authorities);
        if (is_here(url)) curl_easy_setopt(s->curl, CURLOPT_PROXY, ""); /* none, whatever the environment says */
        curl_easy_setopt(s->curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(s->curl, CURLOPT_CONNECTTIMEOUT, 10L);
        curl_easy_setopt(s->curl, CURLOPT_TIMEOUT, 60L);
        code = curl_easy_perform(s->curl);
        if (code == CURLE_OK) curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &s->status);
    }
    curl_slist_free_all(headers);
    tt_buffer_free(&bearer);
    return code == CURLE_OK ? 0 : unsent(s, code);
}

static void pause_ms(long ms) {
    struct timespec time;
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What a refused request was told. */
static int refused(tt_session *s) {
    char *detail = tt_string(tt_member(s->answer.text, "detail")), *hint = tt_string(tt_member(s->answer.text, "hint"));
    char bare[64];
    snprintf(bare, sizeof bare, "the server answered with status=%ld", s->status);
    tt_failed(s, detail ? detail : bare, hint);
    free(detail);
    free(hint);
    return TT_ERROR;
}

static int is_passing(long status) { return !status || status == 429 || (status >= 502 && status <= 504) || status == 507; }

/* A try may take a minute itself, where the server has taken the connection and does not answer; so it is time that is counted, from
 * the first failure on: a fetch may have waited for a point before. */
static int request(tt_session *s, const char *method, const char *path, const char *body, double patience_s) {
    tt_buffer url = {0};
    int outcome = TT_ERROR;
    double until = 0;
    long ms = 100;
    tt_put(&url, s->url);
    tt_put(&url, "/api/v1");
    tt_put(&url, path);
    if (url.failed || !connected(s)) {
        tt_buffer_free(&url);
        return tt_short_of_memory(s);
    }
    for (;;) {
        outcome = send_once(s, method, url.text, body);
        if (outcome == 0 && s->status >= 200 && s->status < 300) break;
        if (outcome == 0) outcome = refused(s);
        if (until <= 0) until = seconds() + patience_s;
        if (!is_passing(s->status) || seconds() + (double)ms / 1000 > until) break;
        pause_ms(ms);
        ms = 2 * ms < LONGEST_PAUSE_MS ? 2 * ms : LONGEST_PAUSE_MS;
    }
    tt_buffer_free(&url);
    if (outcome == 0) s->error.length = 0;
    return outcome;
}

int tt_request(tt_session *s, const char *method, const char *path, const char *body) {
    return request(s, method, path, body, PATIENCE_S);
}

int tt_request_once(tt_session *s, const char *method, const char *path, const char *body) {
    return request(s, method, path, body, 0);
}

/* Empty, which is none for the server, where the system gives no random bytes. */
void tt_put_request(tt_buffer *body) {
    unsigned char bytes[16];
    FILE *file = fopen("/dev/urandom", "rb");
    size_t i, n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file) fclose(file);
    tt_put(body, "\"request\":\"");
    for (i = 0; n == sizeof bytes && i < n; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", bytes[i]);
        tt_put(body, digits);
    }
    tt_put(body, "\"");
}

/* The name is a word by the server's rule, and checked here before it goes into a path. */
int tt_path_of(tt_session *s, tt_buffer *path, const char *rest) {
    const char *at;
    for (at = s->name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            return tt_failed(s, "a session's name holds letters, digits, '.', '_' and '-' only", "");
    if (!*s->name) return tt_failed(s, "a session needs a name", "");
    tt_put(path, "/sessions/");
    tt_put(path, s->name);
    tt_put(path, rest);
    return path->failed ? tt_short_of_memory(s) : 0;
}
