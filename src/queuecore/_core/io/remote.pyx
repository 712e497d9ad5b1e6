"""Files that a Python library reads. See remote.pxd for the contract."""
from cpython.buffer cimport PyBUF_WRITE
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.memory cimport free, strdup
from queuecore._core.atoms.parking cimport (
    event_cancel, event_notify, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, FileStat, StopFlag, Turn, alloc_lines, iovec, kAcqRel, kRelaxed, layout_hash, monotonic_ns,
    size_product, syscalls)
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.atoms.runtime cimport (
    LONG_SLICE_NS, WAIT_SLICE_NS, exiting, note_slice, stop_requested, this_stop)
from queuecore._core.io.ahead cimport (
    AheadFile, AheadRange, ahead_begin, ahead_close, ahead_copy, ahead_done, ahead_drop, ahead_follow, ahead_forget,
    ahead_goes_on, ahead_new, ahead_single)

check_layout(layout_hash())

cdef extern from "<cerrno>" nogil:
    const int ECANCELED

cdef enum:
    MOST_SERVERS = 64

cdef enum:
    CALL_OPEN = 0
    CALL_STAT = 1
    CALL_READ = 2          # a range; nobody waits for these two
    CALL_CLOSE = 3

cdef enum:
    # Of a call; under the turn.
    CALL_WAITS = 0
    CALL_RUNS = 1          # a server has it
    CALL_DONE = 2
    CALL_LEFT = 3          # the caller doesn't wait any longer

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
      AheadFile* ahead;          // to read
      AheadRange* range;
      int64_t result;            // the file's number; below 0: the errno is its opposite
      FileStat st;
    };
    struct RemoteCalls {
      Turn turn;
      EventCount work;           // servers park here
      RemoteCall* first;         // those that wait
      RemoteCall* last;
      int32_t servers, idle;
      AheadFile** files;         // by number; NULL: closed
      int32_t files_room;
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
        AheadFile* ahead
        AheadRange* range_ "range"
        int64_t result
        FileStat st

    cppclass RemoteCalls "queuecore::RemoteCalls":
        Turn turn
        EventCount work
        RemoteCall* first
        RemoteCall* last
        int32_t servers, idle
        AheadFile** files
        int32_t files_room

    void qc_set_errno(int value) noexcept nogil

cdef RemoteCalls* _calls = <RemoteCalls*>alloc_lines(sizeof(RemoteCalls))
cdef uint64_t _generation = fork_generation()

# Under the GIL: what opens a name, what makes an errno of an exception, what starts a server; the open files by number.
cdef object _opener = None, _errno_of = None, _start = None
cdef dict _files = {}
cdef list _free_numbers = []
cdef int32_t _next_number = 0


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


cdef int _ask(AheadFile* a, AheadRange* r) noexcept nogil:
    cdef RemoteCall* call = _call_new(CALL_READ)
    if call == NULL:
        return 0
    a.refs.fetch_add(1, kRelaxed)  # relaxed: it is handed in under the turn
    call.ahead = a
    call.range_ = r
    _hand_in(call)
    return 1


cdef int64_t _read(AheadFile* a, void* to, int64_t nbytes, int64_t offset, AheadRange** mine,
                   int64_t deadline) noexcept nogil:
    # Reads bytes within the file, waiting for requests until the deadline; < 0: none. Returns how many there were by
    # then; below 0: the errno is its opposite. `mine`: as in ahead_copy.
    cdef StopFlag* stop = this_stop()
    cdef int64_t read_bytes = 0, part = 0, now
    cdef uint32_t epoch
    while read_bytes < nbytes:
        epoch = event_prepare(&a.come)
        part = ahead_copy(a, <char*>to + read_bytes, nbytes - read_bytes, offset + read_bytes, mine)
        now = monotonic_ns()
        if part == 0 and (exiting() or (stop != NULL and stop_requested(stop))):
            part = -<int64_t>ECANCELED
        if part != 0 or 0 <= deadline <= now:
            event_cancel(&a.come, epoch)
        if part > 0:
            read_bytes += part
        elif part < 0 or 0 <= deadline <= now:
            break
        else:
            event_wait(&a.come, epoch, now + WAIT_SLICE_NS)
    return min(part, <int64_t>0) or read_bytes


cdef AheadFile* _file_of(int fd) noexcept nogil:
    # Returns an open file, with a reference.
    cdef AheadFile* a
    turn_take(&_calls.turn)
    a = _calls.files[fd - REMOTE_FD]
    a.refs.fetch_add(1, kRelaxed)  # relaxed: the file's own reference stays until it is closed
    turn_give(&_calls.turn)
    return a


cdef void remote_follow(int fd, int next_fd) noexcept nogil:
    cdef AheadFile* a = _file_of(fd)
    cdef AheadFile* next = _file_of(next_fd)
    ahead_follow(a, next)
    ahead_drop(next)
    ahead_drop(a)


cdef int64_t remote_read(int fd, const iovec* iov, int count, int64_t offset) noexcept nogil:
    cdef AheadFile* a = _file_of(fd)
    cdef AheadRange* mine = NULL
    cdef int64_t read_bytes = 0, part = 0, wanted_bytes
    cdef int i
    for i in range(count):
        wanted_bytes = min(<int64_t>iov[i].iov_len, a.size - offset - read_bytes)
        if wanted_bytes <= 0:
            break
        part = _read(a, iov[i].iov_base, wanted_bytes, offset + read_bytes, &mine, -1)
        if part < 0:
            break
        read_bytes += part
    if mine != NULL:
        ahead_forget(a, mine)
    ahead_drop(a)
    if part < 0:
        qc_set_errno(<int>-part)
        return -1
    return read_bytes


cdef void remote_close(int fd) noexcept nogil:
    # Without memory for the call the file stays open: that costs its Python object.
    cdef RemoteCall* call = _call_new(CALL_CLOSE)
    if call != NULL:
        call.file = fd - REMOTE_FD
        _hand_in(call)


cdef class AheadReader:
    """The bytes of a file that comes in ranges, each got by a server (`serve`), early where ranges follow each other.

    Parameters
    ----------
    size : int
        Bytes of the file.
    fetch : callable
        Gets a range: from where it begins, a writable memoryview of as many bytes as it has, and whether it follows
        others, so that what is behind it will be asked for too. It fills the view and returns `None`, or returns an
        object with as many bytes. It keeps no reference to the view.
    failed : callable
        From what `fetch` raised, where somebody waits for the range, to the exception that readers get.
    """

    cdef AheadFile* file
    cdef object fetch, failed, failure

    def __cinit__(self, int64_t size, fetch, failed):
        self.fetch, self.failed = fetch, failed
        self.failure = None
        self._anew(size)

    cdef int _anew(self, int64_t size) except -1:
        cdef AheadFile* made = ahead_new(size)
        if made == NULL:
            raise MemoryError()
        if self.file != NULL:
            ahead_close(self.file)
        self.file = made
        self.file.ask = _ask
        self.file.owner = <void*>self
        return 0

    def __dealloc__(self):
        if self.file != NULL:
            self.file.owner = NULL
            ahead_close(self.file)

    def set_single(self, bint single):
        """Say whether ranges that follow each other are asked for one at a time, or several."""
        ahead_single(self.file, single)

    def readinto(self, unsigned char[::1] into, int64_t offset):
        """Fill a buffer, from an offset on; return how many bytes there were: fewer only at the end.

        It waits for requests, without the GIL. Ctrl-C ends the wait.

        Raises
        ------
        BaseException
            What `failed` returned.
        """
        cdef AheadRange* mine = NULL
        cdef unsigned char* to = NULL
        cdef int64_t read_bytes = 0, part = 0, nbytes
        if self.file.generation != fork_generation():  # requests under way never end
            self._anew(self.file.size)
            begin(_opener, _errno_of, _start)
        nbytes = min(<int64_t>into.shape[0], self.file.size - offset)
        try:
            if nbytes > 0:
                to = &into[0]
            while read_bytes < nbytes:
                with nogil:
                    part = _read(
                        self.file, to + read_bytes, nbytes - read_bytes, offset + read_bytes, &mine,
                        monotonic_ns() + WAIT_SLICE_NS)
                if part < 0:
                    failure = self.failure
                    raise OSError(-part, "a request failed") if failure is None else failure
                read_bytes += part
                PyErr_CheckSignals()
        finally:
            if mine != NULL:
                ahead_forget(self.file, mine)
        return read_bytes


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


cdef int _note_file(object file) except -1:
    # Gives an open file a number.
    global _next_number
    cdef AheadReader reader = file.ahead
    cdef int32_t number = _free_numbers[-1] if _free_numbers else _next_number, room = _calls.files_room
    cdef AheadFile** grown
    cdef AheadFile** old = NULL
    if number >= REMOTE_FD:
        raise MemoryError("too many remote files are open")
    if number >= room:
        room = max(2 * room, 64)
        grown = <AheadFile**>alloc_lines(size_product(room, sizeof(AheadFile*)))
        if grown == NULL:
            raise MemoryError()
        turn_take(&_calls.turn)
        if _calls.files_room > 0:
            memcpy(grown, _calls.files, _calls.files_room * sizeof(AheadFile*))
        old = _calls.files
        _calls.files, _calls.files_room = grown, room
        turn_give(&_calls.turn)
        free(old)
    _files[number] = file
    if number == _next_number:
        _next_number += 1
    else:
        _free_numbers.pop()
    reader.file.refs.fetch_add(1, kRelaxed)  # relaxed: the reader has one
    turn_take(&_calls.turn)
    _calls.files[number] = reader.file
    turn_give(&_calls.turn)
    return number


cdef int _forget_file(int32_t number) except -1:
    cdef AheadFile* a
    turn_take(&_calls.turn)
    a = _calls.files[number]
    _calls.files[number] = NULL
    turn_give(&_calls.turn)
    ahead_drop(a)
    del _files[number]
    _free_numbers.append(number)
    return 0


cdef int64_t _serve_open(RemoteCall* call) except? -1:
    cdef int fd
    file = _opener(<bytes>call.name, call.store)
    call.st.size, call.st.mtime_ns = file.look()
    call.st.ino = <uint64_t>(hash(<bytes>call.name) & 0x7FFFFFFF)
    call.st.dev = kRemoteDevice
    call.st.mode = 0o100444
    fd = file.local()  # the bytes lie on this machine: they are read as those of any file
    return fd if fd >= 0 else REMOTE_FD + _note_file(file)


cdef int _fill(AheadReader reader, AheadRange* r) except -1:
    # Gets the bytes of a range.
    cdef int64_t nbytes = r.stop - r.start
    cdef const unsigned char[::1] data
    cdef const unsigned char* text
    into = PyMemoryView_FromMemory(<char*>r.data, nbytes, PyBUF_WRITE)
    try:
        got = reader.fetch(r.start, into, ahead_goes_on(r))
    finally:
        into.release()
    if got is not None:
        data = got
        if data.shape[0] != nbytes:
            raise OSError(EIO, f"{data.shape[0]} bytes came instead of {nbytes}")
        text = &data[0]  # a range has bytes
        with nogil:
            memcpy(r.data, text, nbytes)
    return 0


cdef int _serve_read(RemoteCall* call) except -1:
    # Gets a range, and drops the call.
    cdef AheadFile* a = call.ahead
    cdef int error = ahead_begin(a, call.range_)
    cdef AheadReader reader = None
    try:
        if error == 0 and a.owner == NULL:
            error = ECANCELED
        elif error == 0:
            reader = <AheadReader>a.owner
            _fill(reader, call.range_)
    except BaseException as failure:
        error = _told(reader, failure) if call.range_.wanted else EIO
    with nogil:
        ahead_done(a, call.range_, error)
        ahead_drop(a)
        _drop(call)
    return 0


cdef int _told(AheadReader reader, failure) except -1:
    # Lets a failure be told; returns its errno.
    try:
        failure = reader.failed(failure)
    except BaseException:  # it is told as it is
        pass
    reader.failure = failure
    return _number_of(failure)


cdef int _number_of(failure) except -1:
    # Returns the errno by which a failure is told; the opener's module knows the failure itself.
    try:
        return _errno_of(failure) or EIO
    except BaseException:
        return EIO


cdef int _serve(RemoteCall* call) except -1:
    # Does a call that somebody waits for, and drops it.
    cdef int64_t result = 0
    cdef bint is_told, opened
    try:
        if call.kind == CALL_OPEN:
            result = _serve_open(call)
        else:
            memset(&call.st, 0, sizeof(FileStat))
            call.st.dev = kRemoteDevice
            call.st.size, call.st.mtime_ns = _files[call.file].look()
    except BaseException as failure:
        result = -<int64_t>_number_of(failure)
    opened = call.kind == CALL_OPEN and result >= 0
    with nogil:
        call.result = result
        is_told = _pass(call, CALL_DONE)
        if is_told:
            event_notify_all(&call.done)
        _drop(call)
    if opened and not is_told:
        if result >= REMOTE_FD:
            _forget_file(<int32_t>(result - REMOTE_FD))
        else:
            syscalls().close(<int>result)
    return 0


def serve(double idle):
    """Do calls, in one of Python's threads, until there was none for so many seconds; below 0: until the process ends.

    One that takes a call starts another server, if none is idle: so the next call need not wait for this one.
    """
    cdef RemoteCall* call
    cdef int32_t number
    cdef bint needs_server
    while True:
        with nogil:
            turn_take(&_calls.turn)
            _calls.idle += 1
            turn_give(&_calls.turn)
            call = _take(-1 if idle < 0 else monotonic_ns() + <int64_t>(idle * 1e9))
            turn_take(&_calls.turn)
            _calls.idle -= 1
            needs_server = call != NULL and _calls.idle == 0 and _calls.servers < MOST_SERVERS
            _calls.servers += needs_server - (call == NULL)
            turn_give(&_calls.turn)
        if needs_server:
            _start_one()
        if call == NULL:
            return
        try:
            if call.kind == CALL_CLOSE:
                number = call.file
                _drop(call)
                _forget_file(number)
            elif call.kind == CALL_READ:
                _serve_read(call)
            else:
                _serve(call)
        except BaseException:  # no memory for a number: the file stays open
            pass


cdef int _start_one() except -1:
    # The server counts already.
    try:
        _start()
    except BaseException:  # the running ones do the work
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
        number that changes with its content, ``ahead``, an `AheadReader`, and ``local()``, which returns a new
        descriptor of a local file with the same bytes, whose modification time is that number; below 0: none.
    errno_of : callable
        From an exception to the number by which native code tells it.
    start : callable
        Starts a daemon thread that runs `serve`.
    """
    global _opener, _errno_of, _start, _generation, _next_number
    if _generation != fork_generation():  # the servers are the parent's
        memset(<void*>_calls, 0, sizeof(RemoteCalls))
        _files.clear()
        _free_numbers.clear()
        _next_number = 0
        _generation = fork_generation()
    if _calls.servers > 0:
        return
    _opener, _errno_of, _start = opener, errno_of, start
    _calls.servers = 1
    _start_one()
    if _calls.servers == 0:
        raise MemoryError("no thread can be started that reads remote files")
