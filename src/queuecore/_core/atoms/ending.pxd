# The end of a program whose threads all wait: records which threads wait, and decides whether anything can still come.
#
# Each Python thread and each native thread is a participant. ending_note: a participant calls it after it has looked
# for what it waits for and has not found it (a Python thread after each slice of time, a native thread when it was
# woken and found nothing to do). ending_mark: a participant calls it when it begins to wait, and after a look that
# found something, or after anything else it does, before its next note. ending_decide: any thread, while no participant
# can begin or end unseen (with Python's GIL), with the list of all Python threads.
#   I1  Between two notes of a participant without a mark lies one whole look that failed, and nothing that others wait
#       for was changed by it.
#   I2  A phase begins at a moment at which every participant has noted and not marked, and is over when each has noted
#       NOTES more, none has marked, none has come and none has gone. A mark by a participant that has noted ends it,
#       and so does the first note of any other.
#   I3  When a phase ends by its count of notes, every look of its time has failed, and nothing was done in that time.
#       Proof by contradiction:
#       1. Suppose that a look found something. Let F be the first look of the phase that did, and A the participant
#          that made it.
#       2. A marks between F and its next note. A mark ends the phase (I2), which did not happen: so A did not note
#          after F.
#       3. So both of A's NOTES lie between the beginning and F. Between them lies a whole look of A's, and it failed
#          (I1).
#       4. So what F found was made after that look, by another participant B.
#       5. B noted before the beginning (I2), and a participant makes something only after a look that found something:
#          one of B's looks found something within the phase, before F. This contradicts 1.
#   I4  A native participant's look that finds nothing to do may have changed what others see; the next one, of the same
#       state, does not. So there are two phases: the second one's looks see the changes that the first one's made.
# Time plays no part: a late thread only delays the decision.
# Progress: all are blocking, for a few loads under a turn (ending_decide: for each thread, the table once).
# Sources: the two collects of Afek and others, "Atomic Snapshots of Shared Memory" (1993), and the waves of Mattern,
# "Algorithms for Distributed Termination Detection" (1987).
from libc.stdint cimport int32_t, uint64_t
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport Turn

cdef enum:
    MOST_WAITERS = 1024  # a thread that finds no place counts as working
    NOTES = 2
    PHASES = 2

cdef struct Waiter:
    uint64_t thread
    int32_t notes    # since the phase began
    bint native
    bint over        # the event that it waits for will never come

cdef struct Ending:
    Turn turn        # all below is used under it
    Waiter[MOST_WAITERS] waiters
    int32_t count, natives
    int32_t phase    # 0: none
    int32_t threads  # Python threads when the phase began


cdef inline int32_t _ending_at(Ending* e, uint64_t thread) noexcept nogil:
    cdef int32_t i
    for i in range(e.count):
        if e.waiters[i].thread == thread:
            return i
    return -1


cdef inline void _ending_remove(Ending* e, int32_t i) noexcept nogil:
    if e.waiters[i].native:
        e.natives -= 1
    e.count -= 1
    e.waiters[i] = e.waiters[e.count]


cdef inline void _ending_anew(Ending* e) noexcept nogil:
    cdef int32_t i
    for i in range(e.count):
        e.waiters[i].notes = 0


cdef inline void ending_mark(Ending* e, uint64_t thread) noexcept nogil:
    cdef int32_t i
    turn_take(&e.turn)
    i = _ending_at(e, thread)
    if i >= 0:
        _ending_remove(e, i)
        e.phase = 0
    turn_give(&e.turn)


cdef inline bint ending_note(Ending* e, uint64_t thread, bint native) noexcept nogil:
    # True: nothing will come, and the caller must end its wait.
    cdef int32_t i
    cdef bint is_over = False
    turn_take(&e.turn)
    i = _ending_at(e, thread)
    if i >= 0:
        e.waiters[i].notes += 1
        is_over = e.waiters[i].over
    else:
        e.phase = 0
        if e.count < MOST_WAITERS:
            i = e.count
            e.count += 1
            e.natives += native
            e.waiters[i].thread = thread
            e.waiters[i].notes = 0
            e.waiters[i].native = native
            e.waiters[i].over = False
    turn_give(&e.turn)
    return is_over


cdef inline bint ending_has(Ending* e, uint64_t thread) noexcept nogil:
    cdef bint found
    turn_take(&e.turn)
    found = _ending_at(e, thread) >= 0
    turn_give(&e.turn)
    return found


cdef inline bint ending_decide(Ending* e, const uint64_t* threads, int32_t count, int32_t natives, int32_t notes,
                               int32_t phases) noexcept nogil:
    # `threads`: all Python threads; a thread that joins another is listed as that other one. A waiter that is not
    # listed has ended. True: this call decided that none of these waits will end; ending_note tells each waiter.
    cdef int32_t i, n
    cdef bint is_here = True, noted = True, decided = False
    turn_take(&e.turn)
    for n in range(count):
        if _ending_at(e, threads[n]) < 0:
            is_here = False
            break
    i = 0
    while is_here and i < e.count:
        if not e.waiters[i].native:
            n = 0
            while n < count and threads[n] != e.waiters[i].thread:
                n += 1
            if n == count:
                _ending_remove(e, i)
                continue
        if e.waiters[i].notes < notes:
            noted = False
        i += 1
    if not is_here or e.natives != natives:
        e.phase = 0
    elif e.phase == 0 or e.threads != count:
        e.phase = 1
        e.threads = count
        _ending_anew(e)
    elif noted and e.phase < phases:
        e.phase += 1
        _ending_anew(e)
    elif noted:
        decided = True
        e.phase = 0
        for i in range(e.count):
            e.waiters[i].over = not e.waiters[i].native
    turn_give(&e.turn)
    return decided
