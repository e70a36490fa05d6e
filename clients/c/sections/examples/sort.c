/*
 * A merge sort that finds its own cut-off: runs shorter than it are sorted by insertion. `sort [RUNS]` sorts that many arrays and
 * prints what was learnt, as JSON.
 */
#include "trimtab_sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 20000

static long cutoff = 2;

static void insertion(int *data, int n)
{
    for (int i = 1; i < n; i++) {
        int x = data[i], j = i;
        for (; j > 0 && data[j - 1] > x; j--) data[j] = data[j - 1];
        data[j] = x;
    }
}

static void sort(int *data, int *spare, int n)
{
    if (n <= cutoff) {
        insertion(data, n);
        return;
    }
    int half = n / 2, left = 0, right = half;
    sort(data, spare, half);
    sort(data + half, spare, n - half);
    memcpy(spare, data, sizeof(int) * (size_t)n);
    for (int i = 0; i < n; i++)
        data[i] = right >= n || (left < half && spare[left] <= spare[right]) ? spare[left++] : spare[right++];
}

int main(int argc, char **argv)
{
    static int data[N], spare[N];
    static const long steps[] = {2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 512, 2048};
    const tt_param params[] = {{.name = "cutoff", .values = steps, .n_values = 12, .initial = 2, .address = &cutoff}};
    int n_runs = argc > 1 ? atoi(argv[1]) : 1000;
    char json[1024];
    tt_run run;
    tt_group *group = tt_group_open(NULL, NULL);
    tt_section *section = group == NULL ? NULL : tt_section_open(group, "sort", params, 1, NULL);
    if (section == NULL) return 1;
    srand(1);
    for (int r = 0; r < n_runs; r++) {
        for (int i = 0; i < N; i++) data[i] = rand();
        tt_begin(section, &run, N);
        sort(data, spare, N);
        tt_end(section, &run, N);
        for (int i = 1; i < N; i++)
            if (data[i - 1] > data[i]) return 2;
    }
    tt_section_json(section, json, sizeof json);
    puts(json);
    tt_group_close(group);
    return 0;
}
