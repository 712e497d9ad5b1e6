"""Calls of the system and of the allocator that fail, take their time, or give less than they were asked for, as tests
want it.

`plan` chooses calls by their kind and number, and says what becomes of them: any call that native code makes can be
met. The functions behind it are for tests of reading. All settings are relaxed: a test makes them while nothing runs,
and the start of a thread orders them.
"""
from libc.errno cimport EAGAIN, EINTR, EINVAL, EIO, ENOMEM, EPERM, errno
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from queuecore._core.atoms.process cimport (
    buffer_give, buffer_take, check_layout, live_threads as native_live_threads, process_syscalls)
from queuecore._core.atoms.platform cimport (
    Atomic, FileStat, PinFn, UnpinFn, Uring, iovec, kRelaxed, layout_hash)
from queuecore._core.device.pinned cimport give_idle

check_layout(layout_hash())

cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()

cdef extern from "malloc.h" nogil:
    size_t malloc_usable_size(void*) noexcept

cdef extern from "queuecore/syscalls.hpp" namespace "queuecore" nogil:
    cppclass pthread_t "pthread_t":
        pass
    cppclass pthread_attr_t "pthread_attr_t":
        pass
    cppclass cpu_set_t "cpu_set_t":
        pass
    ctypedef void* (*EntryFn)(void*) noexcept

    # The entries that platform.pxd doesn't name.
    cppclass Table "queuecore::Syscalls":
        int (*open)(const char*) noexcept
        int (*close)(int) noexcept
        int (*stat)(const char*, FileStat*) noexcept
        int (*fstat)(int, FileStat*) noexcept
        int (*storage)(int) noexcept
        int64_t (*preadv)(int, const iovec*, int, int64_t, int) noexcept
        int (*forget)(int, int64_t, int64_t) noexcept
        int (*expect)(int, int64_t, int64_t) noexcept
        int (*direct)(int, int) noexcept
        int (*poll)(int, int) noexcept
        int (*ring_open)(Uring*) noexcept
        int (*ring_enter)(Uring*, int64_t) noexcept
        int (*ring_reap)(Uring*, void**, int32_t*) noexcept
        void (*ring_close)(Uring*) noexcept
        void* (*malloc)(size_t) noexcept
        void* (*calloc)(size_t, size_t) noexcept
        void* (*realloc)(void*, size_t) noexcept
        void (*free)(void*) noexcept
        void* (*memalign)(size_t, size_t) noexcept
        void* (*map)(size_t) noexcept
        void (*unmap)(void*, size_t) noexcept
        int (*advise)(void*, size_t, int) noexcept
        int (*prefer_node)(void*, size_t, int) noexcept
        int (*pin)(PinFn, void*, size_t, unsigned) noexcept
        int (*unpin)(UnpinFn, void*) noexcept
        int (*thread)(pthread_t*, const pthread_attr_t*, EntryFn, void*) noexcept
        int (*affinity)(size_t, cpu_set_t*) noexcept
        int64_t (*clock)() noexcept
        void (*sleep)(int64_t) noexcept
        int (*futex_wait)(void*, uint32_t, int64_t) noexcept
        void* (*library)(const char*) noexcept
        int (*library_close)(void*) noexcept

    const Table kRealSyscalls

    # The fields of a ring that platform.pxd doesn't name.
    cppclass RingEntry:
        int32_t fd
        uint64_t offset, to
        uint32_t nbytes
    cppclass WholeRing "queuecore::Uring":
        RingEntry* entries
        unsigned* entry_head
        unsigned* entry_tail
        unsigned entry_mask

