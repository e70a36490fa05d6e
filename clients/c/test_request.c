/* What the client sends, and how long it tries where no server answers; the network and the clock are played. */
#include <curl/curl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    double now, try_s;
    int n_tries;
    char url[200], token[200], body[2000], authorities[200];
} played;

static void kept(char *into, size_t room, const char *text) { snprintf(into, room, "%s", text); }

static CURLcode played_set(CURL *curl, CURLoption option, ...) {
    va_list rest;
    (void)curl;
    va_start(rest, option);
    if (option == CURLOPT_URL) kept(played.url, sizeof played.url, va_arg(rest, const char *));
    if (option == CURLOPT_CAINFO) kept(played.authorities, sizeof played.authorities, va_arg(rest, const char *));
    if (option == CURLOPT_POSTFIELDS) kept(played.body, sizeof played.body, va_arg(rest, const char *));
    if (option == CURLOPT_HTTPHEADER) kept(played.token, sizeof played.token, va_arg(rest, struct curl_slist *)->next->data);
    va_end(rest);
    return CURLE_OK;
}

static CURLcode played_perform(CURL *curl) {
    (void)curl;
    played.n_tries++;
    played.now += played.try_s;
    return CURLE_OPERATION_TIMEDOUT;
}

static int played_clock(clockid_t clock, struct timespec *time) {
    (void)clock;
    time->tv_sec = (time_t)played.now;
    time->tv_nsec = (long)((played.now - (double)time->tv_sec) * 1e9);
    return 0;
}

static int played_sleep(const struct timespec *time, struct timespec *left) {
    (void)left;
    played.now += (double)time->tv_sec + (double)time->tv_nsec / 1e9;
    return 0;
}

#undef curl_easy_setopt
#define curl_easy_setopt played_set
#define curl_easy_perform played_perform
#define clock_gettime played_clock
#define nanosleep played_sleep
#include "request.c"

static void require(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "%s: %d tries, %.1f s, url=%s token=%s body=%s\n", what, played.n_tries, played.now, played.url, played.token, played.body);
    exit(1);
}

static void begin(double try_s) {
    memset(&played, 0, sizeof played);
    played.now = 1000;
    played.try_s = try_s;
}

int main(void) {
    long size = LONG_MAX - 1;
    char wanted[100];
    tt_session *s = tt_session_new("http://127.0.0.1:1/ \n", "a-token-of-the-tests\n", "s");
    if (!s || tt_int(s, "size", LONG_MIN + 1, LONG_MAX, LONG_MAX / 3, &size) < 0) return 1;

    begin(60);
    require(tt_launch(s) < 0 && played.n_tries == 2 && played.now <= 1125, "a server that does not answer");
    require(strcmp(played.url, "http://127.0.0.1:1/api/v1/sessions") == 0, "the address without the end of its line");
    require(strcmp(played.token, "Authorization: Bearer a-token-of-the-tests") == 0, "the token without the end of its line");
    snprintf(wanted, sizeof wanted, "\"low\":%ld,\"high\":%ld,\"step\":%ld,", LONG_MIN + 1, LONG_MAX, LONG_MAX / 3);
    require(strstr(played.body, wanted) != NULL, "a range that no double holds");

    begin(0);
    require(tt_launch(s) < 0 && played.n_tries > 10 && played.now >= 1050 && played.now <= 1060, "nobody listens");
    begin(0);
    setenv("SSL_CERT_FILE", "authorities.pem", 1);
    require(tt_keep_section(s, "{}") < 0 && played.n_tries == 1, "what is not tried again");
    require(strcmp(played.authorities, "authorities.pem") == 0, "authorities of one's own");
    tt_session_free(s);
    puts("test_request: done");
    return 0;
}
