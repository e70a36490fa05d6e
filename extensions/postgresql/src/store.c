/*
 * What is known, kept in a file over restarts: version, owner, checksum. A file of another version, of another server, or damaged is
 * neither read nor overwritten where it may be another's; what was wrong stands in trimtab_status. No text of a statement is in it.
 */
#include "trimtab.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#define FORGET_AFTER_DAYS 90

typedef struct Header {
    uint32 magic, layout;
    uint64 system;
    uint32 data_dir; /* a copy of a server is another server */
    uint32 n_classes, class_bytes;
    pg_crc32c checksum; /* of the classes */
} Header;

static Header own_header(void)
{
    Header header;
    memset(&header, 0, sizeof header);
    header.magic = TRIMTAB_MAGIC;
    header.layout = TRIMTAB_LAYOUT;
    header.system = GetSystemIdentifier();
    header.data_dir = DatumGetUInt32(hash_any((const unsigned char *)DataDir, (int)strlen(DataDir)));
    header.class_bytes = sizeof(Class);
    return header;
}

static pg_crc32c checksum(const Class *classes, uint32 n)
{
    pg_crc32c crc;
    INIT_CRC32C(crc);
    COMP_CRC32C(crc, classes, sizeof(Class) * n);
    FIN_CRC32C(crc);
    return crc;
}

/* Whether a problem is of the file that this session has: one may have set another. */
static bool is_of_own_file(const char *problem)
{
    size_t n = strlen(trimtab_file);
    return strncmp(problem, "file=", 5) == 0 && strncmp(problem + 5, trimtab_file, n) == 0 && problem[5 + n] == ' ';
}

/* What is wrong with the file, whichever session has met it; the caller holds the lock. */
const char *trimtab_file_problem(const Shared *shared)
{
    return is_of_own_file(shared->file_problem) ? shared->file_problem : "";
}

/* For trimtab_status of all sessions; `text` "": nothing is wrong any more. */
static void note_problem(Shared *shared, const char *text)
{
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    if (text[0] != '\0' || is_of_own_file(shared->file_problem)) strlcpy(shared->file_problem, text, sizeof shared->file_problem);
    LWLockRelease(&shared->lock);
}

static void complain(Shared *shared, const char *what, const char *hint)
{
    char text[sizeof shared->file_problem];
    snprintf(text, sizeof text, "file=%s %s", trimtab_file, what);
    note_problem(shared, text);
    ereport(LOG, (errmsg("trimtab: %s", text), errhint("%s", hint)));
}

/* `what` could not be done, and the operating system says why. */
static void complain_of_system(Shared *shared, const char *what, int error, const char *hint)
{
    char text[128];
    snprintf(text, sizeof text, "%s: %s", what, strerror(error));
    complain(shared, text, hint);
}

/* What may be another's is not replaced: it may hold what nobody wants to lose. */
static void complain_of_reading(Shared *shared, int error)
{
    complain_of_system(shared, "cannot be read", error, "Give the server's user the right to read it, or set trimtab.file to another name.");
}

/* What stands in the way of using the file that is there; NULL when it is ours. */
static const char *wrong_with(const Header *found, const char **hint)
{
    Header own = own_header();
    *hint = "Remove the file if it is trimtab's, which learns anew; otherwise set trimtab.file to another name.";
    if (found->magic != own.magic) return "is not a file of trimtab, or is damaged";
    *hint = "Remove the file; trimtab learns anew.";
    if (found->layout != own.layout || found->class_bytes != own.class_bytes) return "is of another version of trimtab";
    if (found->system != own.system || found->data_dir != own.data_dir) {
        *hint = "Give each server a trimtab.file of its own, or remove the file if its server was moved here.";
        return "belongs to another server";
    }
    return NULL;
}

static bool is_usable(const Class *class)
{
    tt_space space;
    if (!class->is_used || !tt_is_sane(&class->tuner)) return false;
    if (class->tuner.phase != TT_PINNED && GetCurrentTimestamp() - class->last_at > FORGET_AFTER_DAYS * USECS_PER_DAY) return false;
    if (!trimtab_are_levels(class->base_values, class->levels)) return false;
    trimtab_space_of(class->levels, &space);
    return memcmp(&space, &class->tuner.space, sizeof space) == 0;
}

static void take(Shared *shared, Class *classes, uint32 n)
{
    int at = 0;
    for (uint32 i = 0; i < n && at < N_CLASSES; i++) {
        Class *class = &shared->class[at];
        if (!is_usable(&classes[i])) continue;
        *class = classes[i];
        class->tuner.lease = 0;
        class->tuner.cusum_up = class->tuner.cusum_down = 0;
        shared->hash[at] = DatumGetUInt32(hash_any((const unsigned char *)&class->key, sizeof class->key));
        at++;
    }
}

