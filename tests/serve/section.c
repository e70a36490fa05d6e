/*
 * A program that tunes a section of its work, with a clock of its own, and sends what was learnt to a server if one answers. section
 * FILE writes it to FILE too. Prints what it learnt, and the server's answer or why there was none. section --fail begins a session and
 * reports a failure in words that are no text, and too long.
 */
#include "trimtab.h"
#include "trimtab_sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t now;
static uint64_t my_clock(void)
{
    return now;
}

static int fail(void)
{
    long size = 64;
    char words[5000];
    tt_session *s = tt_session_new(NULL, NULL, "failing");
    memset(words, 'x', sizeof words);
    memcpy(words, "caf\xe9", 4);
    words[sizeof words - 1] = 0;
    int is_done = tt_int(s, "size", 1, 99, 1, &size) == 0 && tt_launch(s) == 0 && tt_fetch(s) == TT_POINT && tt_fail(s, "crashed", words) == 0;
    if (!is_done) puts(tt_error(s));
    tt_session_free(s);
    return is_done ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--fail") == 0) return fail();
    const tt_param params[] = {{.name = "batch size", .low = 0, .high = 7, .initial = 2}, {.name = "way", .low = 0, .high = 3, .kind = TT_CHOICE}};
    char json[4096];
    tt_group *group = tt_group_open(NULL, my_clock);
    tt_section *section = tt_section_open(group, "work", params, 2, NULL);
    for (int i = 0; i < 3000; i++) {
        tt_run run;
        tt_begin(section, &run, 1);
        now += (uint64_t)(1000 + 100 * labs(tt_value(section, &run, 0) - 6) + (tt_value(section, &run, 1) == 3 ? 0 : 200));
        tt_end(section, &run, 1);
    }
    if (tt_section_json(section, json, sizeof json) >= (int)sizeof json) return 1;
    tt_session *server = tt_session_new(NULL, NULL, NULL);
    int outcome = tt_keep_section(server, json);
    FILE *file = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (file != NULL) fputs(json, file);
    if (file != NULL) fclose(file);
    printf("%s\n%s\n", json, outcome < 0 ? tt_error(server) : "kept");
    outcome = tt_keep_section(server, "");
    if (outcome >= 0) return 1;
    tt_session_free(server);
    tt_group_close(group);
    return 0;
}
