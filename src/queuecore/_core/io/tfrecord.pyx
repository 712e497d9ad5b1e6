"""TFRecord framing, and checks of whole files. See tfrecord.pxd for the contract."""
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport (
    CODE_CHECKSUM, CODE_TOO_LARGE, CODE_TRUNCATED, WHAT_RECORD_CUT, WHAT_RECORD_CUT_HEADER,
    WHAT_TFRECORD_DATA, WHAT_TFRECORD_LENGTH, WHAT_RECORD_TOO_LARGE, fault_error)
from queuecore._core.io.codecs cimport ENCODING_NONE
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.io.streams cimport ByteStream, stream_close, stream_open, stream_read
from queuecore._core.io.walk cimport (
    WALK_END, WALK_FAULT, WALK_FULL, WALK_MORE, RecordWalk, WalkKind, walk_fault, walk_left)

cdef extern from "queuecore/kernels/crc32c.hpp" namespace "queuecore" nogil:
    ctypedef uint32_t (*Crc32cFn)(uint32_t, const unsigned char*, size_t) noexcept
    Crc32cFn crc32c_best() noexcept

check_layout(layout_hash())

cdef enum:
    MASK = 0xA282EAD8u
    FOUND_MOST = 256  # limit of the records that one walk of a Scan finds

# Written once, at import.
cdef Crc32cFn _crc = crc32c_best()

MAX_RECORD_BYTES = TFRECORD_MOST_BYTES


cdef uint32_t crc32c(uint32_t crc, const unsigned char* p, size_t n) noexcept nogil:
    return _crc(crc, p, n)


cdef inline uint32_t _masked(const unsigned char* p, size_t n) noexcept nogil:
    # Rotates and shifts the checksum, so that checksums of bytes that contain checksums aren't special.
    cdef uint32_t crc = _crc(0, p, n)
    return ((crc >> 15) | (crc << 17)) + <uint32_t>MASK


