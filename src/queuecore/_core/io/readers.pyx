"""Readers: the records of one file after the other. See readers.pxd for the contract."""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from libc.errno cimport EINTR, ETIMEDOUT
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcpy, memmove, memset
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout, fork_generation, light_notify
from queuecore._core.atoms.errors cimport (
    CODE_AGAIN, CODE_CHECKSUM, CODE_DATA_LOSS, CODE_EXHAUSTED, CODE_FORKED, CODE_INVALID_ARGUMENT, CODE_PRECONDITION,
    CODE_TOO_LARGE, CODE_TRUNCATED, OK, STAGE_OPEN, STAGE_READ, WHAT_HEADER_CUT, WHAT_LINE, WHAT_MEMORY, WHAT_NAME,
    WHAT_SPECIAL, WHAT_SPECIAL_READER, WHAT_WHOLE, fault_begin, fault_error, new_error, raise_error)
from queuecore._core.io.framing cimport (
    FRAME_FIXED, FRAME_IDENTITY, FRAME_LINES, FRAME_TFRECORD, FRAME_WHOLE, framing_lone, framing_reads)
from queuecore._core.atoms.growing cimport Growing, grow, growing_free
from queuecore._core.atoms.parking cimport event_cancel, event_notify, event_prepare, event_wait
from queuecore._core.atoms.platform cimport (
    Fault, alloc_lines, cpu_pause, kAcqRel, kAcquire, kRelaxed, kRelease, layout_hash, monotonic_ns, size_sum)
from queuecore._core.atoms.runtime cimport still_waiting, wait_out_exit, waited
from queuecore._core.atoms.times cimport ON_INPUT, begin_wait, end_wait
from queuecore._core.io.streams cimport ByteStream, stream_close, stream_open, stream_open_any, stream_read
from queuecore._core.io.tfrecord cimport (
    TFRECORD_FRAME, TFRECORD_HEADER, tfrecord_check, tfrecord_damaged, tfrecord_resync, tfrecord_walk)
from queuecore._core.io.walk cimport WALK_END, WALK_MORE, RecordWalk

import numpy as np

check_layout(layout_hash())

cdef enum:
    BLOCK_BYTES = 256 << 10   # half of a small server's L2 cache, and long enough to hide the system call
    SPINS = 200               # pauses before a sleep
    SLICE_NS = 50000000       # the interval at which a waiting Python thread handles signals

cdef enum:
    FIND_OK = 0
    FIND_MORE = 1
    FIND_END = 2
    FIND_FAULT = 3


# Blocks

cdef Block* _block_new(int64_t room) noexcept nogil:
    # Returns a block with one reference; NULL: no memory. A large block isn't written to before it is filled.
    cdef size_t nbytes = size_sum(64, room)
    cdef Block* block = <Block*>(buffer_take(nbytes) if room > BLOCK_BYTES else alloc_lines(nbytes))
    if block != NULL:
        block.room = room
        block.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it
    return block


cdef Block* _block_take(Reader* r, int64_t room) noexcept nogil:
    # Takes a block with room for at least `room` bytes of the stream.
    cdef Block* block = NULL
    cdef int i
    if room > BLOCK_BYTES:
        return _block_new(room)
    for i in range(SPARE_BLOCKS):
        block = r.spare[i].exchange(NULL, kAcquire)  # B2 acquire: pairs with B1
        if block != NULL:
            block.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it
            return block
    return _block_new(BLOCK_BYTES)


cdef void _block_drop(Reader* r, Block* block) noexcept nogil:
    cdef BlockPtr nothing
    cdef int i
    # B1 acq_rel. Release: this holder's reads of the bytes come before the next writes to them (by B2's thread, or by
    # the reader that finds itself alone with the block); acquire: the last holder sees the reads of all others as done.
    if block == NULL or block.refs.fetch_sub(1, kAcqRel) != 1:
        return
    if block.room == BLOCK_BYTES:
        for i in range(SPARE_BLOCKS):
            nothing = NULL
            # B1 release, as above. Relaxed on failure: nothing is read.
            if r.spare[i].compare_exchange_strong(nothing, block, kRelease, kRelaxed):
                return
    if block.room > BLOCK_BYTES:
        buffer_give(block, 64 + block.room)
    else:
        free(block)


