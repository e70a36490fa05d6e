/* values.c: knobs and configs between the program's variables and JSON. */
#include "internal.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const KINDS[] = {"integer", "real", "boolean", "choice"};

double tt_number_at(const char *at) {
    /* strtod reads the point of the locale, which may have several bytes; JSON has '.' */
    char text[128];
    int n = (int)strcspn(at, ",}] \t\r\n"), whole = (int)strcspn(at, ".,}] \t\r\n");
    const char *point = whole < n ? localeconv()->decimal_point : "";
    if (n + (int)strlen(point) >= (int)sizeof text) return NAN;
    snprintf(text, sizeof text, "%.*s%s%.*s", whole, at, point, whole < n ? n - whole - 1 : 0, at + whole + (whole < n));
    return strtod(text, NULL);
}

static int written(tt_session *s, const knob *k, const char *at) {
    size_t i;
    char *text;
    if (k->kind == KIND_INT) *(long *)k->value = strtol(at, NULL, 10);
    if (k->kind == KIND_REAL) *(double *)k->value = tt_number_at(at);
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
    return tt_failed(s, "the server gave a choice that this program does not know", "the session was begun by another program");
}

int tt_take_config(tt_session *s, const char *config) {
    size_t i;
    for (i = 0; i < s->n_knobs; i++) {
        const char *at = tt_member(config, s->knobs[i].name);
        if (!at) return tt_failed(s, "the session has no such knob as this program has", s->knobs[i].name);
        if (written(s, &s->knobs[i], at) < 0) return TT_ERROR;
    }
    return 0;
}

void tt_put_knob(tt_buffer *body, const knob *k) {
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
        int is_whole = k->kind == KIND_INT;
        tt_put(body, ",\"low\":");
        is_whole ? tt_put_long(body, k->whole.low) : tt_put_number(body, k->real.low);
        tt_put(body, ",\"high\":");
        is_whole ? tt_put_long(body, k->whole.high) : tt_put_number(body, k->real.high);
        if (is_whole ? k->whole.step > 0 : k->real.step > 0) {
            tt_put(body, ",\"step\":");
            is_whole ? tt_put_long(body, k->whole.step) : tt_put_number(body, k->real.step);
        }
        if (k->is_log) tt_put(body, ",\"log\":true");
        tt_put(body, ",\"unit\":");
        tt_put_string(body, k->unit);
    }
    tt_put(body, "}");
}
