"""Target of the fuzzer: tar archives, cut into samples, and the samples taken apart."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport CODE_TOO_LARGE
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.tar cimport SAMPLE_BROKEN, tar_kind
from queuecore._core.io.walk cimport WALK_END, WALK_FAULT, WALK_FULL, WALK_MORE, RecordWalk
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_free
from queuecore._core.testing.fuzz_inputs cimport Given, Growing, Verdict, append, choice, copy_of, least, same

from queuecore._core.io.tar import SampleStep
from queuecore._elements.component import BYTES, Component

check_layout(layout_hash())

cdef enum:
    HEADER = 512
    MOST_SAMPLES = 8          # of a call
    OUTPUTS = 3

# How an archive was cut.
cdef struct Samples:
    Growing starts            # as int64_t; the last one is where the walk ended
    Fault fault               # code 0: none


cdef Step _step = SampleStep(
    (Component(BYTES, ()),), (Component(BYTES, ()),) * OUTPUTS, [[b"a", b"b"], [b"c.d"]], True)
cdef uint32_t _seen = 0       # so that no compiler leaves out what is read


cdef void _repair(unsigned char* data, int64_t n) noexcept nogil:
    # Puts the right checksums into headers, as far as their sizes lead: no fuzzer guesses them often enough.
    cdef int64_t position = 0, i, nbytes
    cdef unsigned char* header
    cdef long checksum
    while n - position >= HEADER:
        header = data + position
        memset(header + 148, c' ', 8)
        checksum = nbytes = 0
        for i in range(HEADER):
            checksum += header[i]
        if checksum == 8 * c' ':
            memset(header + 148, 0, 8)
        else:
            snprintf(<char*>header + 148, 7, b"%06lo", checksum)
        for i in range(124, 135):
            nbytes = 8 * nbytes + (header[i] & 7)
        position += HEADER + (nbytes + HEADER - 1) // HEADER * HEADER


cdef Verdict _cut(const unsigned char* data, int64_t size, int64_t step, bint is_known, int64_t limit,
                  Samples* samples) noexcept nogil:
    cdef RecordWalk walk
    cdef int64_t starts[MOST_SAMPLES + 1]
    cdef int64_t position = 0, need = 1, n, count = 0, records = 0
    cdef int rc
    cdef unsigned char* block = NULL
    cdef Verdict verdict = NULL
    memset(samples, 0, sizeof(Samples))
    memset(&walk, 0, sizeof(RecordWalk))
    walk.total_bytes = size if is_known else -1
    walk.max_record_bytes = limit
    while True:
        n = least(step if step > need else need, size - position)
        free(block)
        block = copy_of(data + position, n)
        rc = tar_kind().walk(&walk, block, n, not is_known and position + n == size, starts, MOST_SAMPLES, &count,
                             &samples.fault)
        for i in range(count):
            starts[i] += position
        append(&samples.starts, starts, count * sizeof(int64_t))
        position += starts[count]
        records += count
        if walk.offset != position or walk.record != records:
            verdict = "tar: the walk stands elsewhere"
        elif rc == WALK_MORE and (walk.need <= n - starts[count] or n - starts[count] == size - position):
            verdict = "tar: more is asked for than there is, or what is there"
        elif rc == WALK_FULL and count != MOST_SAMPLES:
            verdict = "tar: full too early"
        elif rc == WALK_FAULT and (samples.fault.offset != position or samples.fault.record != records):
            verdict = "tar: a fault elsewhere"
        if verdict != NULL or rc == WALK_END or rc == WALK_FAULT:
            break
        need = walk.need if rc == WALK_MORE else 1
    append(&samples.starts, &position, sizeof(int64_t))
    free(block)
    return verdict


cdef Verdict _take_apart(const unsigned char* data, int64_t n) noexcept nogil:
    global _seen
    cdef unsigned char* sample = copy_of(data, n)
    cdef Cell cell
    cdef Cell outputs[OUTPUTS]
    cdef Arena arena
    cdef Fault fault
    cdef Verdict verdict = NULL
    cdef int32_t k
    cdef int64_t i
    memset(&cell, 0, sizeof(Cell))
    memset(outputs, 0, sizeof(outputs))
    memset(&arena, 0, sizeof(Arena))
    memset(&fault, 0, sizeof(Fault))
    cell.data = sample
    cell.nbytes = n
    if _step.run(_step.params, &cell, outputs, &arena, &fault) != 0:
        if fault.what == SAMPLE_BROKEN:
            verdict = "tar: a sample that can't be taken apart"
    else:
        for k in range(OUTPUTS):
            for i in range(outputs[k].nbytes):
                _seen += outputs[k].data[i]
    arena_free(&arena)
    free(sample)
    return verdict


cdef Verdict fuzz_tar(Given g) noexcept nogil:
    # An archive gives the same samples in pieces as at once, and each can be taken apart.
    cdef int64_t choices = choice(&g), step = 1 + 8 * choice(&g), limit = 2048 if choices & 4 else 1 << 40
    cdef int64_t begin, end, i
    cdef unsigned char* data = copy_of(g.p, g.n)
    cdef Samples whole_samples, pieces
    cdef Verdict verdict
    if choices & 2:
        _repair(data, g.n)
    verdict = _cut(data, g.n, g.n, True, limit, &whole_samples)
    if verdict == NULL:
        verdict = _cut(data, g.n, step, choices & 1, limit, &pieces)
        # Whether a sample is too large may be known before, or only behind, what else is wrong with it.
        if verdict == NULL and not same(&whole_samples.starts, &pieces.starts):
            verdict = "tar: other samples in pieces"
        if verdict == NULL and whole_samples.fault.code != pieces.fault.code and (
                whole_samples.fault.code != CODE_TOO_LARGE and pieces.fault.code != CODE_TOO_LARGE):
            verdict = "tar: another fault in pieces"
        free(pieces.starts.p)
    for i in range(whole_samples.starts.n // <int64_t>sizeof(int64_t) - 1):
        if verdict == NULL:
            memcpy(&begin, whole_samples.starts.p + i * sizeof(int64_t), sizeof(int64_t))
            memcpy(&end, whole_samples.starts.p + (i + 1) * sizeof(int64_t), sizeof(int64_t))
            verdict = _take_apart(data + begin, end - begin)
    free(whole_samples.starts.p)
    free(data)
    return verdict