cdef extern from *:
    """
    #include <cerrno>
    #include <cstdint>
    #include <dlfcn.h>
    #include <iterator>
    #include <mutex>
    #include <unordered_map>

    static inline void qc_errno(int value) { errno = value; }

    // What was taken since `remember`, and isn't given back yet: how many bytes, and the place in the code.
    namespace {
    struct Taken {
      size_t nbytes;
      void* where;
    };
    std::mutex& taken_lock() { static std::mutex lock; return lock; }
    std::unordered_map<void*, Taken>& taken() { static auto* all = new std::unordered_map<void*, Taken>; return *all; }
    void taken_add(void* p, size_t nbytes, void* where) noexcept {
      std::lock_guard<std::mutex> held(taken_lock());
      taken()[p] = {nbytes, where};
    }
    void taken_drop(void* p) noexcept {
      std::lock_guard<std::mutex> held(taken_lock());
      taken().erase(p);
    }
    void taken_clear() noexcept {
      std::lock_guard<std::mutex> held(taken_lock());
      taken().clear();
    }
    // The one of that number; false: there are not so many.
    bool taken_at(size_t number, Taken* out) noexcept {
      std::lock_guard<std::mutex> held(taken_lock());
      if (number >= taken().size()) return false;
      *out = std::next(taken().begin(), long(number))->second;
      return true;
    }
    const char* module_of(void* where, uint64_t* offset) noexcept {
      Dl_info found;
      if (dladdr(where, &found) == 0) return "";
      *offset = uint64_t(uintptr_t(where) - uintptr_t(found.dli_fbase));
      return found.dli_fname;
    }
    }  // namespace
    """
    cppclass Taken:
        size_t nbytes
        void* where
    void qc_errno(int) noexcept nogil
    void taken_add(void*, size_t, void*) noexcept nogil
    void taken_drop(void*) noexcept nogil
    void taken_clear() noexcept nogil
    bint taken_at(size_t, Taken*) noexcept nogil
    const char* module_of(void*, uint64_t*) noexcept nogil
    void* _caller "__builtin_return_address"(int) noexcept nogil

# Kinds of calls, in the order of KINDS.
cdef enum:
    OPEN
    CLOSE
    FSTAT
    READ
    RING
    ENTER
    POLL
    MEMORY
    MAP
    ADVISE
    NODE
    PIN
    THREAD
    AFFINITY
    CLOCK
    SLEEP
    WAIT
    LIBRARY
    KIND_COUNT

# What becomes of a call.
cdef enum:
    NOTHING
    FAIL
    SLOW
    SHORT
    JUMP
    STOP

cdef enum:
    SLOW_NS = 20000000
    STOP_NS = 50000000
    DELAY_NS = 1000000       # between two looks at whether a delay is still wanted
    EARLY_NS = 100000
    SHORT_WAIT_NS = 1000000
    CU_OUT_OF_MEMORY = 2
    DIRECT_BYTES = 512       # what sizes and places of direct reads must be multiples of
    LARGE_BYTES = 32768
    MOST_FD = 4096

# Of a request for direct reads:
cdef enum:
    DIRECT_REAL
    DIRECT_REFUSED
    DIRECT_PLAYED            # the page cache is used, and who asks for what a disk could not do gets its error
    DIRECT_LARGE             # the same, of a disk with larger blocks than anybody asks for

# An hour, and a second: of one jump of the clock, and of many.
cdef int64_t LONG_JUMP_NS = 3600000000000
cdef int64_t SHORT_JUMP_NS = 1000000000

KINDS = ("open", "close", "fstat", "read", "ring", "enter", "poll", "memory", "map", "advise", "node", "pin", "thread",
         "affinity", "clock", "sleep", "wait", "library")
HOWS = ("nothing", "fail", "slow", "short", "jump", "stop")

cdef int[KIND_COUNT] _USUAL = [EIO, EIO, EIO, EIO, EPERM, EPERM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, EINVAL,
                               CU_OUT_OF_MEMORY, EAGAIN, EINVAL, 0, EINTR, EINTR, 0]

ctypedef Atomic[int64_t] Counter
cdef Counter[KIND_COUNT] _calls
cdef Atomic[int64_t] _seen, _nth, _sticky, _how, _kinds, _error, _hits, _hit_kind
cdef Atomic[int64_t] _ahead_ns, _stopped_at, _remembers
cdef Atomic[int64_t] _pins, _libraries
cdef void* _hit_where = NULL

cdef Atomic[int64_t] _read_delay_ns, _reads, _fail_read_at, _fail_read_errno, _fail_read_sticky, _short
cdef Atomic[int64_t] _interrupt_every, _rings_hang
cdef Atomic[int64_t] _opens, _fail_open_at, _fail_open_errno, _descriptors
cdef Atomic[int64_t] _uncached, _cached, _fstats, _far, _forgotten, _whole_forgotten, _expected
cdef Atomic[int64_t] _direct_how, _direct_reads, _bad_reads
cdef Counter[MOST_FD] _is_direct
cdef Atomic[uint64_t] _watched            # a thread
cdef Atomic[int64_t] _waits               # its calls of open, close, stat and fstat


