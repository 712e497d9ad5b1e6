"""Files as streams of bytes. See streams.pxd for the contract."""
from libc.errno cimport EAGAIN, EINTR, EIO, ESTALE, ETIMEDOUT, errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.memory cimport free, strdup
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout
from queuecore._core.atoms.errors cimport (
    CODE_AGAIN, CODE_DECOMPRESS, CODE_EXHAUSTED, CODE_SOURCE_CHANGED, CODE_UNIMPLEMENTED, STAGE_OPEN, STAGE_READ,
    WHAT_CUT, WHAT_INFLATE_MEMORY, WHAT_NO_LIBRARY, WHAT_READ, WHAT_REPLACED, WHAT_SHORTENED, WHAT_STAT, fault_begin)
from queuecore._core.io.codecs cimport ENCODING_NONE, INFLATER_BYTES
from queuecore._core.io.inflate cimport INFLATE_ROOM, inflater_begin, inflater_end, inflater_run
from queuecore._core.atoms.platform cimport Fault, FileStat, iovec, is_regular, layout_hash, syscalls
from queuecore._core.atoms.runtime cimport stop_requested
from queuecore._core.io.remote cimport file_close, file_forget, file_read, file_stat
from queuecore._core.io.sources cimport backoff, changed_fault, changed_since, is_empty, open_any, open_regular, os_code

check_layout(layout_hash())

cdef enum:
    RAW_BYTES = 96 << 10         # bytes of a compressed file read at a time
    MEMORY_BYTES = INFLATER_BYTES + RAW_BYTES + INFLATE_ROOM
    AHEAD = INFLATER_BYTES + RAW_BYTES
    PATIENCE = 1000              # tries of a read that says "later"
    SLICE_MS = 50


cdef void _fault(Fault* fault, int32_t code, int32_t what, int32_t stage, int64_t offset) noexcept nogil:
    fault_begin(fault, code, what, stage)
    fault.offset = offset


cdef bint stream_open(ByteStream* s, const char* name, int32_t store, int32_t encoding, Fault* fault) noexcept nogil:
    cdef FileStat st
    memset(s, 0, sizeof(ByteStream))
    s.store = store
    s.fd = open_regular(name, store, &st, fault)
    return s.fd >= 0 and _begin(s, name, encoding, &st, fault)


cdef bint stream_open_any(ByteStream* s, const char* name, int32_t store, int32_t encoding,
                          Fault* fault) noexcept nogil:
    cdef FileStat st
    memset(s, 0, sizeof(ByteStream))
    s.store = store
    s.fd = open_any(name, store, &st, fault)
    return s.fd >= 0 and _begin(s, name, encoding, &st, fault)


cdef bint _begin(ByteStream* s, const char* name, int32_t encoding, const FileStat* st, Fault* fault) noexcept nogil:
    cdef int reason = 0
    s.encoding = encoding
    s.quiet = not is_regular(st.mode)
    s.special = s.quiet or (st.size == 0 and not is_empty(s.fd, 0, NULL, fault))
    s.size = INT64_MAX if s.special else st.size
    s.mtime_ns = st.mtime_ns
    s.dev = st.dev
    s.ino = st.ino
    s.name = strdup(name)
    if s.name == NULL:
        reason = WHAT_INFLATE_MEMORY
    elif encoding != ENCODING_NONE:
        s.starved = 1
        s.memory = <unsigned char*>buffer_take(MEMORY_BYTES)
        reason = WHAT_INFLATE_MEMORY if s.memory == NULL else inflater_begin(&s.inflater, encoding, s.memory)
    if reason != 0:
        stream_close(s)
        _fault(fault, CODE_UNIMPLEMENTED if reason == WHAT_NO_LIBRARY else CODE_EXHAUSTED, reason, STAGE_OPEN, -1)
        fault.a = encoding
        return False
    return True


cdef bint _failed(ByteStream* s, int err, Fault* fault) noexcept nogil:
    s.tries = 0
    _fault(fault, os_code(err), WHAT_READ, STAGE_READ, s.place)
    fault.err = err
    return False


cdef bint _again(ByteStream* s, Fault* fault) noexcept nogil:
    _fault(fault, CODE_AGAIN, WHAT_READ, STAGE_READ, s.place)
    return False


cdef bint _listen(ByteStream* s, Fault* fault) noexcept nogil:
    # Waits until a pipe or device has bytes, or an end. A pipe without its first writer has neither, but reads as if it
    # were at its end.
    cdef int rc
    while True:
        rc = syscalls().poll(s.fd, SLICE_MS)
        if rc > 0:
            break
        if rc < 0 and errno != EINTR and errno != EAGAIN:
            return _failed(s, errno, fault)
        if s.stop != NULL and stop_requested(s.stop):
            return _failed(s, EINTR, fault)
        if s.slices:
            return _again(s, fault)
    s.quiet = 0
    return True


cdef bint _reopen(ByteStream* s, Fault* fault) noexcept nogil:
    # Network file systems lose track of an open file now and then: open it again by its name, if it is still the same.
    cdef FileStat st
    cdef int fd = open_regular(s.name, s.store, &st, fault)
    if fd < 0:
        return False
    if st.size != s.size or st.mtime_ns != s.mtime_ns or st.ino != s.ino or st.dev != s.dev:
        file_close(fd)
        _fault(fault, CODE_SOURCE_CHANGED, WHAT_REPLACED, STAGE_READ, s.place)
        return False
    file_close(s.fd)
    s.fd = fd
    return True


