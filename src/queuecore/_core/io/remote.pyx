"""Files that a Python library reads. See remote.pxd for the contract."""
from libc.errno cimport EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.memory cimport free, strdup
from queuecore._core.atoms.parking cimport (
    event_cancel, event_notify, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, FileStat, StopFlag, Turn, alloc_lines, iovec, kAcqRel, kRelaxed, layout_hash, monotonic_ns,
    syscalls)
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.atoms.runtime cimport (
    LONG_SLICE_NS, WAIT_SLICE_NS, exiting, note_slice, stop_requested, this_stop)

check_layout(layout_hash())

cdef extern from "<cerrno>" nogil:
    const int ECANCELED

cdef enum:
    MOST_SERVERS = 64

cdef enum:
    CALL_OPEN = 0
    CALL_STAT = 1
    CALL_READ = 2
    CALL_CLOSE = 3         # nobody waits for it

cdef enum:
    # Of a call; under the turn.
    CALL_WAITS = 0
    CALL_RUNS = 1          # a server has it
    CALL_COPIES = 2        # the server writes to the caller's memory
    CALL_DONE = 3
    CALL_LEFT = 4          # the caller doesn't wait any longer

cdef extern from *:
    """
    #include <cerrno>
    namespace queuecore {
    struct RemoteCall {
      Atomic<int32_t> refs;      // of its caller, and of the list or a server
      EventCount done;           // the caller parks here
      RemoteCall* next;
      int32_t kind, state;
      char* name;                // to open
      int32_t store;             // by what, a number of the opener's
      int32_t file;              // its number
      struct iovec* iov;         // to read into
      int32_t count;
      int64_t offset, nbytes;
      int64_t result;            // bytes, or the file's number; below 0: the errno is its opposite
      FileStat st;
    };
    struct RemoteCalls {
      Turn turn;
      EventCount work;           // servers park here
      RemoteCall* first;         // those that wait
      RemoteCall* last;
      int32_t servers, idle;
    };
    }  // namespace queuecore
    static void qc_set_errno(int value) noexcept { errno = value; }
    """
    cppclass RemoteCall "queuecore::RemoteCall":
        Atomic[int32_t] refs
        EventCount done
        RemoteCall* next
        int32_t kind, state
        char* name
        int32_t store
        int32_t file
        iovec* iov
        int32_t count
        int64_t offset, nbytes
        int64_t result
        FileStat st

    cppclass RemoteCalls "queuecore::RemoteCalls":
        Turn turn
        EventCount work
        RemoteCall* first
        RemoteCall* last
        int32_t servers, idle

    void qc_set_errno(int value) noexcept nogil

cdef RemoteCalls* _calls = <RemoteCalls*>alloc_lines(sizeof(RemoteCalls))
cdef uint64_t _generation = fork_generation()

# Under the GIL: what opens a name, what makes an errno of an exception, what starts a server; the open files by number.
cdef object _opener = None, _errno_of = None, _start = None
cdef dict _files = {}
cdef int32_t _next_file = 0


cdef void set_errno(int value) noexcept nogil:
    qc_set_errno(value)


cpdef bint is_url(const char* name) noexcept nogil:
    """Return whether a name is a URL: a scheme, or several with two colons behind each, and ``://``."""
    cdef int i
    cdef char c
    while True:
        i = 0
        c = name[0]
        if not (c'a' <= (c | 32) <= c'z'):
            return False
        while (c'a' <= (c | 32) <= c'z') or (c'0' <= c <= c'9') or c == c'+' or c == c'-' or c == c'.':
            i += 1
            c = name[i]
        if i < 2 or c != c':':
            return False
        if name[i + 1] != c':':
            return name[i + 1] == c'/' and name[i + 2] == c'/'
        name += i + 2


# The callers' side

cdef void _drop(RemoteCall* call) noexcept nogil:
    # acq_rel: release, this holder is done; acquire, the last one frees what both wrote
    if call.refs.fetch_sub(1, kAcqRel) == 1:
        free(call.name)
        free(call)


cdef RemoteCall* _call_new(int32_t kind) noexcept nogil:
    cdef RemoteCall* call = <RemoteCall*>alloc_lines(sizeof(RemoteCall))
    if call == NULL:
        qc_set_errno(ENOMEM)
        return NULL
    call.kind = kind
    call.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    return call