cdef int _met(int kind, void* pointer) noexcept nogil:
    # What becomes of this call. Sets errno if it fails.
    global _hit_where
    cdef int64_t n, nth
    cdef int failure
    _calls[kind].fetch_add(1, kRelaxed)
    if not _kinds.load(kRelaxed) >> kind & 1:
        return NOTHING
    n = _seen.fetch_add(1, kRelaxed) + 1
    nth = _nth.load(kRelaxed)
    if n < nth or (n > nth and not _sticky.load(kRelaxed)):
        return NOTHING
    if _hits.fetch_add(1, kRelaxed) == 0:
        _hit_kind.store(kind, kRelaxed)
        _hit_where = pointer
    failure = <int>_how.load(kRelaxed)
    if failure == FAIL:
        qc_errno(_failure(kind))
    elif failure == SLOW:
        kRealSyscalls.sleep(SLOW_NS)
        return NOTHING
    return failure


cdef int _failure(int kind) noexcept nogil:
    cdef int error = <int>_error.load(kRelaxed)
    return error if error != 0 else _USUAL[kind]


# ---- files
# ----------------------------------------------------------------------------------------------------------------------

cdef void _note_wait() noexcept nogil:
    if _watched.load(kRelaxed) == PyThread_get_thread_ident():
        _waits.fetch_add(1, kRelaxed)


cdef int _test_open(const char* path) noexcept nogil:
    cdef int fd
    cdef int64_t n = _opens.fetch_add(1, kRelaxed) + 1
    _note_wait()
    if _met(OPEN, _caller(0)) == FAIL:
        return -1
    if _fail_open_at.load(kRelaxed) == n:
        qc_errno(<int>_fail_open_errno.load(kRelaxed))
        return -1
    fd = kRealSyscalls.open(path)
    if fd >= 0:
        _descriptors.fetch_add(1, kRelaxed)
    return fd


cdef int _test_close(int fd) noexcept nogil:
    # One that fails has closed all the same, as Linux does.
    cdef int rc
    if 0 <= fd < MOST_FD:  # before: the number may be another file's at once, also one that Python opens
        _is_direct[fd].store(0, kRelaxed)
    rc = kRealSyscalls.close(fd)
    _note_wait()
    _descriptors.fetch_sub(1, kRelaxed)
    return -1 if _met(CLOSE, _caller(0)) == FAIL else rc


cdef int _test_stat(const char* path, FileStat* st) noexcept nogil:
    _note_wait()
    return -1 if _met(FSTAT, _caller(0)) == FAIL else kRealSyscalls.stat(path, st)


cdef int _test_fstat(int fd, FileStat* st) noexcept nogil:
    _fstats.fetch_add(1, kRelaxed)
    _note_wait()
    return -1 if _met(FSTAT, _caller(0)) == FAIL else kRealSyscalls.fstat(fd, st)


cdef int _test_storage(int fd) noexcept nogil:
    return 0 if _met(FSTAT, _caller(0)) == FAIL or _far.load(kRelaxed) else kRealSyscalls.storage(fd)


cdef int _test_forget(int fd, int64_t offset, int64_t nbytes) noexcept nogil:
    if nbytes == 0:  # to the file's end
        _whole_forgotten.fetch_add(1, kRelaxed)
    _forgotten.fetch_add(nbytes, kRelaxed)
    return kRealSyscalls.forget(fd, offset, nbytes)


cdef int _test_expect(int fd, int64_t offset, int64_t nbytes) noexcept nogil:
    _expected.fetch_add(nbytes, kRelaxed)
    return kRealSyscalls.expect(fd, offset, nbytes)


cdef int _test_direct(int fd, int on) noexcept nogil:
    cdef int64_t how = _direct_how.load(kRelaxed)
    if _met(FSTAT, _caller(0)) == FAIL:
        return -1
    if how == DIRECT_REAL:
        return kRealSyscalls.direct(fd, on)
    if how == DIRECT_REFUSED or fd >= MOST_FD:
        qc_errno(EINVAL)
        return -1
    _is_direct[fd].store(on, kRelaxed)
    return 0