cdef inline uint32_t _load4(const unsigned char* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return v


cdef inline uint64_t _load8(const unsigned char* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return v


cdef inline uint64_t _limit(int64_t max_record_bytes) noexcept nogil:
    # Limits lengths so that a length with its frame, and a position in the stream, fit an int64.
    return <uint64_t>max_record_bytes if max_record_bytes < INT64_MAX // 4 else <uint64_t>(INT64_MAX // 4)


cdef int tfrecord_walk(RecordWalk* w, const unsigned char* data, int64_t n, bint last, int64_t* starts,
                       int64_t max_records, int64_t* records, Fault* fault) noexcept nogil:
    cdef uint64_t limit = _limit(w.max_record_bytes)
    cdef uint64_t length
    cdef int64_t position = 0, count = 0, left, frame_bytes
    cdef int rc
    while True:
        starts[count] = position
        left = walk_left(w, n - position, last)
        if left == 0:
            rc = WALK_END
            break
        if count == max_records:
            rc = WALK_FULL
            break
        if 0 <= left < TFRECORD_HEADER:
            walk_fault(w, CODE_TRUNCATED, WHAT_RECORD_CUT_HEADER, left, TFRECORD_HEADER, fault)
            rc = WALK_FAULT
            break
        if n - position < TFRECORD_HEADER:
            w.need = TFRECORD_HEADER
            rc = WALK_MORE
            break
        length = _load8(data + position)
        if w.check and _masked(data + position, 8) != _load4(data + position + 8):
            walk_fault(w, CODE_CHECKSUM, WHAT_TFRECORD_LENGTH, 0, 0, fault)
            rc = WALK_FAULT
            break
        if length > limit:
            walk_fault(w, CODE_TOO_LARGE, WHAT_RECORD_TOO_LARGE, <int64_t>length, <int64_t>limit, fault)
            rc = WALK_FAULT
            break
        frame_bytes = <int64_t>length + TFRECORD_FRAME
        if 0 <= left < frame_bytes:
            walk_fault(w, CODE_TRUNCATED, WHAT_RECORD_CUT, left, frame_bytes, fault)
            rc = WALK_FAULT
            break
        if n - position < frame_bytes:
            w.need = frame_bytes
            rc = WALK_MORE
            break
        position += frame_bytes
        count += 1
        w.offset += frame_bytes
        w.record += 1
    records[0] = count
    return rc


cdef bint tfrecord_check(const unsigned char* data, int64_t data_bytes) noexcept nogil:
    return _masked(data, data_bytes) == _load4(data + data_bytes)


cdef void tfrecord_damaged(int64_t offset, int64_t record, Fault* fault) noexcept nogil:
    cdef RecordWalk w
    w.offset = offset
    w.record = record
    walk_fault(&w, CODE_CHECKSUM, WHAT_TFRECORD_DATA, 0, 0, fault)


cdef WalkKind TFRECORDS = WalkKind(
    header_bytes=TFRECORD_HEADER, frame_bytes=TFRECORD_FRAME, least_bytes=TFRECORD_FRAME, walk=tfrecord_walk,
    check=tfrecord_check, damaged=tfrecord_damaged)


cdef const WalkKind* tfrecord_kind() noexcept nogil:
    return &TFRECORDS


cdef bint tfrecord_resync(const unsigned char* data, int64_t n, int64_t left, int64_t max_record_bytes,
                          int64_t* position) noexcept nogil:
    cdef uint64_t limit = _limit(max_record_bytes)
    cdef int64_t i = 0
    if left >= 0 and <uint64_t>left < limit:
        limit = <uint64_t>left  # not exact: it ignores the frame and the bytes before i, which the test below counts
    while i <= n - TFRECORD_HEADER:
        # Few positions hold a possible length, so few pay for a checksum.
        if _load8(data + i) <= limit and _masked(data + i, 8) == _load4(data + i + 8) and (
                left < 0 or <int64_t>_load8(data + i) <= left - i - TFRECORD_FRAME):
            position[0] = i
            return True
        i += 1
    position[0] = i
    return False


cdef void tfrecord_frame(const unsigned char* data, int64_t data_bytes, unsigned char* header,
                         unsigned char* footer) noexcept nogil:
    cdef uint64_t length = <uint64_t>data_bytes
    cdef uint32_t crc
    memcpy(header, &length, 8)
    crc = _masked(header, 8)
    memcpy(header + 8, &crc, 4)
    crc = _masked(data, data_bytes)
    memcpy(footer, &crc, 4)


def frame(const unsigned char[::1] record):
    """Return the 12 bytes that stand before a record in a file, and the 4 bytes after it."""
    cdef unsigned char ends[TFRECORD_FRAME]
    cdef int64_t n = record.shape[0]
    cdef const unsigned char* data = &record[0] if n else NULL
    with nogil:
        tfrecord_frame(data, n, ends, ends + TFRECORD_HEADER)
    return (<const char*>ends)[:TFRECORD_HEADER], (<const char*>ends)[TFRECORD_HEADER:TFRECORD_FRAME]


@cython.final
cdef class FileBytes:
    """The bytes of one regular file, decompressed, in order, read without the GIL. Belongs to one thread at a time.

    Parameters
    ----------
    path : bytes
        Its name, without a zero byte.
    encoding : int
        Number of its compression, as `queuecore._io.compression.encoding_number` returns it.
    """

    cdef ByteStream stream
    cdef bytes path

    def __cinit__(self):
        self.stream.fd = -1

    def __init__(self, bytes path, int encoding=ENCODING_NONE):
        cdef Fault fault
        cdef const char* name = path
        cdef bint opened
        stream_close(&self.stream)
        self.path = path
        with nogil:
            opened = stream_open(&self.stream, name, 0, encoding, &fault)
        if not opened:
            raise fault_error(&fault, path)

    def __dealloc__(self):
        stream_close(&self.stream)

    @property
    def size(self):
        """The number of bytes that the file had when it was opened; -1 for a compressed file."""
        return self.stream.size if self.stream.encoding == ENCODING_NONE else -1

    def readinto(self, unsigned char[::1] into):
        """Fill a buffer, and return the number of bytes: fewer than the buffer holds only at the end of the file.

        Good bytes before an error are returned first; the next call raises the error.
        """
        cdef Fault fault
        cdef int64_t read_bytes = 0, n = into.shape[0]
        cdef unsigned char* p = &into[0] if n else NULL
        cdef bint read
        with nogil:
            read = stream_read(&self.stream, p, n, &read_bytes, &fault)
        if not read and read_bytes == 0:
            raise fault_error(&fault, self.path)
        return read_bytes

    def close(self):
        """Close the file. Twice is no error."""
        stream_close(&self.stream)


@cython.final
cdef class RecordScan:
    """A check of every record of one file, also of those after a damaged one. Belongs to one thread at a time.

    Parameters
    ----------
    source : object with ``readinto(buffer)``
        The bytes of the file, decompressed: each call fills the start of a buffer and returns their number; 0 at the
        end.
    path : bytes
        The name of the file, for errors.
    total_bytes : int
        Number of bytes of `source`, or -1 where only its end can tell.
    max_record_bytes : int
        Limit of a record's data in bytes. Memory stays below the sum of this and `block_bytes`.
    block_bytes : int
        Bytes that are read at once.
    index : list, optional
        Gets a tuple for each good record: its offset, and its length with its frame.
    """

    cdef RecordWalk walk
    cdef list index
    cdef object source
    cdef bytes path
    cdef bytearray buffer
    cdef int64_t have, used    # bytes in the buffer, and those of them that the walk is past
    cdef bint ended            # the source has no more
    cdef int rc
    cdef int64_t starts[FOUND_MOST + 1]  # in the buffer, from `base` on
    cdef int64_t base, found, checked
    cdef Fault fault           # with rc == WALK_FAULT, after the records that were found
    cdef readonly int64_t records    # whole and undamaged
    cdef readonly int64_t nbytes     # of their data

    def __init__(self, object source, bytes path, int64_t total_bytes=-1, int64_t max_record_bytes=TFRECORD_MOST_BYTES,
                 int64_t block_bytes=1 << 20, list index=None):
        self.index = index
        memset(&self.walk, 0, sizeof(RecordWalk))
        self.walk.total_bytes = total_bytes
        self.walk.max_record_bytes = max_record_bytes
        self.walk.check = True
        self.walk.need = 1
        self.source = source
        self.path = path
        self.buffer = bytearray(max(block_bytes, TFRECORD_HEADER))
        self.have = self.used = self.base = self.found = self.checked = self.records = self.nbytes = 0
        self.ended = False
        self.rc = WALK_MORE

    @property
    def offset(self):
        """The place of the walk, in bytes of the stream."""
        return self.walk.offset

    def next_fault(self):
        """Go on to the next damaged record.

        Returns
        -------
        tuple or None
            The error, and the offset of the record that the next call goes on with (None if there is no such record).
            None instead of a tuple at the end of the file.
        """
        cdef int64_t record, offset, i
        cdef unsigned char* p
        cdef Fault damage
        while True:
            if self.checked < self.found:
                p = <unsigned char*>PyByteArray_AS_STRING(self.buffer) + self.base
                record = self.checked
                with nogil:
                    i = self._check(p)
                if self.index is not None:
                    offset = self.walk.offset - self.starts[self.found]
                    for record in range(record, self.found if i < 0 else i):
                        self.index.append((offset + self.starts[record], self.starts[record + 1] - self.starts[record]))
                if i >= 0:
                    record = self.walk.record - self.found + i
                    offset = self.walk.offset - (self.starts[self.found] - self.starts[i])
                    tfrecord_damaged(offset, record, &damage)
                    return fault_error(&damage, self.path), offset + self.starts[i + 1] - self.starts[i]
            if self.rc == WALK_END:
                return None
            if self.rc == WALK_FAULT:
                error = fault_error(&self.fault, self.path)
                if self.fault.code == CODE_TRUNCATED:
                    self.rc = WALK_END
                    return error, None
                return error, self._resync()
            if self.rc == WALK_MORE:
                self._fill(self.walk.need)
            self.base = self.used
            p = <unsigned char*>PyByteArray_AS_STRING(self.buffer) + self.base
            with nogil:
                self.rc = tfrecord_walk(&self.walk, p, self.have - self.base, self.ended, self.starts, FOUND_MOST,
                                        &self.found, &self.fault)
            self.used += self.starts[self.found]
            self.checked = 0

    cdef int64_t _check(self, const unsigned char* p) noexcept nogil:
        # Returns the next of the found records whose data is damaged; -1: none. p: the byte that `starts` counts from.
        cdef int64_t i, n
        while self.checked < self.found:
            i = self.checked
            self.checked += 1
            n = self.starts[i + 1] - self.starts[i] - TFRECORD_FRAME
            if not tfrecord_check(p + self.starts[i] + TFRECORD_HEADER, n):
                return i
            self.records += 1
            self.nbytes += n
        return -1

    cdef int _fill(self, int64_t need) except -1:
        # Reads on until the buffer has `need` bytes from `used` on, or the source is at its end.
        cdef unsigned char* p = <unsigned char*>PyByteArray_AS_STRING(self.buffer)
        cdef int64_t read_bytes = 0, room
        if self.have - self.used >= need:  # enough bytes are there, so none are moved
            return 0
        memmove(p, p + self.used, self.have - self.used)
        self.have -= self.used
        self.used = 0
        while self.have < need and not self.ended:
            room = len(self.buffer)
            if self.have == room:
                # The buffer only doubles: a damaged length must not take memory for bytes that never come.
                PyByteArray_Resize(self.buffer, min(need, 2 * room))
            PyErr_CheckSignals()  # nothing else here lets Python handle Ctrl-C, however large the file is
            with memoryview(self.buffer) as whole, whole[self.have:] as rest:
                read_bytes = self.source.readinto(rest)
            self.have += read_bytes
            self.ended = read_bytes == 0
        return 0

    cdef object _resync(self):
        # Goes on after a damaged header: to the next valid one, whose offset is returned, or to the end.
        cdef int64_t position = 1, left = -1, n
        cdef const unsigned char* p
        cdef bint is_here = False
        while True:
            # At first, `position` steps over the damaged record's first byte; later, to where the search has come.
            self.walk.offset += position
            self.used += position
            self._fill(TFRECORD_HEADER)
            n = self.have - self.used
            if n < TFRECORD_HEADER:
                break
            if self.ended:
                left = n
            elif self.walk.total_bytes >= 0:
                left = self.walk.total_bytes - self.walk.offset
            p = <const unsigned char*>PyByteArray_AS_STRING(self.buffer) + self.used
            with nogil:
                is_here = tfrecord_resync(p, n, left, self.walk.max_record_bytes, &position)
            if is_here:
                break
        self.walk.record += 1
        self.found = self.checked = 0
        if not is_here:
            self.walk.offset += self.have - self.used
            self.rc = WALK_END
            return None
        self.walk.offset += position
        self.used += position
        self.rc = WALK_FULL
        return self.walk.offset
