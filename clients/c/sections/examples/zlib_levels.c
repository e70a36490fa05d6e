/*
 * Compresses pages until each takes the least time per byte saved: level, window and memory of zlib. What comes out of inflate is
 * the same at every level; the work of a section is the bytes saved, so a level that saves less has to be that much faster.
 * `zlib_levels [RUNS]` prints what was learnt, as JSON.
 */
#include "trimtab_sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define N 65536

static size_t squeeze(const unsigned char *in, unsigned char *out, long level, long window, long memory)
{
    z_stream z;
    memset(&z, 0, sizeof z);
    if (deflateInit2(&z, (int)level, Z_DEFLATED, (int)window, (int)memory, Z_DEFAULT_STRATEGY) != Z_OK) return N;
    z.next_in = (unsigned char *)in;
    z.avail_in = N;
    z.next_out = out;
    z.avail_out = 2 * N;
    size_t size = deflate(&z, Z_FINISH) == Z_STREAM_END ? z.total_out : N;
    deflateEnd(&z);
    return size;
}

int main(int argc, char **argv)
{
    static unsigned char page[N], out[2 * N];
    const tt_param params[] = {{.name = "level", .low = 1, .high = 9, .initial = 6},
                               {.name = "window", .low = 9, .high = 15, .initial = 15},
                               {.name = "memory", .low = 1, .high = 9, .initial = 8}};
    static const char *const words[] = {"select ", "from ", "where ", "order ", "by ", "lineitem ", "0.05 ", "1995-03-15 "};
    int n_runs = argc > 1 ? atoi(argv[1]) : 300;
    char json[1024];
    tt_run run;
    tt_group *group = tt_group_open(NULL, NULL);
    tt_section *section = group == NULL ? NULL : tt_section_open(group, "deflate", params, 3, NULL);
    if (section == NULL) return 1;
    srand(1);
    for (int r = 0; r < n_runs; r++) {
        size_t filled = 0;
        while (filled < N) {
            const char *word = words[rand() % 8];
            for (; *word != '\0' && filled < N; word++) page[filled++] = (unsigned char)*word;
        }
        tt_begin(section, &run, 0);
        size_t size = squeeze(page, out, tt_value(section, &run, 0), tt_value(section, &run, 1), tt_value(section, &run, 2));
        if (size < N) tt_end(section, &run, (double)(N - size));
        else tt_cancel(section, &run);
    }
    tt_section_json(section, json, sizeof json);
    puts(json);
    tt_group_close(group);
    return 0;
}
