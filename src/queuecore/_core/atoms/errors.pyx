"""Status numbers of the native core to exceptions of :mod:`queuecore.errors`; nothing else in the core makes those."""
import errno as _errno
import os
import resource

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.atoms.process cimport check_layout

from queuecore import errors as _errors
from queuecore._machine import thread_limits

check_layout(layout_hash())

_CLASSES = {
    CODE_INVALID_ARGUMENT: _errors.InvalidArgumentError,
    CODE_NOT_FOUND: _errors.NotFoundError,
    CODE_PERMISSION: _errors.PermissionDeniedError,
    CODE_UNAVAILABLE: _errors.UnavailableError,
    CODE_NOT_A_FILE: _errors.NotAFileError,
    CODE_TRUNCATED: _errors.TruncatedRecordError,
    CODE_SOURCE_CHANGED: _errors.SourceChangedError,
    CODE_EXHAUSTED: _errors.ResourceExhaustedError,
    CODE_INTERNAL: _errors.InternalError,
    CODE_RESUME: _errors.ResumeMismatchError,
    CODE_TOO_LARGE: _errors.RecordTooLargeError,
    CODE_DATA_LOSS: _errors.DataLossError,
    CODE_DEADLINE: _errors.DeadlineExceededError,
    CODE_CANCELLED: _errors.CancelledError,
    CODE_OUT_OF_RANGE: _errors.OutOfRangeError,
    CODE_PRECONDITION: _errors.FailedPreconditionError,
    CODE_FORKED: _errors.ForkedPipelineError,
    CODE_DEVICE: _errors.DeviceUnavailableError,
    CODE_SLOTS: _errors.SlotsExhaustedError,
    CODE_STALL: _errors.StallError,
    CODE_DECOMPRESS: _errors.DecompressError,
    CODE_UNIMPLEMENTED: _errors.UnimplementedError,
    CODE_DTYPE: _errors.DtypeError,
    CODE_PROTO: _errors.ProtoError,
    CODE_DECODE: _errors.DecodeError,
    CODE_CHECKSUM: _errors.ChecksumError,
    CODE_CSV: _errors.CsvError,
}

