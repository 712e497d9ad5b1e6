# Traced: what the threads of a pipe note in its lines, while somebody draws its timeline. Until then each thread only
# looks whether it has a line.
#
# A worker writes to its own line. Consumers share the first one, under the pipe's turn.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.atoms.platform cimport Batch
from queuecore._core.atoms.timeline cimport Line, Lines
from queuecore._core.stream.pipe cimport Pipe, Unit

cdef extern from *:
    """
    // The words of queuecore/_observe/labels.py, by the kinds of units.
    static const char* const qc_work[] = {"make rows", "fill the shuffle", "open files", "read",
                                          "keep for the shuffle"};
    """
    const char* const* WORK "qc_work"

# Has the threads note in `lines` what they do from now on, or no longer (NULL). A pipe has the same lines each time.
# Under the GIL.
cdef void trace_pipe(Pipe* p, Lines* lines) noexcept nogil

# A worker. Before its unit runs, and after that.
cdef void note_parts(Pipe* p, const Unit* u, Line* line, int64_t now) noexcept nogil
cdef void note_unit(Pipe* p, const Unit* u, Line* line, int64_t begun, int64_t now) noexcept nogil
# A consumer: a unit that it is to run, one that it ran, its wait for a batch, and that it takes batch k. Without the
# turn.
cdef void note_helping(Pipe* p, const Unit* u, int64_t begun) noexcept nogil
cdef void note_helped(Pipe* p, const Unit* u, int64_t begun, int64_t now) noexcept nogil
cdef void note_waited(Pipe* p, int64_t begun, int64_t now) noexcept nogil
cdef void note_taken(Pipe* p, const Batch* b, uint64_t k) noexcept nogil
