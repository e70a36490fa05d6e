/*
 * Probes that can be given up. The statement is planned and started as without us; then the probe's plan runs first, in a
 * subtransaction of its own. If it fails, or has sent no row by its limit, it is rolled back and the statement runs as it was started:
 * what was lost is the limit. With the first row the probe goes on to its end, for what was sent cannot be taken back.
 */
#include "statement.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include <signal.h>

/* The one that waits to be run, of this backend. */
static struct {
    MemoryContext context;
    PlannedStmt *plan;
    Planned with;
    uint32 tag; /* of the statement's own plan; 0: not planned yet */
} peek;

static TimeoutId timer;
static bool has_timer = false;
static volatile sig_atomic_t is_over = false;
static volatile sig_atomic_t is_cancelled = false; /* by the user or a time-out of PostgreSQL's, while the probe runs */
static struct sigaction own_cancel;

/* After so many in a row that were made ready and could not run, this session makes none: something it always does (auto_explain that
   analyzes, a client that fetches in parts) stands in the way, and each has cost a planning. */
#define MOST_UNRUN 8
static int n_unrun = 0;

/* Passes rows on; what they go to hears of nothing before the first one. */
typedef struct Gate {
    DestReceiver pub;
    DestReceiver *to;
    TupleDesc row;
    int operation;
    bool is_open;
} Gate;

static void at_limit(void)
{
    if (QueryCancelPending) return; /* by the user */
    is_over = true;
    QueryCancelPending = InterruptPending = true;
}

/* Every cancel of others comes as this signal. Our own stop sets the same flag in PostgreSQL, which does not say whose it is. */
static void at_cancel(int number)
{
    is_cancelled = true;
    own_cancel.sa_handler(number);
}

static void listen_for_cancel(void)
{
    struct sigaction mine;
    is_cancelled = false;
    sigaction(SIGINT, NULL, &own_cancel);
    mine = own_cancel;
    mine.sa_handler = at_cancel;
    sigaction(SIGINT, &mine, NULL);
}

static void listen_no_more(void)
{
    sigaction(SIGINT, &own_cancel, NULL);
}

/* Afterwards nothing of our own stop is pending; a cancel of others is, whenever it came. */
static void stop_timer(void)
{
    disable_timeout(timer, false);
    if (is_over) {
        QueryCancelPending = false;
        if (is_cancelled) QueryCancelPending = InterruptPending = true;
    }
    is_over = false;
}

static void open_gate(Gate *gate)
{
    if (gate->is_open) return;
    stop_timer();
    gate->is_open = true;
    gate->to->rStartup(gate->to, gate->operation, gate->row);
}

static void gate_startup(DestReceiver *self, int operation, TupleDesc row)
{
    ((Gate *)self)->operation = operation;
    ((Gate *)self)->row = row;
}

static bool gate_receive(TupleTableSlot *slot, DestReceiver *self)
{
    open_gate((Gate *)self);
    return ((Gate *)self)->to->receiveSlot(slot, ((Gate *)self)->to);
}

static void gate_shutdown(DestReceiver *self)
{
    open_gate((Gate *)self);
    ((Gate *)self)->to->rShutdown(((Gate *)self)->to);
}

static void gate_destroy(DestReceiver *self)
{
}

void trimtab_keep_peek(const Planned *p, const PlannedStmt *plan)
{
    MemoryContext own = CurrentMemoryContext;
    if (!has_timer) timer = RegisterTimeout(USER_TIMEOUT, at_limit);
    has_timer = true;
    if (peek.context == NULL) peek.context = AllocSetContextCreate(TopMemoryContext, "trimtab peek", ALLOCSET_DEFAULT_SIZES);
    MemoryContextSwitchTo(peek.context);
    peek.plan = copyObject((PlannedStmt *)plan);
    MemoryContextSwitchTo(own);
    peek.with = *p;
    peek.tag = 0;
}

void trimtab_tag_peek(uint32 tag)
{
    if (peek.plan != NULL && peek.tag == 0) peek.tag = tag;
}

bool trimtab_has_peek(uint32 tag)
{
    return peek.plan != NULL && peek.tag == tag;
}

static void drop(void)
{
    peek.plan = NULL;
    peek.tag = 0;
    MemoryContextReset(peek.context);
}

bool trimtab_can_peek(void)
{
    return n_unrun < MOST_UNRUN && trimtab_can_stop();
}

/* Its statement never ran, or ran where it could not be stopped. */
void trimtab_return_peek(void)
{
    Shared *shared = trimtab_shared();
    Class *class;
    if (peek.plan == NULL) return;
    n_unrun++;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&peek.with.key, peek.with.base, false);
    if (class != NULL) tt_return(&class->tuner, &peek.with.ticket);
    LWLockRelease(&shared->lock);
    drop();
}

/* Time is lost, and these values are not tried again. */
static void give_up(double ms, EventKind why)
{
    Shared *shared = trimtab_shared();
    Class *class;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    class = trimtab_find(&peek.with.key, peek.with.base, false);
    if (class != NULL) {
        tt_abandon(&class->tuner, &peek.with.ticket, ms);
        shared->total_ms += ms;
        shared->loss_ms += ms;
        trimtab_record(shared, class, why, &peek.with.ticket.point, ms);
    }
    LWLockRelease(&shared->lock);
}