/* Takes away what savers that were killed have left; what a process that lives writes is its own. */
static void remove_leftovers(void)
{
    char folder[MAXPGPATH], path[MAXPGPATH * 2];
    const char *name = last_dir_separator(trimtab_file);
    struct dirent *entry;
    DIR *dir;
    name = name == NULL ? trimtab_file : name + 1;
    strlcpy(folder, trimtab_file, sizeof folder);
    get_parent_directory(folder);
    if (folder[0] == '\0') strlcpy(folder, ".", sizeof folder);
    dir = AllocateDir(folder);
    while (dir != NULL && (entry = ReadDirExtended(dir, folder, LOG)) != NULL) {
        int pid = 0, end = 0;
        if (strncmp(entry->d_name, name, strlen(name)) != 0) continue;
        if (sscanf(entry->d_name + strlen(name), ".%d.tmp%n", &pid, &end) != 1 || end == 0 || pid <= 0) continue;
        if (entry->d_name[strlen(name) + end] != '\0' || kill(pid, 0) == 0 || errno != ESRCH) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir != NULL) FreeDir(dir);
}

void trimtab_load(Shared *shared)
{
    Header header;
    const char *hint = "", *wrong = NULL;
    Class *classes = NULL;
    FILE *file = trimtab_file[0] == '\0' ? NULL : fopen(trimtab_file, "rb");
    if (file == NULL && trimtab_file[0] != '\0' && errno != ENOENT) complain_of_reading(shared, errno);
    if (trimtab_file[0] != '\0') remove_leftovers();
    if (file == NULL) return;
    if (fread(&header, sizeof header, 1, file) != 1) memset(&header, 0, sizeof header);
    wrong = wrong_with(&header, &hint);
    if (wrong == NULL && header.n_classes <= N_CLASSES) classes = malloc(sizeof(Class) * (header.n_classes + 1));
    if (wrong == NULL && (classes == NULL || fread(classes, sizeof(Class), header.n_classes, file) != header.n_classes ||
                          checksum(classes, header.n_classes) != header.checksum))
        wrong = "is damaged: its checksum does not match";
    fclose(file);
    if (wrong != NULL) complain(shared, wrong, hint);
    else take(shared, classes, header.n_classes);
    free(classes);
}

/* A file that is not ours is not overwritten; a damaged one of ours is, and one that a crash has left empty. */
static bool may_write(Shared *shared)
{
    Header header, own = own_header();
    const char *hint, *wrong;
    FILE *file = fopen(trimtab_file, "rb");
    size_t n;
    if (file == NULL && errno == ENOENT) return true;
    if (file == NULL) {
        complain_of_reading(shared, errno);
        return false;
    }
    n = fread(&header, 1, sizeof header, file);
    fclose(file);
    if (n == 0) return true;
    if (n >= sizeof header.magic && n < sizeof header && header.magic == own.magic) return true;
    if (n < sizeof header) header.magic = ~own.magic;
    wrong = wrong_with(&header, &hint);
    if (wrong == NULL) return true;
    complain(shared, wrong, hint);
    return false;
}

static bool write_all(const char *path, const Header *header, const Class *classes)
{
    FILE *file = fopen(path, "wb");
    bool is_done;
    if (file == NULL) return false;
    is_done = fwrite(header, sizeof *header, 1, file) == 1 && fflush(file) == 0;
    trimtab_test_wait("save");
    is_done = is_done && fwrite(classes, sizeof(Class), header->n_classes, file) == header->n_classes;
    is_done &= fflush(file) == 0;
    is_done &= fclose(file) == 0;
    return is_done;
}

bool trimtab_save(Shared *shared, int elevel)
{
    Header header;
    Class *classes;
    char path[MAXPGPATH];
    int error;
    bool is_done;
    if (trimtab_file[0] == '\0' || strcmp(trimtab_where(), "this backend only") == 0 || !may_write(shared)) return false;
    header = own_header();
    classes = malloc(sizeof shared->class);
    if (classes == NULL) return false;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    for (int i = 0; i < N_CLASSES; i++)
        if (shared->class[i].is_used) classes[header.n_classes++] = shared->class[i];
    shared->saved_changes = shared->changes;
    shared->saved_at = GetCurrentTimestamp();
    LWLockRelease(&shared->lock);
    header.checksum = checksum(classes, header.n_classes);
    snprintf(path, sizeof path, "%s.%d.tmp", trimtab_file, (int)getpid());
    is_done = write_all(path, &header, classes);
    error = errno;
    free(classes);
    if (is_done && durable_rename(path, trimtab_file, elevel) != 0) {
        error = errno;
        is_done = false;
    }
    if (is_done) {
        note_problem(shared, "");
        return true;
    }
    complain_of_system(shared, "cannot be written", error, "What was learnt is lost when the server stops.");
    unlink(path);
    return false;
}