cdef bint _is_refused(int fd, uint64_t bits) noexcept nogil:
    # Whether the disk could not do this direct read. `bits`: the place and the addresses and sizes, in one.
    if fd >= MOST_FD or not _is_direct[fd].load(kRelaxed):
        return False
    _direct_reads.fetch_add(1, kRelaxed)
    return bits % (LARGE_BYTES if _direct_how.load(kRelaxed) == DIRECT_LARGE else DIRECT_BYTES) != 0


cdef int64_t _test_preadv(int fd, const iovec* iov, int count, int64_t offset, int flags) noexcept nogil:
    cdef iovec piece
    cdef uint64_t bits = <uint64_t>offset | (flags != 0)
    cdef int64_t limit
    cdef int i, failure = _met(READ, _caller(0))
    if failure == FAIL:
        return -1
    for i in range(count):
        bits |= <uint64_t><uintptr_t>iov[i].iov_base | iov[i].iov_len
    if _is_refused(fd, bits):
        qc_errno(EINVAL)
        return -1
    if flags != 0 and _uncached.load(kRelaxed):  # as if nothing were in the page cache
        qc_errno(EAGAIN)
        return -1
    if _cached.load(kRelaxed):
        flags = 0
    limit = _most_of(failure, <int64_t>iov[0].iov_len)
    if limit < 0:
        return -1
    _sleep_long()
    if limit > 0:
        piece = iov[0]
        if <int64_t>piece.iov_len > limit:
            piece.iov_len = limit
        return kRealSyscalls.preadv(fd, &piece, 1, offset, flags)
    return kRealSyscalls.preadv(fd, iov, count, offset, flags)


cdef void _sleep_long() noexcept nogil:
    cdef int64_t left = _read_delay_ns.load(kRelaxed)
    while left > 0 and _read_delay_ns.load(kRelaxed) > 0:
        kRealSyscalls.sleep(left if left < DELAY_NS else DELAY_NS)
        left -= DELAY_NS


cdef int64_t _most_of(int failure, int64_t nbytes) noexcept nogil:
    # Returns how many bytes come of a read of so many, at most; 0: all. -1: it fails, and errno says why.
    cdef int64_t n = _reads.fetch_add(1, kRelaxed) + 1, every = _interrupt_every.load(kRelaxed)
    if every > 0 and n % every == 0:
        qc_errno(EINTR)
        return -1
    if _fail_read_at.load(kRelaxed) > 0 and (
            n == _fail_read_at.load(kRelaxed) or (_fail_read_sticky.load(kRelaxed)
                                                  and n > _fail_read_at.load(kRelaxed))):
        qc_errno(<int>_fail_read_errno.load(kRelaxed))
        return -1
    if failure == SHORT:  # one byte, or a part that its number chooses
        return 1 if n % 3 == 0 else 1 + (n * 40503 >> 3) % max(nbytes, 1)
    return _short.load(kRelaxed)


cdef int _test_ring_open(Uring* ring) noexcept nogil:
    if _met(RING, _caller(0)) == FAIL or kRealSyscalls.ring_open(ring) != 0:
        return -1
    _descriptors.fetch_add(1, kRelaxed)
    return 0


cdef void _test_ring_close(Uring* ring) noexcept nogil:
    _descriptors.fetch_sub(1, kRelaxed)
    kRealSyscalls.ring_close(ring)


cdef void _refuse_entries(WholeRing* ring) noexcept nogil:
    # Lets those fail that ask for what a disk could not do.
    cdef unsigned position = ring.entry_head[0]
    cdef RingEntry* entry
    while position != ring.entry_tail[0]:
        entry = &ring.entries[position & ring.entry_mask]
        if _is_refused(entry.fd, entry.offset | entry.to | entry.nbytes):
            _bad_reads.fetch_add(1, kRelaxed)
            entry.fd = -1
        position += 1


