# The waiting of threads: an event count over a futex, and the turn (a small mutex).
#
# EventCount. A waiter calls event_prepare, looks again whether it still has to wait, then event_wait, or event_cancel
# when it need not. A notifier makes its change visible, then calls event_notify. Any thread may do either.
#   I1  A waiter that is counted is woken by any notifier whose change it could have missed.
#   I2  The count of waiters may be too high (a wake is then wasted), never too low (a wake would then be lost).
# `light` is set to the result of process.pxd's light_notify(), before any other thread knows of the event count. With
# it, notifying needs no fence, and waiting makes one more system call.
# Waiting blocks; notifying is lock-free, with one system call if a thread waits and none otherwise.
# Source: the "event count" of Reed and Kanodia (1979), with the waiter count in the futex word's other half.
#
# Turn. A mutex for a few hundred nanoseconds of planning, never held across a copy or a system call. Source: the
# three-state futex mutex of Drepper, "Futexes Are Tricky" (2011). Blocking; not recursive; not fair.
from libc.errno cimport EAGAIN, EINTR, ETIMEDOUT
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport (
    EventCount, Turn, compiler_fence, cpu_pause, fence, futex_wait, futex_wake, kAcquire, kRelaxed, kRelease, kSeqCst,
    membarrier, order)

cdef enum:
    TURN_SPINS = 100

# Labels of edges, as in ring.pxd.
cdef enum:
    N1 = 17
    N2 = 18
    P1 = 19
    P2 = 20
    T1 = 21
    T2 = 22
    T3 = 23


cdef inline uint32_t event_prepare(EventCount* e) noexcept nogil:
    # P1 seq_cst, P2 seq_cst fence: the waiter's side of the Dekker pair with N1. Either the notifier sees this count,
    # or the waiter's next look at its condition, a plain acquire, sees the notifier's change. Acquire/release would let
    # both miss each other.
    cdef uint32_t epoch = <uint32_t>e.word.fetch_add(<uint64_t>1 << 32, order(P1, kSeqCst))
    if e.light:
        # P2 for both sides: a full barrier in every thread. Where it hits a notifier before its look at the count, that
        # look sees P1; where it hits it later, the change was made before the barrier, and the waiter's look sees it.
        membarrier()
    else:
        fence(order(P2, kSeqCst))
    return epoch


cdef inline void event_cancel(EventCount* e, uint32_t epoch) noexcept nogil:
    # Takes this waiter off the count, unless a notifier has done so already (the epoch has moved on since prepare).
    cdef uint64_t x = e.word.load(kRelaxed)  # relaxed: the CAS checks what was read
    while <uint32_t>x == epoch and (x >> 32) != 0:
        # P2 relaxed: only the count changes hands, no data is published by leaving; a failed CAS reloads x.
        if e.word.compare_exchange_weak(x, x - (<uint64_t>1 << 32), kRelaxed, kRelaxed):
            return


cdef inline int event_wait(EventCount* e, uint32_t epoch, int64_t deadline_ns) noexcept nogil:
    # 0: woken; else EAGAIN (the epoch had moved), EINTR or ETIMEDOUT. The deadline is absolute CLOCK_MONOTONIC, < 0:
    # none. Woken by futex: the notifier has taken one count off for this wake, so none may be taken off again, even if
    # the epoch still looks the same: that would strand another sleeper. Left in any other way: this waiter must take
    # itself off.
    cdef int rc = futex_wait(&e.word, epoch, deadline_ns)
    if rc != 0:
        event_cancel(e, epoch)
    return rc


cdef inline bint event_has_waiters(EventCount* e) noexcept nogil:
    # N1 seq_cst fence, then load: pairs with P1 and P2. The caller's change is ordered before this look at the count;
    # where waiters use membarrier(), it is enough that the compiler keeps them in this order.
    if e.light:
        compiler_fence()
    else:
        fence(order(N1, kSeqCst))
    return (e.word.load(kRelaxed) >> 32) != 0  # relaxed: the fence orders it


cdef inline void event_notify(EventCount* e, uint32_t n) noexcept nogil:
    cdef uint64_t x, waiters, k
    if not event_has_waiters(e):
        return
    x = e.word.load(kRelaxed)  # relaxed: the CAS checks what was read
    while (x >> 32) != 0:
        waiters = x >> 32
        k = waiters if waiters < n else n
        # N2 release: a waiter that prepares later and reads the new epoch also sees the change that this notifier
        # announces.
        if e.word.compare_exchange_weak(
                x, (waiters - k) << 32 | <uint64_t><uint32_t>(<uint32_t>x + 1), order(N2, kRelease), kRelaxed):
            futex_wake(&e.word, <uint32_t>k)
            return


cdef inline void event_notify_all(EventCount* e) noexcept nogil:
    event_notify(e, 0xffffffff)


cdef inline bint turn_try(Turn* t) noexcept nogil:
    cdef uint32_t expected = 0
    # T1 acquire: pairs with T3; the holder sees everything that the last holder wrote.
    return t.word.compare_exchange_strong(expected, 1, order(T1, kAcquire), kRelaxed)


cdef inline void turn_take(Turn* t) noexcept nogil:
    cdef int _i
    for _i in range(TURN_SPINS):  # waits for the holder's turn_give, a few hundred nanoseconds away
        if t.word.load(kRelaxed) == 0 and turn_try(t):  # relaxed: a hint, the CAS decides
            return
        cpu_pause()
    # T2 acquire: pairs with T3. Writing 2 keeps the promise to wake a sleeper, also when this thread takes the turn
    # itself.
    while t.word.exchange(2, order(T2, kAcquire)) != 0:
        futex_wait(&t.word, 2, -1)


cdef inline void turn_give(Turn* t) noexcept nogil:
    # T3 release: pairs with T1 and T2; publishes what was written while holding the turn.
    if t.word.exchange(0, order(T3, kRelease)) == 2:
        futex_wake(&t.word, 1)
