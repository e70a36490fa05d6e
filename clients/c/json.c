/* json.c: see json.h. Objects are read where they stand: answers are short. */
#include "json.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64 };

void tt_buffer_free(tt_buffer *buffer) {
    free(buffer->text);
    memset(buffer, 0, sizeof *buffer);
}

void tt_put_bytes(tt_buffer *buffer, const char *text, size_t length) {
    if (buffer->failed) return;
    if (length >= (size_t)-1 / 4 - buffer->length) {
        buffer->failed = 1;
        return;
    }
    if (buffer->length + length + 1 > buffer->room) {
        size_t room = 2 * (buffer->length + length + 64);
        char *grown = realloc(buffer->text, room);
        if (!grown) {
            buffer->failed = 1;
            return;
        }
        buffer->text = grown;
        buffer->room = room;
    }
    memcpy(buffer->text + buffer->length, text, length);
    buffer->length += length;
    buffer->text[buffer->length] = 0;
}

void tt_put(tt_buffer *buffer, const char *text) { tt_put_bytes(buffer, text, strlen(text)); }

void tt_put_string(tt_buffer *buffer, const char *text) {
    tt_put(buffer, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[8];
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            tt_put_bytes(buffer, escaped, 2);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            tt_put(buffer, escaped);
        } else {
            tt_put_bytes(buffer, text, 1);
        }
    }
    tt_put(buffer, "\"");
}

/* How many bytes the character at `at` has; 0 when it is none of UTF-8. */
static size_t character(const unsigned char *at) {
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = *at < 0x80 ? 1 : *at < 0xc0 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf8 ? 4 : 0, i;
    unsigned code = n < 2 ? 0 : *at & (0x7fu >> n);
    if (n < 2) return n;
    for (i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

void tt_put_text(tt_buffer *buffer, const char *text, size_t most) {
    tt_buffer clean = {0};
    tt_put(&clean, "");
    for (; *text && most > 0; most--) {
        size_t n = character((const unsigned char *)text);
        tt_put_bytes(&clean, n ? text : "?", n ? n : 1);
        text += n ? n : 1;
    }
    if (clean.failed) buffer->failed = 1;
    else tt_put_string(buffer, clean.text);
    tt_buffer_free(&clean);
}

void tt_put_number(tt_buffer *buffer, double value) {
    char text[64];
    const char *point = localeconv()->decimal_point;
    char *found;
    snprintf(text, sizeof text, "%.17g", value);
    /* a program may have set a locale whose numbers have a comma, or a point of several bytes */
    found = strstr(text, point);
    if (found) {
        *found = '.';
        memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
    }
    tt_put(buffer, text);
}

void tt_put_long(tt_buffer *buffer, long value) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    tt_put(buffer, text);
}

static const char *space(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

/* Behind the string at `at`; NULL when it does not end. */
static const char *after_string(const char *at) {
    if (*at != '"') return NULL;
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && !*++at) return NULL;
    return *at ? at + 1 : NULL;
}

static const char *after_value(const char *at, int depth);

/* Behind the object or array at `at`. */
static const char *after_group(const char *at, int depth) {
    char end = *at == '{' ? '}' : ']';
    if (depth >= MOST_DEPTH) return NULL;
    at = space(at + 1);
    if (*at == end) return at + 1;
    for (;;) {
        if (end == '}') {
            at = after_string(space(at));
            if (!at) return NULL;
            at = space(at);
            if (*at++ != ':') return NULL;
        }
        at = after_value(space(at), depth + 1);
        if (!at) return NULL;
        at = space(at);
        if (*at == end) return at + 1;
        if (*at++ != ',') return NULL;
    }
}

static const char *after_value(const char *at, int depth) {
    if (*at == '"') return after_string(at);
    if (*at == '{' || *at == '[') return after_group(at, depth);
    if (!*at || strchr(",:]}", *at)) return NULL;
    while (*at && !strchr(",:]} \t\r\n", *at)) at++;
    return at;
}

const char *tt_member(const char *json, const char *key) {
    const char *at;
    if (!json) return NULL;
    at = space(json);
    if (*at != '{') return NULL;
    at = space(at + 1);
    while (*at == '"') {
        const char *value = after_string(at);
        char *name = tt_string(at);
        int is_it = name && strcmp(name, key) == 0;
        free(name);
        if (!value) return NULL;
        value = space(value);
        if (*value != ':') return NULL;
        value = space(value + 1);
        if (is_it) return value;
        at = after_value(value, 0);
        if (!at) return NULL;
        at = space(at);
        if (*at != ',') return NULL;
        at = space(at + 1);
    }
    return NULL;
}

static int hex(const char *at, unsigned *value) {
    int i;
    *value = 0;
    for (i = 0; i < 4; i++) {
        char c = at[i];
        unsigned digit;
        if (c >= '0' && c <= '9') digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F') digit = (unsigned)(c - 'A') + 10;
        else return 0;
        *value = *value * 16 + digit;
    }
    return 1;
}

static void put_code(tt_buffer *out, unsigned code) {
    char bytes[4];
    if (code < 0x80) {
        bytes[0] = (char)code;
        tt_put_bytes(out, bytes, 1);
    } else if (code < 0x800) {
        bytes[0] = (char)(0xc0 | (code >> 6));
        bytes[1] = (char)(0x80 | (code & 0x3f));
        tt_put_bytes(out, bytes, 2);
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | (code >> 12));
        bytes[1] = (char)(0x80 | ((code >> 6) & 0x3f));
        bytes[2] = (char)(0x80 | (code & 0x3f));
        tt_put_bytes(out, bytes, 3);
    } else {
        bytes[0] = (char)(0xf0 | (code >> 18));
        bytes[1] = (char)(0x80 | ((code >> 12) & 0x3f));
        bytes[2] = (char)(0x80 | ((code >> 6) & 0x3f));
        bytes[3] = (char)(0x80 | (code & 0x3f));
        tt_put_bytes(out, bytes, 4);
    }
}

/* Takes the escape at `at` (behind its backslash); behind it, or NULL. */
static const char *escape(tt_buffer *out, const char *at) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known;
    unsigned code, low;
    if (*at != 'u') {
        known = *at ? strchr(from, *at) : NULL;
        if (!known) return NULL;
        tt_put_bytes(out, to + (known - from), 1);
        return at + 1;
    }
    if (!hex(at + 1, &code) || !code) return NULL;
    at += 5;
    if (code >= 0xd800 && code < 0xdc00 && at[0] == '\\' && at[1] == 'u' && hex(at + 2, &low) && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    put_code(out, code);
    return at;
}

char *tt_string(const char *json) {
    tt_buffer out = {0};
    const char *at;
    if (!json || *json != '"' || !after_string(json)) return NULL;
    tt_put(&out, "");
    for (at = json + 1; at && *at != '"';) {
        if (*at == '\\') {
            at = escape(&out, at + 1);
        } else {
            tt_put_bytes(&out, at, 1);
            at++;
        }
    }
    if (!at || out.failed) {
        tt_buffer_free(&out);
        return NULL;
    }
    return out.text;
}