cdef int _test_ring_enter(Uring* ring, int64_t wait_ns) noexcept nogil:
    if _met(ENTER, _caller(0)) == FAIL:
        return -1
    _refuse_entries(<WholeRing*>ring)
    _sleep_long()
    if _rings_hang.load(kRelaxed):
        wait_ns = SHORT_WAIT_NS
    return kRealSyscalls.ring_enter(ring, wait_ns)


cdef int _test_ring_reap(Uring* ring, void** whose, int32_t* result) noexcept nogil:
    # A read that fails, or gives less than it was asked for, has given everything in truth.
    cdef int64_t limit = -1
    cdef int failure
    if _rings_hang.load(kRelaxed) or not kRealSyscalls.ring_reap(ring, whose, result):
        return 0
    failure = _met(READ, _caller(0))
    if failure != FAIL:
        limit = _most_of(failure, result[0])
    if result[0] > 0 and limit < 0:
        result[0] = -errno
    elif result[0] > limit > 0:
        result[0] = <int32_t>limit
    return 1


cdef int _test_poll(int fd, int milliseconds) noexcept nogil:
    return -1 if _met(POLL, _caller(0)) == FAIL else kRealSyscalls.poll(fd, milliseconds)


# ---- memory
# ----------------------------------------------------------------------------------------------------------------------

cdef void* _taken(void* p, void* where) noexcept nogil:
    if p != NULL and _remembers.load(kRelaxed):
        taken_add(p, malloc_usable_size(p), where)
    return p


cdef void* _test_malloc(size_t nbytes) noexcept nogil:
    if _met(MEMORY, _caller(0)) == FAIL:
        return NULL
    return _taken(kRealSyscalls.malloc(nbytes), _caller(0))


cdef void* _test_calloc(size_t count, size_t nbytes) noexcept nogil:
    if _met(MEMORY, _caller(0)) == FAIL:
        return NULL
    return _taken(kRealSyscalls.calloc(count, nbytes), _caller(0))


cdef void* _test_memalign(size_t alignment, size_t nbytes) noexcept nogil:
    if _met(MEMORY, _caller(0)) == FAIL:
        return NULL
    return _taken(kRealSyscalls.memalign(alignment, nbytes), _caller(0))


cdef void* _test_realloc(void* p, size_t nbytes) noexcept nogil:
    cdef void* new_block
    if _met(MEMORY, _caller(0)) == FAIL:
        return NULL
    taken_drop(p)  # before: memory given back may be another thread's at once
    new_block = kRealSyscalls.realloc(p, nbytes)
    if new_block == NULL:
        _taken(p, _caller(0))
    return _taken(new_block, _caller(0))


cdef void _test_free(void* p) noexcept nogil:
    if p != NULL:
        taken_drop(p)
    kRealSyscalls.free(p)


cdef void* _test_map(size_t nbytes) noexcept nogil:
    cdef void* p = NULL
    if _met(MAP, _caller(0)) != FAIL:
        p = kRealSyscalls.map(nbytes)
    if p != NULL and _remembers.load(kRelaxed):
        taken_add(p, nbytes, _caller(0))
    return p


cdef void _test_unmap(void* p, size_t nbytes) noexcept nogil:
    taken_drop(p)
    kRealSyscalls.unmap(p, nbytes)


cdef int _test_advise(void* p, size_t nbytes, int what) noexcept nogil:
    return -1 if _met(ADVISE, _caller(0)) == FAIL else kRealSyscalls.advise(p, nbytes, what)


cdef int _test_prefer_node(void* p, size_t nbytes, int node) noexcept nogil:
    return -1 if _met(NODE, _caller(0)) == FAIL else kRealSyscalls.prefer_node(p, nbytes, node)


cdef int _test_pin(PinFn pin, void* p, size_t nbytes, unsigned flags) noexcept nogil:
    cdef int rc
    if _met(PIN, _caller(0)) == FAIL:
        return _failure(PIN)
    rc = kRealSyscalls.pin(pin, p, nbytes, flags)
    if rc == 0:
        _pins.fetch_add(1, kRelaxed)
    return rc


cdef int _test_unpin(UnpinFn unpin, void* p) noexcept nogil:
    _pins.fetch_sub(1, kRelaxed)
    return kRealSyscalls.unpin(unpin, p)


