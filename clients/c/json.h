/* json.h: as much of JSON as the answers of the server need. Not installed. */
#ifndef TRIMTAB_JSON_H
#define TRIMTAB_JSON_H

#include <stddef.h>

/* A text that grows; `failed` when memory was short, and then it is not to be used. */
typedef struct {
    char *text;
    size_t length, room;
    int failed;
} tt_buffer;

void tt_buffer_free(tt_buffer *buffer);
void tt_put(tt_buffer *buffer, const char *text);
void tt_put_bytes(tt_buffer *buffer, const char *text, size_t length);
void tt_put_string(tt_buffer *buffer, const char *text); /* quoted and escaped */
/* The same of at most so many characters; bytes that are no UTF-8, which no server takes, become "?". */
void tt_put_text(tt_buffer *buffer, const char *text, size_t most);
void tt_put_number(tt_buffer *buffer, double value);
void tt_put_long(tt_buffer *buffer, long value);

/* Where the value of `key` begins in the object at `json`; NULL when there is none, or the text is no JSON. */
const char *tt_member(const char *json, const char *key);

/* The string at `json`, decoded, to be freed; NULL when it is none. */
char *tt_string(const char *json);

#endif