cdef bint _refill(Reader* r, int64_t need, Fault* fault) noexcept nogil:
    # Reads on, towards `need` bytes from `at` on, until the block is full or the stream ends.
    cdef Block* block = r.block
    cdef int64_t keep = r.filled - r.at, read_bytes = 0
    cdef bint well
    if r.failed.code != 0:
        memcpy(fault, &r.failed, sizeof(Fault))
        r.failed.code = 0
        return False
    if (r.encoding or (<ByteStream*>r.stream).special) and need > 2 * (keep + BLOCK_BYTES):
        need = 2 * (keep + BLOCK_BYTES)  # the stream may have fewer bytes left than `need`
    # A large block is given back as soon as a small one will do. B2 acquire: pairs with B1; no other thread reads the
    # block any more
    if block == NULL or block.room < need or need <= BLOCK_BYTES < block.room or block.refs.load(kAcquire) != 1:
        block = _block_take(r, need)
        if block == NULL:
            fault_begin(fault, CODE_EXHAUSTED, WHAT_MEMORY, STAGE_READ)
            fault.a = need
            return False
        if r.block != NULL:
            memcpy(block_bytes(block), block_bytes(r.block) + r.at, keep)
            _block_drop(r, r.block)
        r.block = block
    else:
        memmove(block_bytes(block), block_bytes(block) + r.at, keep)
    r.offset += r.at
    r.at = 0
    r.filled = keep
    well = stream_read(<ByteStream*>r.stream, block_bytes(block) + keep, block.room - keep, &read_bytes, fault)
    r.filled += read_bytes
    r.ended = well and read_bytes < block.room - keep
    if not well and read_bytes > 0 and fault.code != CODE_AGAIN:
        memcpy(&r.failed, fault, sizeof(Fault))  # reported after the bytes that came before it
    return well or read_bytes > 0


# Framings: each function finds the next record in the bytes that are there. FIND_MORE: it wants `need` bytes from `at`
# on.

cdef int _frame_fixed(Reader* r, Record* record, int64_t* need, Fault* fault) noexcept nogil:
    cdef int64_t left = r.filled - r.at, step
    if r.skip > 0:
        step = left if left < r.skip else r.skip
        r.at += step
        r.skip -= step
        left -= step
        if r.skip > 0 and r.ended and r.number == 0 and r.offset + r.at > 0:
            memset(fault, 0, sizeof(Fault))
            fault.code = CODE_TRUNCATED
            fault.what = WHAT_HEADER_CUT
            fault.a = r.offset + r.at
            fault.b = r.header_bytes
            fault.file = -1
            return FIND_FAULT
        need[0] = 1
        if r.skip > 0:
            return FIND_END if r.ended else FIND_MORE
    need[0] = r.record_bytes + r.footer_bytes
    if left < need[0]:
        if not r.ended:
            return FIND_MORE
        if left > r.footer_bytes:
            r.dropped_tails.fetch_add(1, kRelaxed)  # relaxed: a statistic
        return FIND_END
    record.data = block_bytes(r.block) + r.at
    record.nbytes = r.record_bytes
    record.number = r.number
    r.number += 1
    if r.hop_bytes <= r.record_bytes:
        r.at += r.hop_bytes
    else:
        r.at += r.record_bytes
        r.skip = r.hop_bytes - r.record_bytes
    return FIND_OK


cdef void _too_large(Reader* r, int what, int64_t nbytes, Fault* fault) noexcept nogil:
    memset(fault, 0, sizeof(Fault))
    fault.code = CODE_TOO_LARGE
    fault.what = what
    fault.a = r.max_record_bytes
    fault.b = nbytes
    fault.file = -1
    fault.offset = r.offset + r.at


