/*
 * trimtab_share.h: between the files of this library; not for callers. A group is a table of slots, in memory of this process or in a
 * mapped file, and each slot has a lock that processes share.
 */
#ifndef TRIMTAB_SHARE_H
#define TRIMTAB_SHARE_H

#include "trimtab_sections.h"

#define N_SLOTS 64
#define NAME_BYTES 64

typedef struct tt_slot {
    uint32_t lock; /* the process that holds it; 0: free */
    uint32_t is_used;
    uint64_t fingerprint; /* of the parameters: a program with others has a slot of its own */
    char name[NAME_BYTES];
    tt_tuner tuner;
} tt_slot;

typedef struct tt_block {
    uint64_t magic;
    uint32_t layout, slot_bytes, n_slots;
    uint32_t lock;
    tt_slot slots[N_SLOTS];
} tt_block;

struct tt_section {
    tt_group *group;
    tt_slot *slot;
    tt_slot *alone; /* where there is none to share */
    int n_params, writes;
    uint32_t lock, n_inside, is_left; /* left: its slot cannot be locked, and runs use the defaults */
    tt_space space;
    tt_options options;
    tt_param param[TT_MAX_PARAMS];
    tt_point now; /* what addresses and setters were last given */
    struct tt_section *next;
};

struct tt_group {
    tt_block *block;
    bool is_mapped, is_off;
    tt_clock clock;
    tt_section *sections;
    char error[512];
};

enum tt_taken { TT_TAKEN, TT_STOLEN, TT_NOT_TAKEN };

void tt_complain(tt_group *group, const char *format, ...);
uint64_t tt_monotonic(void);

/* TT_STOLEN from a process that died with it: what it guards may be half written. TT_NOT_TAKEN within `patience` ns. */
enum tt_taken tt_take_lock(uint32_t *lock, uint64_t patience);
void tt_unlock(uint32_t *lock);

/* How long to wait for what other processes may hold. */
uint64_t tt_patience(const tt_section *section);

/* The file as a table of slots, made if it is not there; NULL with a complaint. */
tt_block *tt_map(tt_group *group, const char *path);

/* The slot of that name and these parameters, new or found; one of the section's own where none can be shared; NULL without memory. */
tt_slot *tt_take_slot(tt_section *section, const char *name, uint64_t fingerprint);

#endif
