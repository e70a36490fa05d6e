/* Reads good and bad JSON; with the sanitizers it must neither leave its bounds nor leak. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static void expect(const char *json, const char *key, const char *text) {
    const char *at = tt_member(json, key);
    char *found = tt_string(at);
    if (!!text != !!found || (text && strcmp(text, found) != 0)) {
        fprintf(stderr, "%s of %s: %s instead of %s\n", key, json, found ? found : "nothing", text ? text : "nothing");
        exit(1);
    }
    free(found);
}

/* What is sent of a text, which may be of any bytes. */
static void texts(void) {
    static const char *const pairs[][2] = {
        {"caf\xc3\xa9", "caf\xc3\xa9"}, {"caf\xe9", "caf?"}, {"\xe9t\xe9", "?t?"}, {"\xc0\xaf", "??"}, {"\xed\xa0\x80", "???"}, {"\xf4\x90\x80\x80", "????"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}, {"\xf0\x9f", "??"}, {"", ""}, {"123456789", "12345678"},
    };
    size_t i;
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        tt_buffer put = {0};
        tt_put(&put, "{\"a\":");
        tt_put_text(&put, pairs[i][0], 8);
        tt_put(&put, "}");
        expect(put.text, "a", pairs[i][1]);
        tt_buffer_free(&put);
    }
}

int main(void) {
    static const char *const broken[] = {
        "", "{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":\"", "{\"a\":\"\\", "{\"a\":\"\\u12\"}", "{\"a\":\"\\q\"}", "[\"a\"]", "{\"b\":[1,2,\"a\":1}",
        "{\"b\":{,\"a\":\"x\"}", "{\"a\":\"\\u0000\"}", "null", "{\"a\" \"x\"}",
    };
    size_t i;
    tt_buffer deep = {0}, put = {0};
    expect("{\"a\": \"x\"}", "a", "x");
    expect(" { \"b\" : {\"a\": 1, \"c\": [1, {\"a\": \"no\"}]} , \"a\" : \"y\" } ", "a", "y");
    expect("{\"a\": \"\\\"\\\\\\/\\n\\u00e4\\ud83d\\ude00\"}", "a", "\"\\/\n\xc3\xa4\xf0\x9f\x98\x80");
    expect("{\"a\": 7}", "a", NULL);
    expect("{\"a\\u0062\": \"z\"}", "ab", "z");
    for (i = 0; i < sizeof broken / sizeof *broken; i++) expect(broken[i], "a", NULL);
    tt_put(&deep, "{\"b\":");
    for (i = 0; i < 100000; i++) tt_put(&deep, "[");
    expect(deep.text, "a", NULL);
    tt_buffer_free(&deep);
    tt_put(&put, "{\"a\":");
    tt_put_string(&put, "q\"\\\n\x7f");
    tt_put(&put, ",\"n\":");
    tt_put_number(&put, 0.1);
    tt_put(&put, "}");
    expect(put.text, "a", "q\"\\\n\x7f");
    assert(strtod(tt_member(put.text, "n"), NULL) == 0.1);
    tt_buffer_free(&put);
    texts();
    puts("test_json: done");
    return 0;
}