static void start_timer(void)
{
    double limit = peek.with.ticket.limit;
    is_over = false;
    if (limit <= 0) return; /* the budget covers all of it */
    if (trimtab_test_cost[0] == '\0') enable_timeout_after(timer, Max(1, (int)Min(limit, INT_MAX / 2)));
    else if (trimtab_test_ms(peek.with.base, &peek.with.ticket.point) > limit) {
        at_limit();
        if (strstr(trimtab_test_cost, "cancel=1") != NULL) raise(SIGINT);
    }
}

/* The probe's plan to its end; how many rows it gave. */
static uint64 run_plan(QueryDesc *desc, Gate *gate)
{
    uint64 n;
    int level = trimtab_open_level(&peek.with, true);
    QueryDesc *mine = CreateQueryDesc(peek.plan, desc->sourceText, desc->snapshot, InvalidSnapshot, (DestReceiver *)gate, desc->params,
                                      desc->queryEnv, 0);
    if (trimtab_is_refused) ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_RESOURCES), errmsg("%s", trimtab_left_text(LEFT_REFUSED))));
    start_timer();
    trimtab_test_wait("peek");
    standard_ExecutorStart(mine, 0);
#if PG_VERSION_NUM >= 180000
    standard_ExecutorRun(mine, ForwardScanDirection, 0);
#else
    standard_ExecutorRun(mine, ForwardScanDirection, 0, true);
#endif
    stop_timer();
    n = mine->estate->es_processed;
    standard_ExecutorFinish(mine);
    standard_ExecutorEnd(mine);
    FreeQueryDesc(mine);
    trimtab_close_level(level);
    return n;
}

/* Before the first row, our own stop, and errors that may be those of the probe's plan: of values (22...), memory or space (53...). All
   others stand, a cancel by the user among them. */
static void after_error(ErrorData *error, const Gate *gate, bool was_over)
{
    int kind = ERRCODE_TO_CATEGORY(error->sqlerrcode);
    bool is_stop = error->sqlerrcode == ERRCODE_QUERY_CANCELED && was_over && !is_cancelled;
    bool is_plans = kind == ERRCODE_DATA_EXCEPTION || kind == ERRCODE_INSUFFICIENT_RESOURCES;
    if (gate->is_open || !(is_stop || is_plans)) {
        give_up(0, EVENT_FAILED);
        drop();
        ReThrowError(error);
    }
    FreeErrorData(error);
}

static bool try_plan(QueryDesc *desc)
{
    Gate gate = {{gate_receive, gate_startup, gate_shutdown, gate_destroy, DestNone}, desc->dest, NULL, 0, false};
    MemoryContext own = CurrentMemoryContext;
    MemoryContext scratch = AllocSetContextCreate(own, "trimtab probe", ALLOCSET_DEFAULT_SIZES);
    ResourceOwner owner = CurrentResourceOwner;
    volatile bool is_done = false;
    bool has_entered = trimtab_enter();
    listen_for_cancel();
    PG_TRY();
    {
        BeginInternalSubTransaction(NULL);
        MemoryContextSwitchTo(scratch);
        PG_TRY();
        {
            desc->estate->es_processed = run_plan(desc, &gate);
#if PG_VERSION_NUM >= 160000
            desc->estate->es_total_processed += desc->estate->es_processed; /* for pg_stat_statements */
#endif
            ReleaseCurrentSubTransaction();
            is_done = true;
        }
        PG_CATCH();
        {
            ErrorData *error;
            bool was_over = is_over;
            if (was_over && strstr(trimtab_test_cost, "cancel=2") != NULL) raise(SIGINT);
            stop_timer();
            MemoryContextSwitchTo(own);
            error = CopyErrorData();
            FlushErrorState();
            RollbackAndReleaseCurrentSubTransaction();
            MemoryContextSwitchTo(own);
            CurrentResourceOwner = owner;
            trimtab_levels_failed(true);
            after_error(error, &gate, was_over);
        }
        PG_END_TRY();
        MemoryContextSwitchTo(own);
        CurrentResourceOwner = owner;
        MemoryContextDelete(scratch); /* before the statement itself needs its memory */
    }
    PG_FINALLY();
    {
        listen_no_more();
        trimtab_leave(has_entered);
    }
    PG_END_TRY();
    return is_done;
}

/* Runs the probe that waits for this statement; if it came to its end, `p` and `ms` are the probe's. */
bool trimtab_peek(QueryDesc *desc, Planned *p, double *ms)
{
    instr_time began;
    bool is_done;
    uint32 tag = p->tag;
    n_unrun = -1; /* it is not the session that stands in the way */
    if (!trimtab_reserve(peek.with.extra_kb)) {
        trimtab_return_peek();
        return false;
    }
    n_unrun = 0;
    INSTR_TIME_SET_CURRENT(began);
    if (desc->totaltime != NULL) InstrStartNode(desc->totaltime);
    is_done = try_plan(desc);
    if (desc->totaltime != NULL) InstrStopNode(desc->totaltime, is_done ? (double)desc->estate->es_processed : 0);
    if (is_done) {
        *p = peek.with;
        p->tag = tag;
        *ms += trimtab_elapsed_ms(began);
    } else {
        give_up(trimtab_test_cost[0] != '\0' && peek.with.ticket.limit > 0 ? peek.with.ticket.limit : trimtab_elapsed_ms(began), EVENT_STOPPED);
        trimtab_release();
        (void)trimtab_reserve(p->extra_kb);
    }
    drop();
    return is_done;
}