cdef int _frame_line(Reader* r, Record* record, int64_t* need, Fault* fault) noexcept nogil:
    cdef unsigned char* begin
    cdef unsigned char* end
    cdef int64_t left, nbytes
    while True:
        left = r.filled - r.at
        if left == 0 and r.ended:
            return FIND_END
        begin = block_bytes(r.block) + r.at if r.block != NULL else <unsigned char*>NULL
        end = <unsigned char*>memchr(begin + r.scanned, 10,
                                     left - r.scanned) if left > r.scanned else <unsigned char*>NULL
        nbytes = left if end == NULL else end - begin
        if end == NULL:
            r.scanned = left
            if not r.ended and left <= r.max_record_bytes + 1:
                # Two bytes more than the limit: the end (CR LF) of the longest line.
                need[0] = 2 * left + 1 if left <= r.max_record_bytes // 2 else r.max_record_bytes + 2
                return FIND_MORE
        if nbytes - (nbytes > 0 and begin[nbytes - 1] == 13) > r.max_record_bytes:
            _too_large(r, WHAT_LINE, -1, fault)
            return FIND_FAULT
        r.scanned = 0
        r.at += nbytes + (end != NULL)
        r.number += 1
        if r.number <= r.header_bytes:
            continue
        if nbytes > 0 and begin[nbytes - 1] == 13:
            nbytes -= 1
        record.data = begin
        record.nbytes = nbytes
        record.number = r.number
        record.index = r.number - 1
        return FIND_OK


cdef int _frame_whole(Reader* r, Record* record, int64_t* need, Fault* fault) noexcept nogil:
    cdef const ByteStream* stream = <const ByteStream*>r.stream
    cdef int64_t left = r.filled - r.at, size = -1 if stream.special else stream.size
    if left > r.max_record_bytes or size > r.max_record_bytes:
        _too_large(r, WHAT_WHOLE, size, fault)
        return FIND_FAULT
    if not r.ended:
        # One byte more than the file has, or may have, so that its end shows.
        if size > 2 * left:
            need[0] = size + 1
        else:
            need[0] = 2 * left + 1 if left <= r.max_record_bytes // 2 else r.max_record_bytes + 1
        return FIND_MORE
    record.data = block_bytes(r.block) + r.at
    record.nbytes = r.filled - r.at
    record.number = -1
    return FIND_OK


cdef int _frame_tfrecord(Reader* r, Record* record, int64_t* need, Fault* fault) noexcept nogil:
    cdef RecordWalk walk
    cdef unsigned char* data = block_bytes(r.block) + r.at if r.block != NULL else <unsigned char*>NULL
    cdef int64_t[2] starts
    cdef int64_t count = 0, left = -1, step = 0
    cdef int rc
    cdef int64_t total = -1 if r.encoding or (<ByteStream*>r.stream).special else (<ByteStream*>r.stream).size
    if r.searching:
        if r.ended:
            left = r.filled - r.at
        elif total >= 0:
            left = total - r.offset - r.at
        r.searching = not tfrecord_resync(data, r.filled - r.at, left, r.max_record_bytes, &step)
        r.at += step
        if r.searching:
            need[0] = TFRECORD_HEADER
            return FIND_END if r.ended else FIND_MORE
        data += step
    walk.total_bytes = total
    walk.max_record_bytes = r.max_record_bytes
    walk.check = True
    walk.offset = r.offset + r.at
    walk.record = r.number
    walk.need = 1
    rc = tfrecord_walk(&walk, data, r.filled - r.at, r.ended, starts, 1, &count, fault)
    if count == 1:
        record.data = data + TFRECORD_HEADER
        record.nbytes = starts[1] - starts[0] - TFRECORD_FRAME
        record.number = r.offset + r.at
        record.checked = False
        r.at += starts[1]
        r.number += 1
        return FIND_OK
    need[0] = walk.need
    return FIND_END if rc == WALK_END else FIND_MORE if rc == WALK_MORE else FIND_FAULT


cdef void _close(Reader* r) noexcept nogil:
    # Ends the work unit in progress.
    stream_close(<ByteStream*>r.stream)
    _block_drop(r, r.name)
    r.name = NULL


cdef void _complete(Reader* r) noexcept nogil:
    r.completed.fetch_add(1, kRelaxed)  # relaxed: a statistic
    if framing_lone(r.framing):
        _block_drop(r, r.last)
        r.last = r.name
        r.last_bytes = r.name_bytes
        r.name = NULL
    _close(r)


