/* What the client sends, and how long it tries where no server answers; the network and the clock are played. */
#include <curl/curl.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    long status;
    const char *body;
} played_answer;

static struct {
    double now, try_s;
    int n_tries, is_direct;
    char url[200], token[200], body[2000], authorities[200];
    const played_answer *answers; /* up to one without a status: then nobody answers */
    long status;
    CURLcode trouble; /* of every try */
    curl_write_callback write;
    void *into;
} played;

static void kept(char *into, size_t room, const char *text) { snprintf(into, room, "%s", text); }

static CURLcode played_set(CURL *curl, CURLoption option, ...) {
    va_list rest;
    (void)curl;
    va_start(rest, option);
    if (option == CURLOPT_URL) kept(played.url, sizeof played.url, va_arg(rest, const char *));
    if (option == CURLOPT_CAINFO) kept(played.authorities, sizeof played.authorities, va_arg(rest, const char *));
    if (option == CURLOPT_PROXY) played.is_direct = !*va_arg(rest, const char *);
    if (option == CURLOPT_POSTFIELDS) kept(played.body, sizeof played.body, va_arg(rest, const char *));
    if (option == CURLOPT_WRITEFUNCTION) played.write = va_arg(rest, curl_write_callback);
    if (option == CURLOPT_WRITEDATA) played.into = va_arg(rest, void *);
    if (option == CURLOPT_HTTPHEADER) kept(played.token, sizeof played.token, va_arg(rest, struct curl_slist *)->next->data);
    va_end(rest);
    return CURLE_OK;
}