cdef void _hand_in(RemoteCall* call) noexcept nogil:
    # Takes a reference over.
    turn_take(&_calls.turn)
    if _calls.first == NULL:
        _calls.first = call
    else:
        _calls.last.next = call
    _calls.last = call
    turn_give(&_calls.turn)
    event_notify(&_calls.work, 1)


cdef int _look(RemoteCall* call, bint stopped) noexcept nogil:
    # Returns the call's state, for its caller.
    cdef int state
    turn_take(&_calls.turn)
    if stopped and (call.state == CALL_WAITS or call.state == CALL_RUNS):
        call.state = CALL_LEFT
    state = call.state
    turn_give(&_calls.turn)
    return state


cdef int64_t _result(RemoteCall* call, FileStat* st) noexcept nogil:
    # Hands a call in, waits for its result, and drops it.
    cdef StopFlag* stop = this_stop()
    cdef int64_t result
    cdef uint32_t epoch
    cdef int state
    call.refs.fetch_add(1, kRelaxed)  # relaxed: it is handed in under the turn
    _hand_in(call)
    while True:
        epoch = event_prepare(&call.done)
        state = _look(call, exiting() or (stop != NULL and stop_requested(stop)))
        if state == CALL_LEFT or state == CALL_DONE:
            event_cancel(&call.done, epoch)
            break
        event_wait(&call.done, epoch, monotonic_ns() + WAIT_SLICE_NS)
    result = -<int64_t>ECANCELED if state == CALL_LEFT else call.result
    if st != NULL and result >= 0:
        st[0] = call.st
    _drop(call)
    if result < 0:
        qc_set_errno(<int>-result)
        return -1
    return result


cdef int remote_open(const char* name, int32_t store, FileStat* st) noexcept nogil:
    cdef RemoteCall* call = _call_new(CALL_OPEN)
    if call == NULL:
        return -1
    call.store = store
    call.name = strdup(name)
    if call.name == NULL:
        _drop(call)
        qc_set_errno(ENOMEM)
        return -1
    return <int>_result(call, st)


cdef int remote_fstat(int fd, FileStat* st) noexcept nogil:
    cdef RemoteCall* call = _call_new(CALL_STAT)
    if call == NULL:
        return -1
    call.file = fd - REMOTE_FD
    return -1 if _result(call, st) < 0 else 0


cdef int64_t remote_read(int fd, const iovec* iov, int count, int64_t offset) noexcept nogil:
    cdef RemoteCall* call = _call_new(CALL_READ)
    cdef int i
    if call == NULL:
        return -1
    call.file = fd - REMOTE_FD
    call.iov = <iovec*>iov
    call.count = count
    call.offset = offset
    for i in range(count):
        call.nbytes += <int64_t>iov[i].iov_len
    return _result(call, NULL)


cdef void remote_close(int fd) noexcept nogil:
    # Without memory for the call the file stays open: that costs its Python object.
    cdef RemoteCall* call = _call_new(CALL_CLOSE)
    if call != NULL:
        call.file = fd - REMOTE_FD
        _hand_in(call)


# The servers' side

cdef RemoteCall* _take(int64_t deadline) noexcept nogil:
    # Waits for a call that somebody waits for, or for the deadline; < 0: none. NULL: there is none.
    cdef RemoteCall* call
    cdef uint32_t epoch
    cdef int64_t now
    while True:
        epoch = event_prepare(&_calls.work)
        turn_take(&_calls.turn)
        call = _calls.first
        if call != NULL:
            _calls.first = call.next
            if call.state == CALL_LEFT:
                turn_give(&_calls.turn)
                event_cancel(&_calls.work, epoch)
                _drop(call)
                continue
            call.state = CALL_RUNS
        turn_give(&_calls.turn)
        now = monotonic_ns()
        if call != NULL or exiting() or 0 <= deadline <= now:
            event_cancel(&_calls.work, epoch)
            return call
        event_wait(&_calls.work, epoch, now + LONG_SLICE_NS)
        note_slice()


cdef bint _pass(RemoteCall* call, int state) noexcept nogil:
    # Sets a call's next state. False: its caller has left.
    cdef bint left
    turn_take(&_calls.turn)
    left = call.state == CALL_LEFT
    if not left:
        call.state = state
    turn_give(&_calls.turn)
    return not left


cdef void _scatter(RemoteCall* call, const unsigned char* data, int64_t nbytes) noexcept nogil:
    cdef int i = 0
    cdef int64_t part
    while nbytes > 0:
        part = min(nbytes, <int64_t>call.iov[i].iov_len)
        memcpy(call.iov[i].iov_base, data, part)
        data += part
        nbytes -= part
        i += 1