cdef int reader_next(Reader* r, Record* record, Fault* fault, bint is_held) noexcept nogil:
    cdef int rc
    cdef int64_t need = 0
    while r.name != NULL:
        record.index = r.number
        record.checked = True
        if r.framing == FRAME_FIXED:
            rc = _frame_fixed(r, record, &need, fault)
        elif r.framing == FRAME_LINES:
            rc = _frame_line(r, record, &need, fault)
        elif r.framing == FRAME_TFRECORD:
            rc = _frame_tfrecord(r, record, &need, fault)
        elif r.framing == FRAME_WHOLE:
            rc = _frame_whole(r, record, &need, fault)
        else:
            record.data = block_bytes(r.name)
            record.nbytes = r.name_bytes
            record.number = -1
            rc = FIND_OK
        if rc == FIND_OK:
            record.block = r.block if framing_reads(r.framing) else r.name
            record.block.refs.fetch_add(1, kRelaxed)  # relaxed: this thread holds one already
            record.name = r.name
            record.name.refs.fetch_add(1, kRelaxed)  # relaxed: as above
            record.name_bytes = r.name_bytes
            record.offset = -1
            if r.framing == FRAME_TFRECORD:
                record.offset = record.number
            elif framing_reads(r.framing):
                record.offset = r.offset + (record.data - block_bytes(r.block))
            # relaxed: a statistic; exact here, since only the holder of the role adds to it
            record.sequence = r.produced.fetch_add(1, kRelaxed)
            if framing_lone(r.framing):
                _complete(r)
            return READER_RECORD
        if rc == FIND_MORE and is_held:
            return READER_DRY
        if rc == FIND_END:
            _complete(r)
        elif rc == FIND_FAULT or not _refill(r, need, fault):
            if rc == FIND_MORE and fault.code == CODE_AGAIN:
                return READER_AGAIN
            fault.stage = STAGE_READ
            fault.record = r.number
            # The caller reports the error, and needs the name.
            record.name = r.name
            record.name.refs.fetch_add(1, kRelaxed)  # relaxed: as above
            record.name_bytes = r.name_bytes
            record.offset = r.offset + r.at
            record.nbytes = -1
            # A bad length hides where the next record begins. A file that just ends too early has no next record.
            if r.resync and rc == FIND_FAULT and (fault.code == CODE_CHECKSUM or fault.code == CODE_TOO_LARGE):
                r.searching = True
                r.at += 1
                r.number += 1
                return READER_DAMAGED
            if not (r.encoding or (<ByteStream*>r.stream).special) and (<ByteStream*>r.stream).size >= record.offset:
                record.nbytes = (<ByteStream*>r.stream).size - record.offset
            _close(r)
            return READER_FAULT
    return READER_WORK


cdef bint reader_open(Reader* r, const unsigned char* name, int64_t nbytes, Fault* fault) noexcept nogil:
    cdef Block* block = _block_new(nbytes + 1)
    cdef ByteStream* stream = <ByteStream*>r.stream
    cdef bint opened
    fault_begin(fault, OK, 0, STAGE_OPEN)
    if block == NULL:
        fault.code = CODE_EXHAUSTED
        fault.what = WHAT_MEMORY
        fault.a = nbytes + 1
        return False
    memcpy(block_bytes(block), name, nbytes)
    block_bytes(block)[nbytes] = 0
    if framing_reads(r.framing):
        if nbytes == 0 or memchr(name, 0, nbytes) != NULL:
            fault.code = CODE_INVALID_ARGUMENT
            fault.what = WHAT_NAME
            _block_drop(r, block)
            return False
        if r.special:
            opened = stream_open_any(stream, <const char*>block_bytes(block), r.store, r.encoding, fault)
        else:
            opened = stream_open(stream, <const char*>block_bytes(block), r.store, r.encoding, fault)
        if not opened:
            if fault.what == WHAT_SPECIAL:
                fault.what = WHAT_SPECIAL_READER
            _block_drop(r, block)
            return False
        stream.retries = r.retries
        stream.slices = 1
    r.name = block
    r.name_bytes = nbytes
    r.at = r.filled = r.offset = r.scanned = r.number = 0
    r.skip = r.header_bytes if r.framing == FRAME_FIXED else 0
    r.ended = r.searching = False
    r.failed.code = 0
    return True