cdef bint _unchanged(ByteStream* s, Fault* fault) noexcept nogil:
    # Returns whether the bytes that were read are those that the file had when it was opened.
    cdef FileStat st
    if s.special:
        return True
    if file_stat(s.fd, &st) != 0:
        _fault(fault, os_code(errno), WHAT_STAT, STAGE_READ, s.place)
        fault.err = errno
        return False
    if not changed_since(&st, s.size, s.mtime_ns):
        return True
    changed_fault(&st, s.size, fault)
    fault.offset = s.place
    return False


cdef bint _read(ByteStream* s, unsigned char* into, int64_t n, int64_t* read_bytes, Fault* fault) noexcept nogil:
    # Reads bytes of the file itself, at s.place.
    cdef iovec iov
    cdef int64_t part
    cdef int patience = PATIENCE, err
    read_bytes[0] = 0
    if n > s.size - s.place:  # bytes appended meanwhile don't count
        n = s.size - s.place
    while read_bytes[0] < n:
        if s.quiet:
            if s.slices and read_bytes[0] > 0:
                return _again(s, fault)
            if not _listen(s, fault):
                return False
        iov.iov_base = into + read_bytes[0]
        iov.iov_len = n - read_bytes[0]
        part = file_read(s.fd, &iov, 1, -1 if s.special else s.place, 0)
        if part > 0:
            read_bytes[0] += part
            s.place += part
            s.tries = 0
            continue
        if part == 0 and s.special:
            s.size = s.place
            break
        if part == 0:
            _fault(fault, CODE_SOURCE_CHANGED, WHAT_SHORTENED, STAGE_READ, s.place)
            fault.a = s.size
            fault.b = s.place + <int64_t>iov.iov_len
            return False
        if s.special and (errno == EINTR or errno == EAGAIN):
            # also after a signal: _listen waits in slices, so that a device's read doesn't keep a thread from hearing
            # it
            s.quiet = 1
            continue
        if errno == EINTR:
            continue
        if errno == EAGAIN and patience > 0:  # a few network file systems say "later" for a regular file
            patience -= 1
            continue
        err = errno
        if err == EIO and s.tries < s.retries and backoff(s.tries, s.stop):
            s.tries += 1
            if s.slices:
                return _again(s, fault)
            continue
        _failed(s, err, fault)
        if (fault.err == ESTALE or fault.err == ETIMEDOUT) and not (s.reopened or s.special):
            s.reopened = 1
            if _reopen(s, fault):
                continue
        return False
    if s.drops and not s.special:
        file_forget(s.fd, s.place - read_bytes[0], read_bytes[0])
        if s.place == s.size:
            file_forget(s.fd, 0, 0)  # a page of up to some megabytes goes only as a whole
    if read_bytes[0] > 0 and s.place == s.size and not _unchanged(s, fault):
        s.place -= read_bytes[0]
        read_bytes[0] = 0
        return False
    return True


cdef bint _damaged(ByteStream* s, Fault* fault) noexcept nogil:
    if s.damage != WHAT_INFLATE_MEMORY and not _unchanged(s, fault):  # the change is the cause of the damage
        return False
    _fault(fault, CODE_EXHAUSTED if s.damage == WHAT_INFLATE_MEMORY else CODE_DECOMPRESS, s.damage, STAGE_READ,
           s.damage_place)
    fault.a = s.encoding
    fault.b = s.offset
    return False


cdef bint _read_decompressed(ByteStream* s, unsigned char* into, int64_t n, int64_t* read_bytes,
                             Fault* fault) noexcept nogil:
    cdef int64_t part, need
    cdef bint direct
    read_bytes[0] = 0
    while read_bytes[0] < n:
        if s.ahead < s.ahead_end:
            part = s.ahead_end - s.ahead
            if part > n - read_bytes[0]:
                part = n - read_bytes[0]
            memcpy(into + read_bytes[0], s.memory + s.ahead, part)
            s.ahead += part
            s.offset += part
            read_bytes[0] += part
            continue
        if s.damage != 0:
            return _damaged(s, fault)
        if s.ended:
            break
        if s.starved:
            if s.failed.code != 0:
                memcpy(fault, &s.failed, sizeof(Fault))
                s.failed.code = 0
                return False
            if s.place == s.size:
                s.ended = 1
                if s.inflater.inside:
                    s.damage = WHAT_CUT
                    s.damage_place = s.size
                continue
            s.raw = s.memory + INFLATER_BYTES
            if _read(s, s.memory + INFLATER_BYTES, RAW_BYTES, &s.raw_left, &s.failed):
                s.failed.code = 0  # a try that wasn't the last may have set it
            elif s.raw_left == 0:
                continue
        # A read too small for a call of the library gets its bytes from memory that stays in the cache.
        direct = n - read_bytes[0] >= INFLATE_ROOM
        need = n - read_bytes[0] if direct else INFLATE_ROOM
        s.damage = inflater_run(&s.inflater, &s.raw, &s.raw_left, into + read_bytes[0] if direct else s.memory + AHEAD,
                                need, &part)
        s.damage_place = s.inflater.place
        s.starved = s.damage == 0 and part < need
        if direct:
            s.offset += part
            read_bytes[0] += part
        else:
            s.ahead = AHEAD
            s.ahead_end = AHEAD + part
    return True


cdef bint stream_read(ByteStream* s, unsigned char* into, int64_t n, int64_t* got, Fault* fault) noexcept nogil:
    cdef bint good
    if s.encoding != ENCODING_NONE:
        return _read_decompressed(s, into, n, got, fault)
    good = _read(s, into, n, got, fault)
    s.offset = s.place
    return good


cdef void stream_close(ByteStream* s) noexcept nogil:
    if s.fd < 0:
        return
    file_close(s.fd)
    s.fd = -1
    inflater_end(&s.inflater)
    buffer_give(s.memory, MEMORY_BYTES)
    s.memory = NULL
    free(s.name)
    s.name = NULL
