"""File source with fixed-length framing. See sources.pxd for the contract."""
from libc.errno cimport (
    EACCES, EAGAIN, EINTR, EINVAL, EIO, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, EOPNOTSUPP, EPERM, ESTALE,
    ETIMEDOUT, errno)
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport (
    CODE_CHECKSUM, CODE_DECOMPRESS, CODE_NOT_A_FILE, CODE_NOT_FOUND, CODE_PERMISSION, CODE_SOURCE_CHANGED,
    CODE_TOO_LARGE, CODE_TRUNCATED, CODE_UNAVAILABLE, OK, STAGE_OPEN, STAGE_READ, WHAT_DIRECTORY, WHAT_HEADER,
    WHAT_OPEN, WHAT_READ, WHAT_REPLACED, WHAT_REWRITTEN, WHAT_SHORTENED, WHAT_SPECIAL, WHAT_STAT, WHAT_TAIL,
    WHAT_UNSIZED, fault_begin)
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport (
    Fault, FileEntry, FileStat, RWF_NOWAIT, alloc_lines, iovec, is_directory, is_regular, kAcqRel, kAcquire, kRelaxed,
    kRelease, kStorageElsewhere, kStorageMemory, layout_hash, monotonic_ns, size_product, syscalls)
from queuecore._core.atoms.runtime cimport stop_requested
from queuecore._core.io.direct cimport direct_read
from queuecore._core.io.names cimport (
    MOST_FILES, MOST_HEAD, ArrayFile, ArrayFiles, Names, blocks_of, name_of, names_drop, room_of_block)
from queuecore._core.io.remote cimport (
    REMOTE_FD, file_close, file_expect, file_forget, file_read, file_stat, file_storage, is_url, kRemoteDevice,
    remote_follow, remote_open)

check_layout(layout_hash())

cdef enum:
    IOV_MAX_COUNT = 1024  # Linux's UIO_MAXIOV
    FIRST_WAIT_NS = 10000000
    LONGEST_WAIT_NS = 100000000
    # Of arrays by columns: the bytes that one read takes, and the gap between two columns that costs no more to read
    # than to leave out.
    GATHER_BYTES = 16384
    GATHER_GAP = 4096
    # Of a cold file, as much as the kernel is told to read when it is opened: some dozens of files are open at a time.
    BEGINNING_BYTES = 512 << 10


cdef uint64_t _mix(uint64_t h, uint64_t x) noexcept nogil:
    h = (h ^ x) * 0x9E3779B97F4A7C15u
    return h ^ (h >> 29)


cdef bint backoff(int32_t tries, StopFlag* stop) noexcept nogil:
    cdef int64_t wait = LONGEST_WAIT_NS if tries > 3 else FIRST_WAIT_NS << tries, until = monotonic_ns() + wait
    while wait > 0:
        if stop != NULL and stop_requested(stop):
            return False
        syscalls().sleep(wait if wait < FIRST_WAIT_NS else FIRST_WAIT_NS)
        wait = until - monotonic_ns()
    return True


cdef FileTable* table_new(Names* names, int64_t record_bytes, int64_t header_bytes, int64_t footer_bytes,
                          int64_t hop_bytes, int32_t tail, int32_t fd_limit) noexcept nogil:
    cdef FileTable* t = <FileTable*>alloc_lines(sizeof(FileTable))
    if t == NULL:
        return NULL
    t.blocks = <FileEntry**>calloc(names.rooms if names.rooms else 1, sizeof(FileEntry*))
    if t.blocks == NULL:
        free(t)
        return NULL
    t.refs.store(1, kRelaxed)
    names.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference already
    t.names = names
    t.files.store(MOST_FILES, kRelaxed)  # relaxed: no other thread has the table
    t.record_bytes = record_bytes
    t.header_bytes = header_bytes
    t.footer_bytes = footer_bytes
    t.hop_bytes = hop_bytes
    t.tail = tail
    t.fd_limit = fd_limit
    t.idle_first = t.idle_last = -1
    if not table_extend(t):
        table_drop(t)
        return NULL
    return t