cdef int64_t _serve_open(RemoteCall* call) except? -1:
    global _next_file
    cdef int32_t number
    file = _opener(<bytes>call.name, call.store)
    call.st.size, call.st.mtime_ns = file.look()
    call.st.ino = <uint64_t>(hash(<bytes>call.name) & 0x7FFFFFFF)
    call.st.dev = kRemoteDevice
    call.st.mode = 0o100444
    number = file.local()
    if number >= 0:  # the bytes lie on this machine: they are read as those of any file
        return number
    number = _next_file
    while number in _files:
        number = (number + 1) % REMOTE_FD
    _files[number] = file
    _next_file = (number + 1) % REMOTE_FD
    return REMOTE_FD + number


cdef int _serve(RemoteCall* call) except -1:
    # Does a call, and drops it.
    cdef int64_t result = 0
    cdef const unsigned char[::1] data = None
    cdef const unsigned char* text = NULL
    cdef bint told, opened
    try:
        if call.kind == CALL_OPEN:
            result = _serve_open(call)
        elif call.kind == CALL_STAT:
            memset(&call.st, 0, sizeof(FileStat))
            call.st.dev = kRemoteDevice
            call.st.size, call.st.mtime_ns = _files[call.file].look()
        else:
            data = _files[call.file].read(call.offset, call.nbytes)
            result = min(<int64_t>data.shape[0], call.nbytes)
    except BaseException as error:  # the caller tells it; what it was, the opener's module knows
        result = -<int64_t>EIO
        try:
            result = -<int64_t>(_errno_of(error) or EIO)
        except BaseException:
            pass
    if result > 0 and data is not None:
        text = &data[0]
    with nogil:
        if text != NULL and result > 0 and _pass(call, CALL_COPIES):
            _scatter(call, text, result)
        call.result = result
        told = _pass(call, CALL_DONE)
        if told:
            event_notify_all(&call.done)
        opened = call.kind == CALL_OPEN and result >= 0
        _drop(call)
    if opened and not told:
        if result >= REMOTE_FD:
            _files.pop(<int32_t>(result - REMOTE_FD), None)
        else:
            syscalls().close(<int>result)
    return 0


def serve(double idle):
    """Do calls, in one of Python's threads, until there was none for so many seconds; below 0: until the process ends.

    One that takes a call starts another server, if none is idle: so the next call need not wait for this one.
    """
    cdef RemoteCall* call
    cdef int32_t number
    cdef bint more
    while True:
        with nogil:
            turn_take(&_calls.turn)
            _calls.idle += 1
            turn_give(&_calls.turn)
            call = _take(-1 if idle < 0 else monotonic_ns() + <int64_t>(idle * 1e9))
            turn_take(&_calls.turn)
            _calls.idle -= 1
            more = call != NULL and _calls.idle == 0 and _calls.servers < MOST_SERVERS
            _calls.servers += more - (call == NULL)
            turn_give(&_calls.turn)
        if more:
            _start_one()
        if call == NULL:
            return
        try:
            if call.kind == CALL_CLOSE:
                number = call.file
                _drop(call)
                _files.pop(number, None)
            else:
                _serve(call)
        except BaseException:  # no memory for a number: the file stays open
            pass


cdef int _start_one() except -1:
    # The server counts already.
    try:
        _start()
    except BaseException:  # those that run do the work
        turn_take(&_calls.turn)
        _calls.servers -= 1
        turn_give(&_calls.turn)
    return 0


def begin(opener, errno_of, start):
    """Let remote files be read, in this process.

    Parameters
    ----------
    opener : callable
        From the name of a file, and the number of its store, to an object with ``look()``, which returns its size and a
        number that changes with its content, ``read(offset, nbytes)``, which returns them, fewer only at the end, and
        ``local()``, which returns a new descriptor of a local file with the same bytes, whose modification time is that
        number; below 0: none.
    errno_of : callable
        From an exception to the number by which native code tells it.
    start : callable
        Starts a daemon thread that runs `serve`.
    """
    global _opener, _errno_of, _start, _generation
    if _generation != fork_generation():  # the servers are the parent's
        memset(<void*>_calls, 0, sizeof(RemoteCalls))
        _files.clear()
        _generation = fork_generation()
    if _calls.servers > 0:
        return
    _opener, _errno_of, _start = opener, errno_of, start
    _calls.servers = 1
    _start_one()
    if _calls.servers == 0:
        raise MemoryError("no thread can be started that reads remote files")