cdef bint reader_enter(Reader* r, int64_t until) noexcept nogil:
    cdef uint32_t nobody, epoch
    cdef int rc = 0, spins = 0
    while True:
        nobody = 0
        # K1 acquire: pairs with K2; sees the state that the last holder left. Relaxed on failure: nothing is read.
        if r.busy.compare_exchange_strong(nobody, 1, kAcquire, kRelaxed):
            return True
        if rc == ETIMEDOUT or rc == EINTR:
            return False
        # To frame a record takes a tenth of the time of a sleep and a wake, so spin first.
        while spins < SPINS and r.busy.load(kRelaxed) != 0:  # relaxed: a hint, the CAS decides
            spins += 1
            cpu_pause()
        if spins < SPINS:
            continue
        epoch = event_prepare(&r.left)
        if r.busy.load(kAcquire) == 0:  # acquire: looked at again after prepare; the CAS decides
            event_cancel(&r.left, epoch)
            continue
        begin_wait(ON_INPUT)
        rc = event_wait(&r.left, epoch, until)
        end_wait()


cdef void reader_leave(Reader* r) noexcept nogil:
    r.owner.store(0, kRelaxed)  # relaxed: a thread that finds its own number there has written it itself
    r.busy.store(0, kRelease)  # K2 release: pairs with K1
    event_notify(&r.left, 1)


cdef bint record_check(const Record* record, Fault* fault) noexcept nogil:
    if record.checked or tfrecord_check(record.data, record.nbytes):
        return True
    tfrecord_damaged(record.number, record.index, fault)
    return False


cdef void record_drop(Reader* r, Record* record) noexcept nogil:
    _block_drop(r, record.block)
    _block_drop(r, record.name)
    record.block = record.name = NULL


cdef int64_t record_key(const Record* record, unsigned char* into) noexcept nogil:
    cdef char digits[24]
    cdef int n
    memcpy(into, block_bytes(record.name), record.name_bytes)
    if record.number < 0:
        return record.name_bytes
    n = snprintf(digits, sizeof(digits), ":%lld", <long long>record.number)
    memcpy(into + record.name_bytes, digits, n)
    return record.name_bytes + n


# Keys and values, one after the other.

cdef bint _append(const Record* record, Growing* keys, Growing* key_ends, Growing* values,
                  Growing* ends) noexcept nogil:
    if not (grow(keys, record_key_room(record)) and grow(values, record.nbytes) and grow(key_ends, 8)
            and grow(ends, 8)):
        return False
    keys.nbytes += record_key(record, keys.data + keys.nbytes)
    if record.nbytes > 0:
        memcpy(values.data + values.nbytes, record.data, record.nbytes)
    values.nbytes += record.nbytes
    memcpy(key_ends.data + key_ends.nbytes, &keys.nbytes, 8)
    memcpy(ends.data + ends.nbytes, &values.nbytes, 8)
    key_ends.nbytes += 8
    ends.nbytes += 8
    return True


cdef object _bytes_of(const Growing* g):
    cdef unsigned char[::1] view
    array = np.empty(g.nbytes, np.uint8)
    if g.nbytes:
        view = array
        memcpy(&view[0], g.data, g.nbytes)
    return array