cdef bint table_extend(FileTable* t) noexcept nogil:
    cdef const Names* n = t.names
    cdef int64_t k
    for k in range(t.listed // kFilesOfBlock, blocks_of(n.count)):
        if t.blocks[k] == NULL:
            # calloc: the kernel's zero pages, touched only as files are discovered (a list may hold a hundred
            # thousand).
            t.blocks[k] = <FileEntry*>calloc(room_of_block(n, n.count, k), sizeof(FileEntry))
        if t.blocks[k] == NULL:
            return False
    turn_take(&t.turn)
    t.listed = n.count
    turn_give(&t.turn)
    if n.whole:
        t.files.store(n.count, kRelaxed)  # relaxed: the caller wakes those who wait for the end
    return True


cdef class KnownFiles:
    """The sizes and times of the files that a pass has found."""

    def __len__(self):
        return self.count

    def __dealloc__(self):
        free(self.files)


cdef KnownFiles known_files_of(FileTable* t):
    cdef KnownFiles known_files = KnownFiles()
    cdef int64_t count = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1
    cdef int64_t f
    cdef FileEntry* e
    known_files.files = <FileStat*>malloc(size_product(count + 1, sizeof(FileStat)))
    if known_files.files == NULL:
        raise MemoryError
    for f in range(count):
        e = entry_of(t, f)
        known_files.files[f].size = e.size
        known_files.files[f].mtime_ns = e.mtime_ns
        known_files.files[f].dev = e.dev
        known_files.files[f].ino = e.ino
    known_files.count = count
    return known_files


cdef void table_expect(FileTable* t, KnownFiles known_files) noexcept nogil:
    cdef int64_t f
    cdef FileEntry* e
    for f in range(min(known_files.count, t.listed)):
        e = entry_of(t, f)
        if known_files.files[f].size >= 0:
            e.size = known_files.files[f].size
            e.mtime_ns = known_files.files[f].mtime_ns
            e.dev = known_files.files[f].dev
            e.ino = known_files.files[f].ino
            e.state.store(2, kRelaxed)  # relaxed: no other thread has the table


cdef void table_drop(FileTable* t) noexcept nogil:
    cdef int64_t k
    # acq_rel, as in names_drop: the last holder sees what all others did
    if t == NULL or t.refs.fetch_sub(1, kAcqRel) != 1:
        return
    table_close_idle(t)  # every open file is idle: nobody uses the table
    for k in range(t.names.rooms):
        if t.blocks[k] == NULL:
            break
        free(t.blocks[k])
    names_drop(t.names)
    free(t.blocks)
    free(t)


# The idle list: open files that nobody reads, least recently used first. Called with the turn held.

cdef void _idle_remove(FileTable* t, int64_t f) noexcept nogil:
    cdef FileEntry* e = entry_of(t, f)
    if e.prev >= 0:
        entry_of(t, e.prev).next = e.next
    else:
        t.idle_first = e.next
    if e.next >= 0:
        entry_of(t, e.next).prev = e.prev
    else:
        t.idle_last = e.prev


cdef void _idle_append(FileTable* t, int64_t f) noexcept nogil:
    cdef FileEntry* e = entry_of(t, f)
    e.prev = t.idle_last
    e.next = -1
    if t.idle_last >= 0:
        entry_of(t, t.idle_last).next = <int32_t>f
    else:
        t.idle_first = <int32_t>f
    t.idle_last = <int32_t>f


cdef int _take_idle(FileTable* t, int32_t most, int64_t* file) noexcept nogil:
    # Takes an idle descriptor out of the table if more than `most` are open, for _close outside the turn. -1: none.
    cdef int32_t f = t.idle_first
    cdef int fd
    if t.open_files <= most or f < 0:
        return -1
    _idle_remove(t, f)
    fd = entry_of(t, f).fd
    entry_of(t, f).fd = -1
    t.open_files -= 1
    file[0] = f
    return fd


cdef void _close(FileTable* t, int64_t f, int fd) noexcept nogil:
    # Checks and closes a descriptor that the caller took out of the table.
    cdef FileEntry* e = entry_of(t, f)
    cdef Fault fault
    cdef bint read_
    if fd < 0:
        return
    turn_take(&t.turn)
    read_ = e.used > 0
    e.used = 0
    turn_give(&t.turn)
    if read_ and not _unchanged(t, f, fd, &fault):
        turn_take(&t.turn)
        t.changed = f + 1
        turn_give(&t.turn)
    file_close(fd)


cdef bint _unchanged(FileTable* t, int64_t f, int fd, Fault* fault) noexcept nogil:
    # Returns whether an open file that was read still has the bytes that it had when it was discovered.
    cdef FileEntry* e = entry_of(t, f)
    cdef FileStat st
    if t.drops:
        # Each read has let the cache forget its part, but a page of up to some megabytes goes only as a whole.
        file_forget(fd, 0, 0)
    if file_stat(fd, &st) != 0:
        fault_begin(fault, os_code(errno), WHAT_STAT, STAGE_READ)
        fault.err = errno
    elif changed_since(&st, e.size, e.mtime_ns):
        changed_fault(&st, e.size, fault)
        turn_take(&t.turn)
        e.changed = 1
        turn_give(&t.turn)
    else:
        return True
    fault.file = f
    return False


cdef bint changed_since(const FileStat* now, int64_t size, int64_t mtime_ns) noexcept nogil:
    if now.dev == kRemoteDevice and now.size != size:
        return True
    return now.size < size or (now.size == size and now.mtime_ns != mtime_ns)


cdef void changed_fault(const FileStat* now, int64_t size, Fault* fault) noexcept nogil:
    fault_begin(fault, CODE_SOURCE_CHANGED, WHAT_SHORTENED if now.size < size else WHAT_REWRITTEN, STAGE_READ)
    fault.a = size
    fault.b = now.size + 1


cdef int64_t table_claim(FileTable* t, int64_t ahead) noexcept nogil:
    cdef int64_t f = -1
    turn_take(&t.turn)
    # relaxed: known_files is written under this turn
    if t.claimed < t.listed and t.claimed < t.known_files.load(kRelaxed) + ahead:
        f = t.claimed
        t.claimed += 1
    turn_give(&t.turn)
    return f


cdef int32_t os_code(int err) noexcept nogil:
    if err == ENOENT or err == ENOTDIR:
        return CODE_NOT_FOUND
    if err == EACCES or err == EPERM:
        return CODE_PERMISSION
    if err == EISDIR:
        return CODE_NOT_A_FILE
    return CODE_UNAVAILABLE


cdef bint file_skippable(int32_t code, int32_t what, int32_t err) noexcept nogil:
    if code == CODE_UNAVAILABLE:
        return what == WHAT_SPECIAL or what == WHAT_UNSIZED or err == ELOOP or err == ENAMETOOLONG or err == ENXIO
    return (code == CODE_CHECKSUM or code == CODE_TRUNCATED or code == CODE_TOO_LARGE or code == CODE_DECOMPRESS
            or code == CODE_SOURCE_CHANGED or code == CODE_NOT_FOUND or code == CODE_PERMISSION
            or code == CODE_NOT_A_FILE)


cdef int open_regular(const char* name, int32_t store, FileStat* st, Fault* fault) noexcept nogil:
    return _open(name, store, False, st, fault)


cdef int open_any(const char* name, int32_t store, FileStat* st, Fault* fault) noexcept nogil:
    return _open(name, store, True, st, fault)


cdef int _open(const char* name, int32_t store, bint special, FileStat* st, Fault* fault) noexcept nogil:
    cdef int fd
    st.mode = 0
    if is_url(name):
        fd = remote_open(name, store, st)
        if fd < 0:
            fault_begin(fault, os_code(errno), WHAT_OPEN, STAGE_OPEN)
            fault.err = errno
        return fd
    while True:
        fd = syscalls().open(name)
        if fd >= 0 or errno != EINTR:
            break
    if fd >= 0 and file_stat(fd, st) == 0 and (is_regular(st.mode) or (special and not is_directory(st.mode))):
        return fd
    fault_begin(fault, OK, 0, STAGE_OPEN)
    fault.err = errno
    if fd < 0:
        fault.what = WHAT_OPEN
        fault.code = os_code(fault.err)
        return -1
    if st.mode == 0:
        fault.what = WHAT_STAT
        fault.code = os_code(fault.err)
    elif is_directory(st.mode):
        fault.what = WHAT_DIRECTORY
        fault.err = EISDIR
        fault.code = CODE_NOT_A_FILE
    else:
        fault.what = WHAT_SPECIAL
        fault.err = 0
        fault.code = CODE_UNAVAILABLE
    file_close(fd)
    return -1


cdef bint is_empty(int fd, int32_t retries, StopFlag* stop, Fault* fault) noexcept nogil:
    cdef char byte
    cdef iovec iov
    cdef int64_t n = -1
    cdef int32_t tries = 0
    iov.iov_base = &byte
    iov.iov_len = 1
    while True:
        n = file_read(fd, &iov, 1, 0, 0)
        if n >= 0:
            break
        if errno == EIO and tries < retries and backoff(tries, stop):
            tries += 1
        elif errno != EINTR:
            break
    if n == 0:
        return True
    fault_begin(fault, CODE_UNAVAILABLE if n > 0 else os_code(errno), WHAT_UNSIZED if n > 0 else WHAT_READ, STAGE_READ)
    fault.err = 0 if n > 0 else errno
    return False


cdef void _discover_array(FileTable* t, int64_t f, int fd) noexcept nogil:
    # Notes the rows of a file, if it still has the header that was read before. Bytes behind the rows were appended.
    cdef const ArrayFile* a = &t.names.arrays.files[f]
    cdef FileEntry* e = entry_of(t, f)
    cdef char head[MOST_HEAD]
    cdef iovec iov
    cdef FileRead read_
    cdef Fault fault
    if e.size < a.head_bytes + a.rows * t.record_bytes:
        e.code = CODE_SOURCE_CHANGED
        e.what = WHAT_SHORTENED
        return
    iov.iov_base = head
    iov.iov_len = <size_t>a.head_bytes
    memset(&read_, 0, sizeof(FileRead))
    read_.file = f
    read_.fd = fd
    read_.iov = &iov
    read_.count = 1
    if read_full(t, &read_, &fault) != READ_OK:
        e.code = fault.code
        e.what = fault.what
        e.err = fault.err
    elif memcmp(head, a.head, <size_t>a.head_bytes) != 0:
        e.code = CODE_SOURCE_CHANGED
        e.what = WHAT_REPLACED
    else:
        e.count = a.rows
        if a.rows == 0:
            t.empty_files.fetch_add(1, kRelaxed)  # relaxed: a statistic


cdef void _note_storage(FileTable* t, int fd, uint64_t dev) noexcept nogil:
    # relaxed, both: a number that several threads may find out
    if dev != t.near.load(kRelaxed) and dev != kRemoteDevice and file_storage(fd) != kStorageElsewhere:
        t.near.store(dev, kRelaxed)


cdef void _refuse(FileTable* t, int64_t f) noexcept nogil:
    # Notes that the reads of this file can't be direct. From then on, those of none are.
    cdef int64_t none = 0
    if t.refused.compare_exchange_strong(none, f + 1, kRelaxed, kRelaxed):  # relaxed: a hint, but for whom `news` tells
        t.news.fetch_or(NEWS_DIRECT, kRelease)  # release: pairs with _say_news in stream.pyx


cdef void table_no_rings(FileTable* t, int error) noexcept nogil:
    cdef int32_t none = 0
    if t.ringless.compare_exchange_strong(none, error, kRelaxed, kRelaxed):  # relaxed, release: as in _refuse
        t.news.fetch_or(NEWS_RINGS, kRelease)


cdef inline bint _is_direct(FileTable* t, int fd) noexcept nogil:
    return t.direct and fd < REMOTE_FD and t.refused.load(kRelaxed) == 0


cdef void _make_direct(FileTable* t, int64_t f, int fd) noexcept nogil:
    if _is_direct(t, fd) and syscalls().direct(fd, 1) != 0:
        _refuse(t, f)


cdef void _expect_beginning(FileTable* t, int64_t f, int fd) noexcept nogil:
    # Has the kernel read the beginning of a file that is opened before its turn, so that fewer reads have to wait. It
    # needn't be as long as the page cache has everything. The rest is left to the kernel's own reading ahead, which
    # makes larger pages. A permutation opens all its files before it reads any, so it asks for none.
    # relaxed: a hint
    if t.cold.load(kRelaxed) != 0 and not _is_direct(t, fd):
        file_expect(fd, 0, min(entry_of(t, f).size, <int64_t>BEGINNING_BYTES))


cdef inline void _note_next(const FileEntry* e, const FileEntry* next) noexcept nogil:
    # Says that a file is read after another, as it seems. Called with the turn held.
    if e.fd >= REMOTE_FD and next.fd >= REMOTE_FD:
        remote_follow(e.fd, next.fd)


cdef void _publish(FileTable* t) noexcept nogil:
    # Publishes the files that are discovered, as all before them are. Called with the turn held.
    cdef FileEntry* e
    cdef FileEntry* last
    cdef int64_t k = t.known_files.load(kRelaxed)  # relaxed: written under this turn
    while k < t.listed and entry_of(t, k).state.load(kRelaxed) == 1:
        e = entry_of(t, k)
        if k > 0:
            last = entry_of(t, k - 1)
            e.base = last.base + last.count
            e.digest = _mix(last.digest, <uint64_t>e.size)
            _note_next(last, e)
        else:
            e.digest = _mix(0, <uint64_t>e.size)
        e.digest = _mix(e.digest, <uint64_t>e.mtime_ns)
        k += 1
        t.known_records.store(e.base + e.count, kRelaxed)  # relaxed: published by D1
        # D1 release: pairs with D2 in order/source.pyx; entries below k are complete.
        t.known_files.store(k, kRelease)


cdef void table_discover(FileTable* t, int64_t f) noexcept nogil:
    cdef FileEntry* e = entry_of(t, f)
    cdef FileStat st
    cdef Fault fault
    cdef int64_t body, left
    cdef int64_t other = 0
    cdef int fd, stale = -1
    cdef bint same
    fd = open_regular(name_of(t.names, f), t.store, &st, &fault)
    # relaxed: set before any thread had the table
    same = fd < 0 or e.state.load(kRelaxed) != 2 or _is_as_it_was(e, &st)
    if fd >= 0 and same and st.size == 0 and t.names.arrays == NULL and not is_empty(fd, t.retries, t.stop, &fault):
        file_close(fd)
        fd = -1
    e.fd = -1
    if fd < 0:
        e.code = fault.code
        e.what = fault.what
        e.err = fault.err
        e.size = -1
    else:
        _note_storage(t, fd, st.dev)
        e.size = st.size
        e.mtime_ns = st.mtime_ns
        e.dev = st.dev
        e.ino = st.ino
        body = st.size - t.header_bytes - t.footer_bytes
        if not same:
            e.code = CODE_SOURCE_CHANGED
            e.what = WHAT_REPLACED
        elif t.names.arrays != NULL:
            _discover_array(t, f, fd)
        elif st.size == 0:
            t.empty_files.fetch_add(1, kRelaxed)  # relaxed: a statistic
        elif t.tail == TAIL_STREAM:
            e.count = 1
        elif body < 0:
            e.code = CODE_TRUNCATED
            e.what = WHAT_HEADER
        else:
            if body >= t.record_bytes:
                e.count = (body - t.record_bytes) // t.hop_bytes + 1
                left = body - ((e.count - 1) * t.hop_bytes + t.record_bytes)
            else:
                left = body
            # Bytes after the last record may be the gap before a next record that doesn't come.
            if left != 0 and not (e.count > 0 and t.hop_bytes > t.record_bytes
                                  and left <= t.hop_bytes - t.record_bytes):
                if t.tail == TAIL_SHORT:
                    e.count += 1
                elif t.tail == TAIL_DROP:
                    t.dropped_tails.fetch_add(1, kRelaxed)  # relaxed: a statistic
                else:
                    e.code = CODE_TRUNCATED
                    e.what = WHAT_TAIL
        if e.count == 0 or t.tail == TAIL_STREAM:
            file_close(fd)
            fd = -1
        else:
            _make_direct(t, f, fd)
            _expect_beginning(t, f, fd)
    turn_take(&t.turn)
    if fd >= 0:
        e.fd = fd
        t.open_files += 1
        _idle_append(t, f)
        stale = _take_idle(t, t.fd_limit, &other)
    e.state.store(1, kRelaxed)  # relaxed: read under the turn only
    _publish(t)
    turn_give(&t.turn)
    _close(t, other, stale)


cdef void table_fault(const FileTable* t, int64_t f, Fault* fault) noexcept nogil:
    cdef FileEntry* e = entry_of(t, f)
    fault_begin(fault, e.code, e.what, STAGE_OPEN)
    fault.err = e.err
    fault.file = f
    if e.what == WHAT_TAIL:
        fault.stage = STAGE_READ
        fault.record = e.count
        fault.offset = t.header_bytes + e.count * t.hop_bytes
        fault.a = e.size - t.footer_bytes - fault.offset
        fault.b = t.record_bytes
    elif e.what == WHAT_READ:
        fault.stage = STAGE_READ
        fault.offset = fault.record = 0
    elif e.what == WHAT_SHORTENED:  # an array
        fault.a = fault.b = head_of(t, f) + t.names.arrays.files[f].rows * t.record_bytes
        fault.offset = e.size
    elif e.what == WHAT_HEADER:
        fault.stage = STAGE_READ
        fault.record = 0
        fault.offset = 0
        fault.a = e.size
        fault.b = t.header_bytes + t.footer_bytes


cdef int64_t table_find(const FileTable* t, int64_t ordinal, int64_t hint) noexcept nogil:
    cdef int64_t low, high, middle
    cdef FileEntry* e = entry_of(t, hint)
    if ordinal >= e.base and ordinal < e.base + e.count:
        return hint
    low = 0
    high = t.known_files.load(kAcquire) - 1  # D2 acquire: pairs with D1
    while low < high:  # the last file whose base is not above the ordinal; files without records share a base
        middle = (low + high + 1) // 2
        if entry_of(t, middle).base <= ordinal:
            low = middle
        else:
            high = middle - 1
    while entry_of(t, low).count == 0:
        low -= 1
    return low


cdef inline bint _is_file(const FileEntry* e, const FileStat* st) noexcept nogil:
    return st.ino == e.ino and st.dev == e.dev


cdef inline bint _is_as_it_was(const FileEntry* e, const FileStat* st) noexcept nogil:
    return _is_file(e, st) and st.size == e.size and st.mtime_ns == e.mtime_ns


cdef int _replaced(int64_t f, Fault* fault) noexcept nogil:
    fault_begin(fault, CODE_SOURCE_CHANGED, WHAT_REPLACED, STAGE_READ)
    fault.stage = STAGE_OPEN
    fault.file = f
    return -1


cdef int _open_same(FileTable* t, int64_t f, Fault* fault) noexcept nogil:
    # Returns another descriptor of a file that was open before; -1 with the fault, if it isn't the same file.
    cdef FileStat st
    cdef int fd = open_regular(name_of(t.names, f), t.store, &st, fault)
    fault.file = f
    if fd >= 0 and not _is_as_it_was(entry_of(t, f), &st):
        file_close(fd)
        return _replaced(f, fault)
    return fd


cdef bint table_is_same(FileTable* t, int64_t f, int64_t pass_, const FileStat* st) noexcept nogil:
    cdef FileEntry* e = entry_of(t, f)
    cdef bint same
    turn_take(&t.turn)
    if e.passes > 0 and pass_ >= e.passes:
        same = _is_as_it_was(e, st)
    else:
        same = _is_file(e, st) and not changed_since(st, e.size, e.mtime_ns)
    if same and pass_ >= e.passes:
        e.passes = pass_ + 1
    turn_give(&t.turn)
    return same


cdef int table_pin(FileTable* t, int64_t f, int64_t pass_, bint nowait, Fault* fault) noexcept nogil:
    # A pass that begins with a file opens it by its name, whether it is still open or not: so timing doesn't decide
    # which file is read. An earlier pass still reads from the descriptor that is open, even if the name now belongs to
    # another file.
    cdef FileEntry* e = entry_of(t, f)
    cdef FileStat st
    cdef int64_t other = 0
    cdef int fd, stale = -1
    turn_take(&t.turn)
    if e.changed:
        turn_give(&t.turn)
        return _replaced(f, fault)
    if e.fd >= 0 and (e.passes == 0 or pass_ < e.passes):
        if e.passes == 0:
            e.passes = pass_ + 1
        if e.pins == 0:
            _idle_remove(t, f)
        e.pins += 1
        fd = e.fd
        turn_give(&t.turn)
        return fd
    turn_give(&t.turn)
    if nowait:
        fault.code = 0
        return -1
    fd = open_regular(name_of(t.names, f), t.store, &st, fault)
    if fd < 0:
        fault.file = f
        return -1
    if not table_is_same(t, f, pass_, &st):
        file_close(fd)
        return _replaced(f, fault)
    _make_direct(t, f, fd)
    turn_take(&t.turn)
    if e.fd >= 0:  # it is open already
        stale = fd
        other = -1
        if e.pins == 0:
            _idle_remove(t, f)
        fd = e.fd
    else:
        e.fd = fd
        t.open_files += 1
        stale = _take_idle(t, t.fd_limit, &other)
    e.pins += 1
    # relaxed: written under this turn
    if f + 1 < t.known_files.load(kRelaxed) and entry_of(t, f + 1).passes <= pass_:
        _note_next(e, entry_of(t, f + 1))
    turn_give(&t.turn)
    if other >= 0:
        _close(t, other, stale)
    else:
        file_close(stale)
    return fd


cdef int table_lend(FileTable* t, int64_t f, int64_t pass_, bint* direct, Fault* fault) noexcept nogil:
    fault.code = 0
    # relaxed: the files of other machines, and remote ones, are on none that is near
    if entry_of(t, f).dev != t.near.load(kRelaxed) or _by_columns(t, f):
        return -1
    direct[0] = _is_direct(t, 0)
    return table_pin(t, f, pass_, True, fault)


cdef bint table_unpin(FileTable* t, int64_t f, int64_t records, bint nowait, Fault* fault) noexcept nogil:
    # The file stays open: a run that begins again in the middle of a batch reads its last records once more.
    cdef FileEntry* e = entry_of(t, f)
    cdef int64_t other = 0
    cdef int stale = -1
    cdef bint well = True, is_whole
    turn_take(&t.turn)
    is_whole = records > 0 and e.used + records >= e.count
    if is_whole and nowait and e.dev != t.near.load(kRelaxed):
        fault.code = 0
        is_whole = well = False
    else:
        e.used += records
    if is_whole:
        e.used -= e.count
        turn_give(&t.turn)
        well = _unchanged(t, f, e.fd, fault)  # it is pinned
        turn_take(&t.turn)
    e.pins -= 1
    if e.pins == 0:
        _idle_append(t, f)
        if not nowait:  # closing may wait; the next caller closes what is too much
            stale = _take_idle(t, t.fd_limit, &other)
    turn_give(&t.turn)
    _close(t, other, stale)
    return well


cdef int32_t _first_unsettled(const FileTable* t) noexcept nogil:
    # Returns an idle file of which a part was read; -1: there is none. Called with the turn held.
    cdef int32_t f = t.idle_first
    while f >= 0 and entry_of(t, f).used == 0:
        f = entry_of(t, f).next
    return f


cdef bint table_unsettled(FileTable* t) noexcept nogil:
    cdef bint found
    turn_take(&t.turn)
    found = t.changed > 0 or _first_unsettled(t) >= 0
    turn_give(&t.turn)
    return found


cdef bint table_settle(FileTable* t, Fault* fault) noexcept nogil:
    cdef FileEntry* e
    cdef int32_t f
    cdef bint well
    while True:
        turn_take(&t.turn)
        f = <int32_t>t.changed - 1
        t.changed = 0
        if f >= 0:
            turn_give(&t.turn)
            _replaced(f, fault)
            return False
        f = _first_unsettled(t)
        if f < 0:
            turn_give(&t.turn)
            return True
        e = entry_of(t, f)
        e.used = 0
        e.pins += 1
        _idle_remove(t, f)
        turn_give(&t.turn)
        well = _unchanged(t, f, e.fd, fault)
        table_unpin(t, f, 0, False, fault)
        if not well:
            return False


cdef bint table_named_unchanged(const FileTable* t, int64_t f, Fault* fault) noexcept nogil:
    cdef const FileEntry* e = entry_of(t, f)
    cdef FileStat st
    cdef int fd = open_regular(name_of(t.names, f), t.store, &st, fault)
    if fd < 0:
        return True
    file_close(fd)
    if not _is_file(e, &st) or not changed_since(&st, e.size, e.mtime_ns):
        return True
    changed_fault(&st, e.size, fault)
    fault.file = f
    return False


cdef int64_t table_pinned(FileTable* t, int64_t after) noexcept nogil:
    cdef int64_t f, file = -1, known = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1
    turn_take(&t.turn)
    for f in range(after, known):
        if entry_of(t, f).pins > 0:
            file = f
            break
    turn_give(&t.turn)
    return file


cdef void table_close_idle(FileTable* t) noexcept nogil:
    cdef int64_t f = 0
    cdef int fd = 0
    while fd >= 0:
        turn_take(&t.turn)
        fd = _take_idle(t, -1, &f)
        turn_give(&t.turn)
        _close(t, f, fd)


cdef inline void _advance(FileRead* r, int64_t n) noexcept nogil:
    # n bytes more are there.
    r.got += n
    while r.count > 0 and <size_t>n >= r.iov.iov_len:
        n -= <int64_t>r.iov.iov_len
        r.iov += 1
        r.count -= 1
    if n > 0:
        r.iov.iov_base = <char*>r.iov.iov_base + n
        r.iov.iov_len -= <size_t>n


cdef int read_full(FileTable* t, FileRead* r, Fault* fault) noexcept nogil:
    cdef int64_t n
    cdef int err, part, patience = 1000
    cdef int32_t tries = 0
    # relaxed: a number that several threads may find out
    cdef int flags = RWF_NOWAIT if r.nowait and t.memory.load(kRelaxed) != entry_of(t, r.file).dev else 0
    cdef FileRead other
    cdef int status
    cdef bint reopened = False, refused = False, direct = _is_direct(t, r.fd)
    r.got = 0
    if direct and r.nowait:
        return READ_NOT_CACHED
    while r.count > 0:
        part = r.count if r.count < IOV_MAX_COUNT else IOV_MAX_COUNT
        if direct:
            n = direct_read(r.fd, r.iov, part, r.offset + r.got)
        else:
            n = file_read(r.fd, r.iov, part, r.offset + r.got, flags)
        if n > 0:
            _advance(r, n)
            tries = 0
            continue
        err = errno
        if n < 0 and err == EINTR:
            continue
        if n < 0 and err == EINVAL and t.direct and not refused and r.fd < REMOTE_FD:
            # The disk wants larger blocks, or another thread found that, and this descriptor is still direct.
            _refuse(t, r.file)
            refused = True
            direct = False
            if syscalls().direct(r.fd, 0) == 0:
                continue
        if (n < 0 and err == EOPNOTSUPP and flags != 0 and entry_of(t, r.file).dev != kRemoteDevice
                and file_storage(r.fd) == kStorageMemory):
            t.memory.store(entry_of(t, r.file).dev, kRelaxed)
            flags = 0
            continue
        if n < 0 and flags != 0 and (err == EAGAIN or err == EOPNOTSUPP):
            t.cold.store(1, kRelaxed)  # relaxed: a hint
            return READ_NOT_CACHED
        if n < 0 and err == EAGAIN and patience > 0:  # a few network file systems say "later" for a regular file
            patience -= 1
            continue
        if n < 0 and (err == ESTALE or err == ETIMEDOUT) and not reopened:
            # Network file systems lose track of an open file now and then: open it again by its name, if it is still
            # the same.
            if r.nowait:
                return READ_NOT_CACHED
            reopened = True
            other = r[0]
            other.fd = _open_same(t, r.file, fault)
            if other.fd >= 0:
                other.offset += r.got
                other.nowait = False
                status = read_full(t, &other, fault)
                file_close(other.fd)
                r.got += other.got
                return status
            if fault.code == CODE_SOURCE_CHANGED:
                return READ_FAULT
        if n < 0 and err == EIO and t.retries > 0:
            if r.nowait:
                return READ_NOT_CACHED
            if tries < t.retries and backoff(tries, t.stop):
                tries += 1
                continue
        memset(fault, 0, sizeof(Fault))
        fault.stage = STAGE_READ
        fault.file = r.file
        fault.offset = r.offset + r.got
        fault.record = (fault.offset - head_of(t, r.file)) // t.hop_bytes
        if n == 0:
            fault.code = CODE_SOURCE_CHANGED
            fault.what = WHAT_SHORTENED
            fault.a = entry_of(t, r.file).size
            fault.b = fault.offset + <int64_t>r.iov.iov_len
        else:
            fault.code = os_code(err)
            fault.what = WHAT_READ
            fault.err = err
        return READ_FAULT
    table_note_read(t, r.fd, r.offset, r.got)
    return READ_OK


cdef void table_note_read(FileTable* t, int fd, int64_t offset, int64_t nbytes) noexcept nogil:
    if t.drops:
        file_forget(fd, offset, nbytes)
    t.bytes_read.fetch_add(nbytes, kRelaxed)  # relaxed: a statistic


cdef inline bint _by_columns(const FileTable* t, int64_t f) noexcept nogil:
    return t.names.arrays != NULL and t.names.arrays.files[f].by_columns > 0


cdef int read_records(FileTable* t, FileRead* r, Fault* fault) noexcept nogil:
    if _by_columns(t, r.file):
        return _gather(t, r, r.offset // t.record_bytes, fault)
    r.offset += head_of(t, r.file)
    return read_full(t, r, fault)


cdef inline void _spread(unsigned char* dst, int64_t stride, const unsigned char* src, int64_t n,
                         int64_t item) noexcept nogil:
    cdef int64_t i
    if item == 1:
        for i in range(n):
            dst[i * stride] = src[i]
    elif item == 2:
        for i in range(n):
            memcpy(dst + i * stride, src + i * 2, 2)
    elif item == 4:
        for i in range(n):
            memcpy(dst + i * stride, src + i * 4, 4)
    elif item == 8:
        for i in range(n):
            memcpy(dst + i * stride, src + i * 8, 8)
    else:
        for i in range(n):
            memcpy(dst + i * stride, src + i * item, item)


cdef int _gather(FileTable* t, FileRead* r, int64_t first, Fault* fault) noexcept nogil:
    # Reads rows, from number `first` on, of an array that lies by columns: as many at once as one column's numbers fill
    # a buffer.
    cdef const ArrayFiles* a = t.names.arrays
    cdef int64_t rows = 0, m, limit = max(GATHER_BYTES // a.item_bytes, 1), skip = 0
    cdef int status = READ_OK, i
    r.got = 0
    for i in range(r.count):
        rows += <int64_t>r.iov[i].iov_len // t.record_bytes
    while rows > 0 and status == READ_OK:
        m = limit if rows > limit else rows
        status = _gather_rows(t, r, skip, first, m, fault)
        if status == READ_FAULT:
            fault.record = first
        elif status == READ_OK:
            r.got += m * t.record_bytes
            first += m
            rows -= m
            skip += m
            while rows > 0 and skip >= <int64_t>r.iov.iov_len // t.record_bytes:
                skip -= <int64_t>r.iov.iov_len // t.record_bytes
                r.iov += 1
    return status


cdef int _gather_rows(FileTable* t, const FileRead* r, int64_t skip, int64_t first, int64_t m,
                      Fault* fault) noexcept nogil:
    # Reads m rows, to behind the first `skip` rows of the list. In the file, the first index of a row's shape counts
    # fastest: the next column is the one whose first index is one higher. `place` is the position of a column's number
    # in a row.
    cdef const ArrayFiles* a = t.names.arrays
    cdef const ArrayFile* file = &a.files[r.file]
    cdef const iovec* to
    cdef int64_t item = a.item_bytes, columns = t.record_bytes // item, column = 0, place = 0
    cdef int64_t k, j, i, n, done, position, side, nbytes
    cdef int64_t index[MAX_DIMS]
    cdef int64_t step[MAX_DIMS]
    cdef unsigned char buffer[GATHER_BYTES]
    cdef iovec piece
    cdef FileRead column_read = r[0]
    cdef int status
    j = 1
    for i in range(a.ndim - 1, -1, -1):
        index[i] = 0
        step[i] = j
        j *= a.sides[i]
    while column < columns:
        k = 1
        nbytes = m * item
        piece.iov_base = buffer
        if nbytes > GATHER_BYTES:  # m is 1: the number is read straight to its place
            piece.iov_base = <unsigned char*>r.iov.iov_base + skip * t.record_bytes + place * item
        elif file.rows <= 4 * m or (file.rows - m) * item <= GATHER_GAP:
            # Several columns, with the gaps between them.
            k = min(1 + (GATHER_BYTES // item - m) // file.rows, columns - column)
            nbytes += (k - 1) * file.rows * item
        piece.iov_len = <size_t>nbytes
        column_read.iov = &piece
        column_read.count = 1
        column_read.offset = file.head_bytes + (column * file.rows + first) * item
        status = read_full(t, &column_read, fault)
        if status != READ_OK:
            return status
        for j in range(k):
            to = r.iov
            position = skip
            done = 0
            while done < m and nbytes <= GATHER_BYTES:
                n = min(<int64_t>to.iov_len // t.record_bytes - position, m - done)
                _spread(<unsigned char*>to.iov_base + position * t.record_bytes + place * item, t.record_bytes,
                        buffer + (j * file.rows + done) * item, n, item)
                done += n
                position = 0
                to += 1
            side = 0
            while side < a.ndim:
                index[side] += 1
                place += step[side]
                if index[side] < a.sides[side]:
                    break
                place -= step[side] * a.sides[side]
                index[side] = 0
                side += 1
        column += k
    return READ_OK
