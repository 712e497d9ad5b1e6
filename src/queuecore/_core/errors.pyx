"""Status numbers of the native core to exceptions of :mod:`queuecore.errors`; nothing else in the core raises those."""
import errno as _errno
import os
import resource

from queuecore._core.platform cimport Fault, layout_hash
from queuecore._core.atoms cimport check_layout

from queuecore import errors as _errors

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
    CODE_CSV: _errors.CsvError,
    CODE_TOO_LARGE: _errors.RecordTooLargeError,
}

_STAGES = {STAGE_OPEN: "open", STAGE_READ: "read", STAGE_ORDER: "order", STAGE_RUNNER: "runner"}


def _os_reason(int err):
    reason = os.strerror(err)
    if err in (_errno.EMFILE, _errno.ENFILE):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        reason += f" (this process may open {soft} files; raise the limit with `ulimit -n`)"
    return reason


cdef str _sentence(const Fault* f, str name):
    if f.what == WHAT_OPEN:
        return f"cannot open {name}: {_os_reason(f.err)}"
    if f.what == WHAT_STAT:
        return f"cannot get the size of {name}: {_os_reason(f.err)}"
    if f.what == WHAT_READ:
        return f"cannot read {name} at byte {f.offset} (record {f.record}): {_os_reason(f.err)}"
    if f.what == WHAT_DIRECTORY:
        return f"{name} is a directory, not a file of records"
    if f.what == WHAT_SPECIAL:
        return f"{name} is not a regular file (a pipe, socket or device), so its records have no fixed place"
    if f.what == WHAT_TAIL:
        return (f"{name} ends inside record {f.record}, which starts at byte {f.offset}: {f.a} of its {f.b} bytes are there. "
                "Complete the file, or pass tail='drop' to leave such a rest out")
    if f.what == WHAT_HEADER:
        return (f"{name} has {f.a} bytes, but its header and footer alone take {f.b}. "
                "Check header_bytes and footer_bytes, or the file")
    if f.what == WHAT_SHORTENED:
        return (f"{name} was shortened while it was being read: it had {f.a} bytes when it was opened, and ends before "
                f"byte {f.b} now (record {f.record})")
    if f.what == WHAT_REPLACED:
        return (f"{name} is not the file it was when this iterator first opened it (size, modification time or inode differ). "
                "Don't write to input files while they are read, or start a new iterator")
    if f.what == WHAT_UNEQUAL:
        return (f"cannot batch elements of unequal shapes: one has {f.a} rows and the next has {f.b}. "
                "Use drop_remainder=True in the inner batch")
    if f.what == WHAT_MEMORY:
        return f"no memory for {f.a} bytes of buffers. Use smaller batches, a smaller shuffle buffer or less prefetch"
    if f.what == WHAT_THREAD:
        return f"cannot start native thread number {f.a}: {os.strerror(f.err)}. Use fewer threads (num_threads)"
    if f.what == WHAT_RESUME_FILES:
        return (f"the first {f.a} files are not those of the saved state: a size or modification time differs")
    if WHAT_CSV_FIELDS <= f.what <= WHAT_CSV_LONG:
        return f"{name}, line {f.a}" + _csv_sentence(f)
    return "a native thread ended by a C++ exception"


cdef str _csv_sentence(const Fault* f):
    column = f.b & 0xFFFFFFFF
    if f.what == WHAT_CSV_FIELDS:
        return f": expected {f.b >> 32} fields, got {column}"
    if f.what == WHAT_CSV_MISSING:
        return f", column {column + 1}: a value is required here"
    if f.what == WHAT_CSV_NUMBER:
        return f", column {column + 1}: not a valid {('float32', 'float64', 'int32', 'int64')[f.b >> 32]}"
    if f.what == WHAT_CSV_BARE:
        return f", column {column + 1}: a quote inside a field that is not quoted"
    if f.what == WHAT_CSV_QUOTE:
        return f", column {column + 1}: a quote inside a quoted field that is not doubled, or text after the closing one"
    if f.what == WHAT_CSV_OPEN:
        return f", column {column + 1}: the quote that opens here is never closed"
    return f": a row of more than {f.b} bytes. Is a quote not closed? Otherwise raise max_record_bytes"


cdef object fault_error(const Fault* fault, object path):
    # path: bytes or None. The exception that says what `fault` recorded; the caller raises it.
    name = None if path is None else os.fsdecode(path)
    shown = "" if name is None else repr(name)
    error = _CLASSES[<int>fault.code](
        _sentence(fault, shown),
        errno=fault.err or None,
        path=name,
        offset=fault.offset if fault.offset >= 0 else None,
        record=fault.record if fault.record >= 0 else None,
        stage=_STAGES.get(<int>fault.stage),
    )
    if WHAT_CSV_FIELDS <= fault.what <= WHAT_CSV_OPEN:
        error.line = fault.a
        error.field = fault.b & 0xFFFFFFFF if fault.what != WHAT_CSV_FIELDS else None
    return error