static CURLcode played_perform(CURL *curl) {
    (void)curl;
    played.n_tries++;
    played.now += played.try_s;
    if (played.trouble) return played.trouble;
    if (!played.answers || !played.answers->status) return CURLE_OPERATION_TIMEDOUT;
    played.status = played.answers->status;
    played.write((char *)played.answers->body, 1, strlen(played.answers->body), played.into);
    played.answers++;
    return CURLE_OK;
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
#undef curl_easy_getinfo
#define curl_easy_getinfo(curl, what, into) (*(into) = played.status)
#define curl_easy_perform played_perform
#define clock_gettime played_clock
#define nanosleep played_sleep
#include "request.c"
#include <sys/wait.h>

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

#define BEST "\"best\":{\"config\":{\"size\":3,\"share\":1},\"gain\":1.5,\"is_proven\":true}"

static double share = 0.25;
static char body_before[sizeof played.body];

/* Whether the newest body has a text of its own by which the server knows it again, and was sent as often as that. */
static int is_request(const char *before, int n_tries) {
    const char *at = strstr(played.body, "\"request\":\"");
    int is_so = at && strspn(at + 11, "0123456789abcdef") == 32 && strncmp(played.body, before, strlen(before)) == 0 &&
                strcmp(played.body, body_before) != 0 && played.n_tries == n_tries;
    kept(body_before, sizeof body_before, played.body);
    return is_so;
}

/* What a session says, from joining it to its end and to a restart. */
static void test_conversation(tt_session *s) {
    static const played_answer told[] = {
        {502, "{\"status\":502,\"detail\":\"the answer was lost on the way\"}"},
        {200, "{\"client\":\"c1\"," BEST "}"},
        {200, "{\"state\":\"point\",\"ticket\":\"1.7.1.x\",\"config\":{\"size\":4,\"share\":0.125}," BEST "}"},
        {404, "{\"status\":404,\"detail\":\"ticket='1.7.1.x' was never handed out\",\"unknown\":\"ticket\"}"},
        {200, "{\"state\":\"ended\",\"result\":\"better\"," BEST "}"},
        {503, "{\"status\":503,\"detail\":\"the answer was lost on the way\"}"},
        {200, "{\"state\":\"running\"," BEST "}"},
        {200, "{\"state\":\"running\"," BEST "}"},
        {200, "{\"state\":\"point\",\"ticket\":\"2.0.1.x\",\"config\":{\"size\":5,\"share\":0.5}," BEST "}"},
        {404, "{\"status\":404,\"detail\":\"session='s' has no such client\"}"},
        {0, NULL},
    };
    begin(0);
    played.answers = told;
    require(tt_join(s) == 0 && is_request("{\"name\":\"C ", 2), "what is sent again says that it is of the same client");
    require(tt_fetch(s) == TT_POINT && share == 0.125 && tt_gain(s) == 1.5, "a point, with numbers as they are in every country");
    require(tt_report(s, 1.0) == 0 && played.n_tries == 4, "a point that the server has lost is no reason to join again");
    require(tt_fetch(s) == TT_ENDED && strcmp(tt_result(s), "better") == 0, "the end");
    require(tt_control(s, "restart") == 0 && is_request("{\"request\"", 7), "what is sent again says that it is the same restart");
    require(tt_control(s, "restart") == 0 && is_request("{\"request\"", 8), "another restart");
    require(tt_fetch(s) == TT_POINT && strcmp(tt_result(s), "") == 0, "a session that was restarted has no result");
    require(tt_leave(s) == 0 && !*tt_error(s), "a client that the server does not know has left");
}

/* What a forked process does, after its parent has been given a point. */
static void test_forked(tt_session *s) {
    static const played_answer told[] = {
        {200, "{\"client\":\"c1\"," BEST "}"},
        {200, "{\"state\":\"point\",\"ticket\":\"1.7.1.x\",\"config\":{\"size\":4,\"share\":0.125}," BEST "}"},
        {200, "{\"client\":\"c2\"," BEST "}"},
        {200, "{\"state\":\"point\",\"ticket\":\"1.8.1.x\",\"config\":{\"size\":5,\"share\":0.5}," BEST "}"},
        {0, NULL},
    };
    CURL *ours;
    int status = -1;
    begin(0);
    played.answers = told;
    require(tt_join(s) == 0 && tt_fetch(s) == TT_POINT, "a point before the fork");
    ours = s->curl;
    if (fork() == 0) {
        require(tt_fetch(s) == TT_POINT && played.n_tries == 4 && strstr(played.body, "\"client\":\"c2\""), "a client of its own");
        require(s->curl != ours, "a connection of its own");
        _exit(0);
    }
    require(wait(&status) > 0 && status == 0, "a process that was forked fetches");
    if (fork() == 0) {
        require(tt_leave(s) == 0 && played.n_tries == 2, "the client of another process stays");
        _exit(0);
    }
    require(wait(&status) > 0 && status == 0, "a process that was forked leaves");
}

/* With an argument: in a program that writes numbers as in that locale. */
int main(int argc, char **argv) {
    long size = LONG_MAX - 1;
    char wanted[100];
    tt_session *s = tt_session_new("http://127.0.0.1:1/ \n", "a-token-of-the-tests\n", "s");
    if (!s || tt_int(s, "size", LONG_MIN + 1, LONG_MAX, LONG_MAX / 3, &size) < 0 || tt_real(s, "share", 0, 1.5, 0.125, &share) < 0) return 1;
    require(argc < 2 || setlocale(LC_NUMERIC, argv[1]) != NULL, "the locale");

    begin(60);
    require(tt_launch(s) < 0 && played.n_tries == 2 && played.now <= 1125, "a server that does not answer");
    require(strcmp(played.url, "http://127.0.0.1:1/api/v1/sessions") == 0, "the address without the end of its line");
    require(played.is_direct, "no proxy on the way to this machine");
    require(is_here("http://LocalHost/x") && is_here("[::1]:1") && !is_here("http://127.0.0.10:1") && !is_here("https://localhost.example.org/"),
            "what is this machine");
    require(strcmp(played.token, "Authorization: Bearer a-token-of-the-tests") == 0, "the token without the end of its line");
    snprintf(wanted, sizeof wanted, "\"low\":%ld,\"high\":%ld,\"step\":%ld,", LONG_MIN + 1, LONG_MAX, LONG_MAX / 3);
    require(strstr(played.body, wanted) != NULL, "a range that no double holds");
    require(strstr(played.body, "\"default\":0.25,\"low\":0,\"high\":1.5,\"step\":0.125,") != NULL, "numbers have a point");

    begin(0);
    require(tt_launch(s) < 0 && played.n_tries > 10 && played.now >= 1050 && played.now <= 1060, "nobody listens");
    begin(0);
    played.trouble = CURLE_UNSUPPORTED_PROTOCOL;
    require(tt_launch(s) < 0 && played.n_tries == 1 && strstr(tt_error(s), "hint: write the server's address as http://"),
            "an address that is none");
    begin(0);
    played.trouble = CURLE_SSL_CACERT_BADFILE;
    require(tt_launch(s) < 0 && played.n_tries == 1 && strstr(tt_error(s), "SSL_CERT_FILE"), "authorities that cannot be read");
    begin(0);
    setenv("SSL_CERT_FILE", "authorities.pem", 1);
    require(tt_keep_section(s, "{}") < 0 && played.n_tries == 1, "what is not tried again");
    require(strcmp(played.authorities, "authorities.pem") == 0, "authorities of one's own");
    test_conversation(s);
    test_forked(s);
    tt_session_free(s);
    puts("test_request: done");
    return 0;
}