# ---- threads, clocks, waits, libraries
# ------------------------------------------------------------------------------------------------

cdef int _test_thread(pthread_t* id, const pthread_attr_t* attributes, EntryFn entry, void* arg) noexcept nogil:
    return _failure(THREAD) if _met(THREAD, _caller(0)) == FAIL else kRealSyscalls.thread(id, attributes, entry, arg)


cdef int _test_affinity(size_t nbytes, cpu_set_t* cpus) noexcept nogil:
    return -1 if _met(AFFINITY, _caller(0)) == FAIL else kRealSyscalls.affinity(nbytes, cpus)


cdef int64_t _test_clock() noexcept nogil:
    # Within a test it never goes back: reset_faults takes back what it was put ahead.
    cdef int64_t now, since
    cdef int failure = _met(CLOCK, _caller(0))
    if failure == JUMP:
        _ahead_ns.fetch_add(SHORT_JUMP_NS if _sticky.load(kRelaxed) else LONG_JUMP_NS, kRelaxed)
    now = kRealSyscalls.clock()
    if failure == STOP:
        since = 0
        _stopped_at.compare_exchange_strong(since, now, kRelaxed, kRelaxed)
    since = _stopped_at.load(kRelaxed)
    if since > 0:
        if _sticky.load(kRelaxed):  # it stands still again and again
            now = since + (now - since) // STOP_NS * STOP_NS
        elif now - since < STOP_NS:
            now = since
    return now + _ahead_ns.load(kRelaxed)


cdef void _test_sleep(int64_t ns) noexcept nogil:
    if _met(SLEEP, _caller(0)) != FAIL:
        kRealSyscalls.sleep(ns)


cdef int _test_futex_wait(void* word, uint32_t expected, int64_t deadline_ns) noexcept nogil:
    if _met(WAIT, _caller(0)) == FAIL:
        kRealSyscalls.sleep(EARLY_NS)  # else threads that wait in vain would leave no processor to the others
        return _failure(WAIT)
    if deadline_ns >= 0:  # the kernel's own clock hasn't jumped
        deadline_ns = max(deadline_ns - _ahead_ns.load(kRelaxed), <int64_t>0)
    return kRealSyscalls.futex_wait(word, expected, deadline_ns)


cdef void* _test_library(const char* name) noexcept nogil:
    cdef const char* nowhere = "refused by a test"
    cdef void* found = kRealSyscalls.library(nowhere if _met(LIBRARY, _caller(0)) == FAIL else name)
    if found != NULL:
        _libraries.fetch_add(1, kRelaxed)
    return found


cdef int _test_library_close(void* library) noexcept nogil:
    _libraries.fetch_sub(1, kRelaxed)
    return kRealSyscalls.library_close(library)


cdef void _install() noexcept:
    cdef Table* table = <Table*>process_syscalls()
    table.open = _test_open
    table.close = _test_close
    table.stat = _test_stat
    table.fstat = _test_fstat
    table.storage = _test_storage
    table.forget = _test_forget
    table.expect = _test_expect
    table.direct = _test_direct
    table.preadv = _test_preadv
    table.poll = _test_poll
    table.ring_open = _test_ring_open
    table.ring_enter = _test_ring_enter
    table.ring_reap = _test_ring_reap
    table.ring_close = _test_ring_close
    table.malloc = _test_malloc
    table.calloc = _test_calloc
    table.realloc = _test_realloc
    table.free = _test_free
    table.memalign = _test_memalign
    table.map = _test_map
    table.unmap = _test_unmap
    table.advise = _test_advise
    table.prefer_node = _test_prefer_node
    table.pin = _test_pin
    table.unpin = _test_unpin
    table.thread = _test_thread
    table.affinity = _test_affinity
    table.clock = _test_clock
    table.sleep = _test_sleep
    table.futex_wait = _test_futex_wait
    table.library = _test_library
    table.library_close = _test_library_close


# ---- any call
# ----------------------------------------------------------------------------------------------------------------------