cdef object _ends_of(const Growing* g):
    # Returns the ends as splits, which begin with 0.
    cdef int64_t[::1] view
    array = np.zeros(g.nbytes // 8 + 1, np.int64)
    view = array
    if g.nbytes:
        memcpy(&view[1], g.data, g.nbytes)
    return array


# The framings of readers, for Python.
WHOLE, IDENTITY, LINES, FIXED, TFRECORD = FRAME_WHOLE, FRAME_IDENTITY, FRAME_LINES, FRAME_FIXED, FRAME_TFRECORD


@cython.final
cdef class Framing:
    """The rule by which a reader finds records in a file's bytes.

    Parameters
    ----------
    kind : int
        `WHOLE`, `IDENTITY` (the names themselves; no file is opened), `LINES`, `FIXED` or `TFRECORD`.
    record_bytes, header_bytes, footer_bytes, hop_bytes : int
        Sizes of `FIXED`. For `LINES`, `header_bytes` is the number of lines to leave out at the top of each file.
    """

    def __init__(self, int kind, int64_t record_bytes=0, int64_t header_bytes=0, int64_t footer_bytes=0,
                 int64_t hop_bytes=0):
        self.kind = kind
        self.record_bytes = record_bytes
        self.header_bytes = header_bytes
        self.footer_bytes = footer_bytes
        self.hop_bytes = hop_bytes


@cython.final
cdef class NativeReader:
    """Records of one file after the other: the native part of the classes of :mod:`queuecore.readers`.

    Parameters
    ----------
    framing : Framing
    encoding : int
        Compression of the files: a number of `queuecore._io.compression`.
    resync : bool
        For `TFRECORD`: search for the next record after a damaged length.
    max_record_bytes : int
        Limit of a record of `WHOLE`, `LINES` and `TFRECORD`, in bytes.
    retries : int
        Number of further tries of a read that fails with EIO.
    allow_special : bool
        Also read pipes and devices.
    store : object with a ``number``, optional
        By what URLs are opened.
    """

    def __cinit__(self, *_, **__):
        self.generation = fork_generation()
        self.r = <Reader*>alloc_lines(sizeof(Reader))
        if self.r == NULL:
            raise MemoryError
        self.r.left.light = light_notify()
        self.stream.fd = -1
        self.r.stream = &self.stream

    def __init__(self, Framing framing not None, int encoding=0, bint resync=False,
                 int64_t max_record_bytes=<int64_t>1 << 62, int32_t retries=0, bint allow_special=False,
                 store=None):
        self.r.encoding = encoding
        self.r.resync = resync
        self.r.framing = framing.kind
        self.r.record_bytes = framing.record_bytes
        self.r.header_bytes = framing.header_bytes
        self.r.footer_bytes = framing.footer_bytes
        self.r.hop_bytes = framing.hop_bytes
        self.r.max_record_bytes = max_record_bytes
        self.r.retries = retries
        self.r.special = allow_special
        self.r.store = 0 if store is None else store.number
        self.store = store

    def __dealloc__(self):
        # No thread reads, since a thread that reads holds a reference.
        cdef int i
        if self.r == NULL:
            return
        _close(self.r)
        _block_drop(self.r, self.r.last)
        _block_drop(self.r, self.r.block)
        for i in range(SPARE_BLOCKS):
            free(self.r.spare[i].load(kRelaxed))  # relaxed: the last reference orders it
        free(self.r)

    cdef int _refuse(self) except -1:
        if self.generation != fork_generation():
            raise_error(CODE_FORKED, "this reader was made before os.fork(): another thread may have been inside it. "
                                              "Make one in the child")
        return 0

    cdef object _error(self, const Fault* fault, object path):
        return fault_error(fault, path, None, self.r.store)

    cdef int _lose(self, int64_t count, error) except -1:
        # The next call says what one that was cut short had read.
        self.failure = new_error(CODE_DATA_LOSS, f"the call before was cut short (see __cause__), and {count} records "
                                                 "that it had read are lost")
        self.failure.__cause__ = error
        return 0

    cdef int _enter(self) except -1:
        cdef bint mine = False, waits = False
        cdef int64_t until
        self._refuse()
        if self.r.owner.load(kRelaxed) == <uint64_t>PyThread_get_thread_ident():  # relaxed: as in reader_leave
            raise_error(CODE_PRECONDITION, "a reader's work reads from that reader itself")
        while not mine:
            until = monotonic_ns() + SLICE_NS
            with nogil:
                mine = reader_enter(self.r, until)
            if not mine:
                PyErr_CheckSignals()
                if not waits:
                    waited()
                    waits = True
                still_waiting()
        self.r.owner.store(<uint64_t>PyThread_get_thread_ident(), kRelaxed)  # relaxed: as in reader_leave
        return 0

    cdef int _first(self, Record* record, object next_name) except -1:
        # Gets the next record, from the next work unit if need be. The caller has the role.
        cdef Fault fault
        cdef int rc
        cdef bint opened
        cdef bytes name
        cdef const char* text
        cdef int64_t nbytes
        if self.failure is not None:
            error, self.failure = self.failure, None
            raise error
        while True:
            with nogil:
                rc = reader_next(self.r, record, &fault, False)
            if rc == READER_RECORD:
                return 0
            if rc == READER_FAULT or rc == READER_DAMAGED:
                raise self._error(&fault, (<const char*>block_bytes(record.name))[:record.name_bytes])
            if rc == READER_AGAIN:
                PyErr_CheckSignals()
                wait_out_exit()
                continue
            name = next_name()
            text = name
            nbytes = len(name)
            with nogil:
                opened = reader_open(self.r, <const unsigned char*>text, nbytes, &fault)
            if not opened:
                raise self._error(&fault, name)

    def read(self, next_name):
        """Return the next record as (key, value).

        ``next_name()`` returns the name of the next work unit, as bytes, or raises.
        """
        cdef Record record
        cdef Fault fault
        cdef bint sound
        cdef bytes key
        memset(&record, 0, sizeof(Record))
        self._enter()
        try:
            self._first(&record, next_name)
        except BaseException:
            record_drop(self.r, &record)
            raise
        finally:
            with nogil:
                reader_leave(self.r)
        with nogil:
            sound = record_check(&record, &fault)
        if not sound:
            path = (<const char*>block_bytes(record.name))[:record.name_bytes]
            record_drop(self.r, &record)
            raise self._error(&fault, path)
        try:
            key = bytes(record_key_room(&record))
            key = key[:record_key(&record, <unsigned char*><char*>key)]
            value = (<const char*>record.data)[:record.nbytes]
            return key, value
        except BaseException as error:
            self._lose(1, error)
            raise
        finally:
            record_drop(self.r, &record)

    def read_up_to(self, next_name, int64_t n):
        """Return the next records of one work unit, at most n: the bytes of all keys, their splits, and the same of the
        values."""
        cdef Record record
        cdef Fault fault
        cdef Growing keys, key_ends, values, ends
        cdef int64_t count = 0
        cdef int rc = READER_RECORD
        cdef bint well = True, sound = True
        memset(&record, 0, sizeof(Record))
        memset(&keys, 0, sizeof(Growing))
        memset(&key_ends, 0, sizeof(Growing))
        memset(&values, 0, sizeof(Growing))
        memset(&ends, 0, sizeof(Growing))
        self._enter()
        try:
            self._first(&record, next_name)
            with nogil:
                while True:
                    sound = record_check(&record, &fault)
                    if not sound:
                        break
                    well = _append(&record, &keys, &key_ends, &values, &ends)
                    record_drop(self.r, &record)
                    count += 1
                    if not well or count == n:
                        break
                    rc = reader_next(self.r, &record, &fault, False)
                    if rc != READER_RECORD:
                        break
            if not well:
                raise MemoryError
            if not sound or rc == READER_FAULT or rc == READER_DAMAGED:
                error = self._error(&fault, (<const char*>block_bytes(record.name))[:record.name_bytes])
                if count == 0:
                    raise error
                self.failure = error  # the next call raises it: the records before it are returned first
            return _bytes_of(&keys), _ends_of(&key_ends), _bytes_of(&values), _ends_of(&ends)
        except BaseException as error:
            if count > 0:
                self._lose(count, error)
            raise
        finally:
            record_drop(self.r, &record)
            with nogil:
                reader_leave(self.r)
            growing_free(&keys)
            growing_free(&key_ends)
            growing_free(&values)
            growing_free(&ends)

    def state(self):
        """Return the number of units done, the number of records, and the name of the last unit done."""
        self._enter()
        try:
            last = b"" if self.r.last == NULL else (<const char*>block_bytes(self.r.last))[:self.r.last_bytes]
            return self.r.completed.load(kRelaxed), self.produced, last  # relaxed: as below
        finally:
            reader_leave(self.r)

    def reset(self, int64_t completed=0, int64_t produced=0, bytes last=b""):
        """Forget the work unit in progress, and count from these numbers on."""
        cdef Block* block = _block_new(len(last) + 1)
        if block == NULL:
            raise MemoryError
        cdef int64_t nbytes = len(last)
        memcpy(block_bytes(block), <const char*>last, nbytes)
        try:
            self._enter()
        except BaseException:
            _block_drop(self.r, block)
            raise
        self.failure = None
        with nogil:
            _close(self.r)
            _block_drop(self.r, self.r.last)
            self.r.last = block
            self.r.last_bytes = nbytes
            # relaxed: statistics
            self.r.produced.store(produced, kRelaxed)
            self.r.completed.store(completed, kRelaxed)
            self.r.dropped_tails.store(0, kRelaxed)
            reader_leave(self.r)

    @property
    def produced(self):
        """Records so far."""
        return self.r.produced.load(kRelaxed)  # relaxed: a statistic, as below

    @property
    def completed(self):
        """Work units that are done."""
        return self.r.completed.load(kRelaxed)

    @property
    def dropped_tails(self):
        """Partial records at the end of files."""
        return self.r.dropped_tails.load(kRelaxed)