# By the numbers of codecs.pxd.
_ENCODINGS = ("plain", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2")

_TAR = {
    WHAT_TAR_HEADER: "has a damaged header. Is this an uncompressed tar archive?",
    WHAT_TAR_NUMBER: "has a file whose size is no number, or more than an archive can hold",
    WHAT_TAR_SPARSE: "has a sparse file, which is not read",
}

_STAGES = {STAGE_OPEN: "open", STAGE_READ: "read", STAGE_ORDER: "order", STAGE_RUNNER: "runner", STAGE_MAP: "map"}


def os_reason(int err):
    """The meaning of an errno; of those about open files, also the limit."""
    reason = os.strerror(err)
    if err in (_errno.EMFILE, _errno.ENFILE):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        reason += f" (this process may open {soft} files; raise the limit with `ulimit -n`)"
    return reason


cdef str _record(const Fault* f):
    return "" if f.record < 0 else f" (record {f.record})"


cdef str _framed_sentence(const Fault* f, str name):
    if f.what == WHAT_TFRECORD_LENGTH:
        hint = ". Is this an uncompressed TFRecord file?" if f.offset == 0 else ""
        return (f"{name} is damaged at byte {f.offset} (record {f.record}): the checksum of the record's length "
                f"doesn't match{hint}")
    if f.what == WHAT_TFRECORD_DATA:
        return (f"{name} is damaged in the record at byte {f.offset} (record {f.record}): the checksum of its data "
                "doesn't match")
    if f.what == WHAT_RECORD_CUT_HEADER:
        return (f"{name} ends inside record {f.record}, which starts at byte {f.offset}: {f.a} of the {f.b} bytes that "
                "tell its length are there")
    if f.what == WHAT_RECORD_CUT:
        return (f"{name} ends inside record {f.record}, which starts at byte {f.offset}: {f.a} of its {f.b} bytes are "
                "there")
    return (f"{name} has a record of {<uint64_t>f.a} bytes at byte {f.offset} (record {f.record}): the limit is "
            f"{f.b}. Raise max_record_bytes if records are as long as that, or else the file is damaged")


cdef str _padded_sentence(const Fault* f, str name):
    at = f", at byte {f.offset}" if f.offset >= 0 else ""
    where = f"record {f.record}{at} of {name}" if name else f"element {f.record}"
    return (f"padded_batch: component {f.b >> 44 & 0xFFFFF} is {f.a} long in dimension {f.b >> 38 & 63}, more than the "
            f"{f.b & 0x3FFFFFFFFF} that padded_shapes has for it ({where})")


cdef str _sentence(const Fault* f, str name, str heading, str reason):
    if f.what == WHAT_OPEN:
        return f"cannot open {name}: {reason}"
    if f.what == WHAT_STAT:
        return f"cannot get the size of {name}: {reason}"
    if f.what == WHAT_READ:
        return f"cannot read {name} at byte {f.offset}{_record(f)}: {reason}"
    if f.what == WHAT_DIRECTORY:
        return f"{name} is a directory, not a file of records"
    if f.what == WHAT_SPECIAL:
        return f"{name} is not a regular file (a pipe, socket or device), so its records have no fixed place"
    if f.what == WHAT_BEHIND:
        return ("the state is damaged: it has this iterator go on behind records that have not been delivered. If it "
                "is as state_dict() returned it, this is a defect of queuecore")
    if f.what == WHAT_SPECIAL_READER:
        return (f"{name} is not a regular file but a pipe, socket or device. Pass allow_special=True to read a pipe or "
                "device to its end")
    if f.what == WHAT_WHOLE:
        size = "" if f.b < 0 else f"{f.b} bytes, "
        return f"{name} has {size}more than the limit of {f.a}. Raise max_record_bytes if files are as long as that"
    if f.what == WHAT_TAIL:
        return (f"{name} ends inside record {f.record}, which starts at byte {f.offset}: {f.a} of its {f.b} bytes are "
                "there. Complete the file, or pass tail='drop' to leave such a rest out")
    if f.what == WHAT_HEADER:
        return (f"{name} has {f.a} bytes, but its header and footer alone take {f.b}. "
                "Check header_bytes and footer_bytes, or the file")
    if f.what == WHAT_SHORTENED:
        return (f"{name} was shortened while it was being read: it had {f.a} bytes when it was opened, and ends before "
                f"byte {f.b} now{_record(f)}")
    if f.what == WHAT_REPLACED:
        return (f"{name} is not the file it was when this iterator first opened it (size, modification time or inode "
                "differ). Don't write to input files while they are read, or start a new iterator")
    if f.what == WHAT_REWRITTEN:
        return (f"{name} was written to while it was being read: its modification time is another one than when it "
                "was opened, so that bytes from before and after may be mixed. Put new files in the place of old ones "
                "by renaming them, and read this one again")
    if f.what == WHAT_UNSIZED:
        return (f"{name} says that it has no bytes, and yet can be read (as files in /proc): nobody knows where its "
                "records lie. Copy it to an ordinary file, or read it with one of queuecore's readers")
    if f.what == WHAT_UNEQUAL:
        return (f"cannot batch elements of unequal shapes: one has {f.a} rows and the next has {f.b}. "
                "Use drop_remainder=True in the inner batch")
    if f.what == WHAT_FEWER:
        return (f"the state is of a place behind {f.a} more elements than the dataset gives now: it is damaged, or "
                "the dataset's functions or data have changed since")
    if f.what == WHAT_NO_ERROR:
        return (f"before this place an error had ended what a shuffle takes its elements from, before record {f.b} of "
                f"pass {f.a}. It doesn't come again, and without it they come in another order: go on from a state "
                "that was saved before it")
    if f.what == WHAT_UNEVEN:
        return (f"{f.a} elements can't be shared evenly among {f.b} shards: use uneven='drop' or uneven='pad', or "
                "another number of shards")
    if f.what == WHAT_MEMORY:
        return f"no memory for {f.a} bytes of buffers. Use smaller batches, a smaller shuffle buffer or less prefetch"
    if f.what == WHAT_BUDGET:
        return (f"memory_budget leaves {f.b} bytes to this stream, and with one batch in the making it needs {f.a}. "
                "Use smaller batches, a smaller shuffle buffer, or a larger budget")
    if f.what == WHAT_THREAD:
        return (f"cannot start native thread number {f.a}: {os.strerror(f.err)} ({thread_limits()}). Use fewer threads "
                "(num_threads)")
    if f.what == WHAT_HEADER_CUT:
        return f"{name} ends after {f.a} bytes, inside its header of {f.b} bytes. Check header_bytes, or the file"
    if f.what == WHAT_LINE:
        return (f"{name} has no end of line in the {f.a} bytes after byte {f.offset} (line {f.record + 1}): it is no "
                "file of lines, or max_record_bytes is to be raised")
    if f.what == WHAT_NAME:
        return f"{name} can't be the name of a file: it is empty, or has a zero byte in it"
    if f.what == WHAT_PADDED:
        return _padded_sentence(f, name)
    if f.what == WHAT_INFLATE_MEMORY or f.what == WHAT_NO_LIBRARY:
        return f"{name}: {inflate_sentence(f.what, <int>f.a, 0)}"
    if WHAT_CUT <= f.what < WHAT_INFLATE_MEMORY:
        return f"{name}: {inflate_sentence(f.what, <int>f.a, f.offset)}; {f.b} bytes were decompressed before it"
    if WHAT_TAR_HEADER <= f.what <= WHAT_TAR_SPARSE:
        return f"{name}: the sample that begins at byte {f.offset} (record {f.record}) {_TAR[f.what]}"
    if WHAT_TFRECORD_LENGTH <= f.what <= WHAT_RECORD_TOO_LARGE:
        return _framed_sentence(f, name)
    if WHAT_CSV_FIELDS <= f.what <= WHAT_CSV_LONG:
        return f"{name}, line {f.a}" + _csv_sentence(f, heading)
    return "a native thread ended by a C++ exception"


cdef str inflate_sentence(int reason, int encoding, int64_t place):
    word = _ENCODINGS[encoding]
    if reason == WHAT_CUT:
        return f"cut {word} data: it ends at byte {place}, before it is complete"
    if reason == WHAT_NO_HEADER:
        return f"no {word} data: none begins at byte {place}"
    if reason == WHAT_DAMAGED:
        return f"damaged {word} data at about byte {place}"
    if reason == WHAT_CHECK:
        return (f"damaged {word} data: the checksum or the length before byte {place} isn't that of what was "
                "decompressed")
    if reason == WHAT_TRAILING:
        return f"from byte {place} on there is something else than {word} data"
    if reason == WHAT_DICTIONARY:
        return f"{word} data at byte {place} that needs a dictionary, which can't be given here"
    if reason == WHAT_WINDOW:
        return f"{word} data at byte {place} that needs a window of more than 128 MiB to decompress"
    if reason == WHAT_INFLATE_MEMORY:
        return f"no memory to read {word} data"
    return f"no library that decompresses {word} data is loaded"


cdef str text_shown(const Fault* fault):
    cdef int64_t nbytes = min(fault.text_bytes, <int64_t>sizeof(fault.text))
    if nbytes <= 0:
        return None
    shown = (<const char*>fault.text)[:nbytes].decode(errors="backslashreplace")
    return shown if nbytes == fault.text_bytes else shown + "…"


cdef str no_value(const Fault* fault, object kind):
    shown = text_shown(fault)
    return f"not a valid {kind}" if shown is None else f"{shown!r} is no {kind}"


cdef tuple fault_numbers(const Fault* fault):
    cdef int64_t words[5]
    cdef int i
    memcpy(words, fault.text, sizeof(words))
    numbers = (fault.code, fault.err, fault.what, fault.stage, fault.file, fault.offset, fault.record, fault.a, fault.b)
    return numbers if fault.text_bytes == 0 else (*numbers, fault.text_bytes, *[words[i] for i in range(5)])


cdef int fault_of(Fault* fault, numbers) except -1:
    cdef int64_t words[5]
    memset(fault, 0, sizeof(Fault))
    (fault.code, fault.err, fault.what, fault.stage, fault.file, fault.offset, fault.record, fault.a,
     fault.b) = numbers[:9]
    if len(numbers) > 9:
        fault.text_bytes = numbers[9]
        words = numbers[10:]
        memcpy(fault.text, words, sizeof(words))
    return 0


cdef str _csv_sentence(const Fault* f, str heading):
    field = f.b & 0xFFFFFFFF
    column = f", column {field + 1}" if heading is None else f", column {field + 1} ({heading!r})"
    if f.what == WHAT_CSV_FIELDS:
        return f": expected {f.b >> 32} fields, got {field}"
    if f.what == WHAT_CSV_MISSING:
        return f"{column}: a value is required here"
    if f.what == WHAT_CSV_NUMBER:
        kind = ("float32", "float64", "int32", "int64", "string", "uint8", "bool")[f.b >> 32]
        return f"{column}: {no_value(f, kind)}"
    if f.what == WHAT_CSV_BARE:
        return f"{column}: a quote inside a field that is not quoted"
    if f.what == WHAT_CSV_QUOTE:
        return f"{column}: a quote inside a quoted field that is not doubled, or text after the closing one"
    if f.what == WHAT_CSV_OPEN:
        return f"{column}: the quote that opens here is never closed"
    return f": a row of more than {f.b} bytes. Is a quote not closed? Otherwise raise max_record_bytes"


cdef object _cause_of = None, _reason_of = None  # under the GIL


def tell_causes(cause_of, reason_of):
    """Let errors of remote files have their causes.

    Parameters
    ----------
    cause_of : callable
        From the name of a file, and the number of its store, to what went wrong with it last, or None.
    reason_of : callable
        From an errno and such a cause to the reason, as text.
    """
    global _cause_of, _reason_of
    _cause_of, _reason_of = cause_of, reason_of


cdef object fault_error(const Fault* fault, object path, object headings=None, int32_t store=0):
    cdef bint of_csv = WHAT_CSV_FIELDS <= fault.what <= WHAT_CSV_OPEN
    heading = None
    if headings is not None and of_csv and fault.what != WHAT_CSV_FIELDS:
        heading = headings(path, fault.b & 0xFFFFFFFF)
    name = None if path is None else shown_name(path)
    name_text = "" if name is None else repr(name)
    cause = None
    if fault.err != 0 and _cause_of is not None and b"://" in (path or b""):
        cause = _cause_of(path, store)
    reason = os_reason(fault.err) if cause is None else _reason_of(fault.err, cause)
    error = _CLASSES[<int>fault.code](
        _sentence(fault, name_text, heading, reason),
        errno=fault.err or None,
        path=name,
        offset=fault.offset if fault.offset >= 0 else None,
        record=fault.record if fault.record >= 0 else None,
        stage=_STAGES.get(<int>fault.stage),
    )
    if of_csv:
        error.line = fault.a
        error.field = fault.b & 0xFFFFFFFF if fault.what != WHAT_CSV_FIELDS else None
        error.column = heading
    if cause is not None:
        error.__cause__ = cause
    return error


cdef object shown_name(object path):
    return _errors.shown_name(path)


cdef object new_error(int32_t code, str text, dict place=None):
    return _CLASSES[code](text) if place is None else _CLASSES[code](text, **place)


cdef int raise_error(int32_t code, str text) except -1:
    raise new_error(code, text)


cdef int raise_from(int32_t code, str text, object cause) except -1:
    raise new_error(code, text) from cause


cdef bint is_own(object error):
    return isinstance(error, _errors.QueueCoreError)