def plan(kinds, int64_t nth, str failure="fail", *, bint sticky=False, int error=0):
    """Say what becomes of the nth call, from now on, of some kinds; nothing else is planned any more.

    Parameters
    ----------
    kinds : iterable of str
        Names of `KINDS`. Calls of all of them are counted together.
    nth : int
        1 is the next call; 0 none, so that calls are only counted.
    failure : str
        ``fail``: it fails. ``slow``: it takes 20 milliseconds. ``short``: a read gives a part of what is there, often
        one byte. ``jump``: the clock is an hour ahead from then on. ``stop``: the clock stands still for 50
        milliseconds. A clock can't fail.
    sticky : bool
        All later calls, too. The clock jumps by a second at each call, or stands still all the time, but for a step
        each 50 ms.
    error : int
        The errno of failure; 0: the usual one of the kind.
    """
    cdef int64_t mask = 0
    for kind in kinds:
        mask |= <int64_t>1 << KINDS.index(kind)
    _kinds.store(0, kRelaxed)
    _stopped_at.store(0, kRelaxed)
    _seen.store(0, kRelaxed)
    _hits.store(0, kRelaxed)
    _nth.store(nth if nth > 0 else 1 << 62, kRelaxed)
    _how.store(HOWS.index(failure), kRelaxed)
    _sticky.store(sticky, kRelaxed)
    _error.store(error, kRelaxed)
    _kinds.store(mask, kRelaxed)


def end_plan():
    """Let calls be as usual again. What `planned_calls` and `first_met` say stays."""
    _kinds.store(0, kRelaxed)
    _stopped_at.store(0, kRelaxed)


def planned_calls():
    """Return how many calls of the planned kinds there were, and how many were met."""
    return _seen.load(kRelaxed), _hits.load(kRelaxed)


def first_met():
    """Return the kind of the first call that was met, and the place in the code behind it; `None`: there was none."""
    if _hits.load(kRelaxed) == 0:
        return None
    return KINDS[_hit_kind.load(kRelaxed)], _place(_hit_where)


def call_counts():
    """Return how many calls of each kind there have been since the last `reset_faults`."""
    return {kind: _calls[i].load(kRelaxed) for i, kind in enumerate(KINDS)}


cdef str _place(void* where):
    cdef uint64_t offset = 0
    cdef bytes name = module_of(where, &offset)
    return f"{name.decode(errors='replace').rpartition('/')[2]}+{offset:#x}"


def remember():
    """Keep account, from now on, of memory that is taken."""
    taken_clear()
    _remembers.store(1, kRelaxed)


def remember_no_more():
    """Leave out of the account what is taken from now on. What is given back still leaves it."""
    _remembers.store(0, kRelaxed)


def remembered():
    """Return the bytes, and the place in the code, of each piece that is in the account. Nothing comes to it any more.

    Memory that is kept for the next taker is given back first.
    """
    cdef Taken piece
    cdef size_t whole = <size_t>64 << 20
    remember_no_more()
    give_idle()
    buffer_give(buffer_take(whole), whole)  # it takes the place of all that was kept
    found = []
    while taken_at(<size_t>len(found), &piece):
        found.append((piece.nbytes, _place(piece.where)))
    return sorted(found)


def pinned_count():
    """Return how many pieces of memory are page-locked."""
    return _pins.load(kRelaxed)


def library_count():
    """Return how many libraries are open."""
    return _libraries.load(kRelaxed)


# ---- reading
# ----------------------------------------------------------------------------------------------------------------------

def reset_faults():
    """Set every hook back to doing nothing, and the counters of calls to 0. Open descriptors keep being counted.

    A clock that has jumped goes back, so nobody may wait until some time.
    """
    cdef int i
    plan((), 0)
    _ahead_ns.store(0, kRelaxed)
    for i in range(KIND_COUNT):
        _calls[i].store(0, kRelaxed)
    _remembers.store(0, kRelaxed)
    taken_clear()
    _read_delay_ns.store(0, kRelaxed)
    _reads.store(0, kRelaxed)
    _fail_read_at.store(0, kRelaxed)
    _fail_read_sticky.store(0, kRelaxed)
    _short.store(0, kRelaxed)
    _interrupt_every.store(0, kRelaxed)
    _rings_hang.store(0, kRelaxed)
    _opens.store(0, kRelaxed)
    _fstats.store(0, kRelaxed)
    _fail_open_at.store(0, kRelaxed)
    _uncached.store(0, kRelaxed)
    _cached.store(0, kRelaxed)
    _far.store(0, kRelaxed)
    _forgotten.store(0, kRelaxed)
    _whole_forgotten.store(0, kRelaxed)
    _expected.store(0, kRelaxed)
    _direct_how.store(DIRECT_REAL, kRelaxed)
    for i in range(MOST_FD):
        _is_direct[i].store(0, kRelaxed)
    _direct_reads.store(0, kRelaxed)
    _bad_reads.store(0, kRelaxed)
    _watched.store(0, kRelaxed)
    _waits.store(0, kRelaxed)


