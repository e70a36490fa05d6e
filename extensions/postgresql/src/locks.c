/*
 * Whether this session holds locks that others may wait for: advisory ones, and on tables from SHARE UPDATE EXCLUSIVE on. What a slow probe
 * would lengthen then is not its statement alone. Rows that are locked give the transaction an id, which inspect.c sees.
 */
#include "trimtab.h"

#include "storage/lock.h"
#include "storage/proc.h"
#if PG_VERSION_NUM < 160000
#include "storage/shmem.h"
#endif

static bool is_awaited(const PROCLOCK *held)
{
    const LOCK *lock = held->tag.myLock;
    if (lock->tag.locktag_type == LOCKTAG_ADVISORY) return held->holdMask != 0;
    return lock->tag.locktag_type == LOCKTAG_RELATION && held->holdMask >> ShareUpdateExclusiveLock != 0;
}

#if PG_VERSION_NUM >= 160000
static bool is_empty(int partition)
{
    return dlist_is_empty(&MyProc->myProcLocks[partition]);
}

static bool has_awaited(int partition)
{
    dlist_iter at;
    dlist_foreach(at, &MyProc->myProcLocks[partition])
    {
        if (is_awaited(dlist_container(PROCLOCK, procLink, at.cur))) return true;
    }
    return false;
}
#else
static bool is_empty(int partition)
{
    return SHMQueueEmpty(&MyProc->myProcLocks[partition]);
}

static bool has_awaited(int partition)
{
    SHM_QUEUE *all = &MyProc->myProcLocks[partition];
    const size_t offset = offsetof(PROCLOCK, procLink);
    for (PROCLOCK *each = (PROCLOCK *)SHMQueueNext(all, all, offset); each != NULL; each = (PROCLOCK *)SHMQueueNext(all, &each->procLink, offset))
        if (is_awaited(each)) return true;
    return false;
}
#endif

/* A list that looks empty has no lock of ours: only we add those, others at most the weak ones of the fast path. */
bool trimtab_holds_locks(void)
{
    bool has = false;
    for (int i = 0; i < NUM_LOCK_PARTITIONS && !has; i++) {
        if (is_empty(i)) continue;
        LWLockAcquire(LockHashPartitionLockByIndex(i), LW_SHARED);
        has = has_awaited(i);
        LWLockRelease(LockHashPartitionLockByIndex(i));
    }
    return has;
}
