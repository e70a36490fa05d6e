/*
 * The least that a program in C does for YCSB's reads and updates on WiredTiger: a random key, the engine's calls, and nothing
 * measured but the time of the whole. Called with cursors that are open already, one for each thread; the layout of a cursor is
 * that of its header since 11.0, which no Python package brings.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FIELDS = 10, FIELD_BYTES = 100, WORD = 4, RECORD_BYTES = WORD * (1 + FIELDS) + FIELDS * FIELD_BYTES, LOOK = 64 };

struct item {
	const void *data;
	size_t size;
	void *mem;
	size_t mem_size;
	uint32_t flags;
};

struct cursor {
	void *session;
	const char *uri, *key_format, *value_format;
	void *get_key;
	int (*get_value)(struct cursor *, ...);
	void *get_raw_key_value;
	void (*set_key)(struct cursor *, ...);
	void (*set_value)(struct cursor *, ...);
	void *compare, *equals;
	int (*next)(struct cursor *), (*prev)(struct cursor *), (*reset)(struct cursor *), (*search)(struct cursor *);
	int (*search_near)(struct cursor *, int *);
	int (*insert)(struct cursor *);
	void *modify;
	int (*update)(struct cursor *);
};

struct work {
	struct cursor *cursor;
	double seconds, update_share;
	uint64_t records, random;
	long done;
	int status;
};

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/* YCSB's name of a record: FNV-1a over the octets of its number. */
static size_t write_key(uint64_t number, char *key, size_t room)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (int i = 0; i < 8; i++)
		hash = (hash ^ ((number >> (8 * i)) & 0xff)) * UINT64_C(1099511628211);
	int64_t shown = (int64_t)hash;
	return (size_t)snprintf(key, room, "user%" PRIu64, (uint64_t)(shown < 0 ? -shown : shown));
}

/* The record with another value of one field, as a client writes it that knows the whole record only. */
static int change(struct work *work, const struct item *found)
{
	static _Thread_local char record[RECORD_BYTES];
	if (found->size != RECORD_BYTES)
		return -1;
	memcpy(record, found->data, RECORD_BYTES);
	char *field = record + WORD * (1 + FIELDS) + FIELD_BYTES * (next_random(&work->random) % FIELDS);
	for (size_t i = 0; i < FIELD_BYTES; i += sizeof(uint64_t)) {
		uint64_t letters = (next_random(&work->random) & UINT64_C(0x3f3f3f3f3f3f3f3f)) + UINT64_C(0x3030303030303030);
		memcpy(field + i, &letters, FIELD_BYTES - i < sizeof letters ? FIELD_BYTES - i : sizeof letters);
	}
	struct item item = {.data = record, .size = RECORD_BYTES};
	work->cursor->set_value(work->cursor, &item);
	return work->cursor->update(work->cursor);
}

static int one(struct work *work)
{
	struct cursor *cursor = work->cursor;
	char key[32];
	struct item item = {.data = key}, found = {0};
	item.size = write_key(next_random(&work->random) % work->records, key, sizeof key);
	cursor->set_key(cursor, &item);
	int status = cursor->search(cursor);
	if (status == 0)
		status = cursor->get_value(cursor, &found);
	if (status == 0 && (double)(next_random(&work->random) >> 11) * 0x1p-53 < work->update_share)
		status = change(work, &found);
	return status != 0 ? status : cursor->reset(cursor);
}

static void *run_thread(void *argument)
{
	struct work *work = argument;
	double end = now() + work->seconds;
	do {
		for (int i = 0; i < LOOK; i++) {
			if ((work->status = one(work)) != 0)
				return NULL;
			work->done++;
		}
	} while (now() < end);
	return NULL;
}

/* Operations of all threads within `seconds`; -1: a call of the engine has failed. */
long run_engine_loop(void **cursors, int n, double seconds, uint64_t records, double update_share)
{
	struct work work[n];
	pthread_t threads[n];
	for (int i = 0; i < n; i++) {
		work[i] = (struct work){cursors[i], seconds, update_share, records, UINT64_C(88172645463325252) + (uint64_t)i, 0, 0};
		if (pthread_create(&threads[i], NULL, run_thread, &work[i]) != 0)
			return -1;
	}
	long done = 0;
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		done = work[i].status != 0 && done >= 0 ? -1 : done < 0 ? done : done + work[i].done;
	}
	return done;
}