def set_read_delay(double seconds):
    """Make every read take so long, and none come from the page cache without waiting (as on a slow disk).

    0 ends the delays of those that are under way, too.
    """
    _read_delay_ns.store(<int64_t>(seconds * 1e9), kRelaxed)
    _uncached.store(seconds > 0, kRelaxed)


def set_uncached(bint on):
    """Let reads that must not wait (RWF_NOWAIT) find nothing in the page cache, or no longer."""
    _uncached.store(on, kRelaxed)


def set_cached(bint on):
    """Let reads that must not wait (RWF_NOWAIT) find everything, on any file system, or no longer."""
    _cached.store(on, kRelaxed)


def set_far(bint on):
    """Let every file system be one that may be on another machine, or no longer."""
    _far.store(on, kRelaxed)


def watch():
    """Count from now on which calls this thread makes that may wait for another machine."""
    _waits.store(0, kRelaxed)
    _watched.store(PyThread_get_thread_ident(), kRelaxed)


def wait_count():
    """Files that the watched thread has opened, closed or looked at."""
    return _waits.load(kRelaxed)


def play_direct(str how):
    """Say what becomes of direct reads, wherever the files lie.

    They are ``"refused"``; ``"played"``; or played as if the disk had ``"large"`` blocks.
    """
    _direct_how.store(DIRECT_REFUSED + ("refused", "played", "large").index(how), kRelaxed)


def direct_read_count():
    """Return how many direct reads were played."""
    return _direct_reads.load(kRelaxed)


def bad_read_count():
    """Return how many of these a ring was asked for that a disk could not do."""
    return _bad_reads.load(kRelaxed)


def forgotten_bytes():
    """Bytes that the page cache was asked to forget, since the last reset."""
    return _forgotten.load(kRelaxed)


def forgotten_files():
    """Files that the page cache was asked to forget as a whole, since the last reset."""
    return _whole_forgotten.load(kRelaxed)


def expected_bytes():
    """Bytes that the kernel was told to read into the page cache, since the last reset."""
    return _expected.load(kRelaxed)


def fail_read(int64_t nth, int error, bint sticky=False):
    """Let the nth read from now on (1 is the next) fail with this errno, and with sticky all after it."""
    _reads.store(0, kRelaxed)
    _fail_read_errno.store(error, kRelaxed)
    _fail_read_sticky.store(sticky, kRelaxed)
    _fail_read_at.store(nth, kRelaxed)


def short_reads(int64_t max_bytes):
    """Let no read give more than so many bytes; 0: no limit."""
    _short.store(max_bytes, kRelaxed)


def interrupt_reads(int64_t every):
    """Let one of so many reads fail with EINTR; 0: none."""
    _interrupt_every.store(every, kRelaxed)


def hang_rings(bint on):
    """Let no result of io_uring come, as if the storage hung, or no longer."""
    _rings_hang.store(on, kRelaxed)


def fail_open(int64_t nth, int error):
    """Let the nth open from now on (1 is the next) fail with this errno."""
    _opens.store(0, kRelaxed)
    _fail_open_errno.store(error, kRelaxed)
    _fail_open_at.store(nth, kRelaxed)


def read_count():
    """Reads since the last reset."""
    return _reads.load(kRelaxed)


def fstat_count():
    """Looks at open files since the last reset."""
    return _fstats.load(kRelaxed)


def open_files():
    """Descriptors that the native core holds now."""
    return _descriptors.load(kRelaxed)


def live_threads():
    """Native threads of queuecore that run now."""
    return native_live_threads()


_install()  # from the start, so that descriptors are counted from their opening to their closing
