"""Steps under the fuzzer. See fuzz_steps.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp, memset
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.steps.stages cimport Arena, Cell, arena_free
from queuecore._core.testing.fuzz_inputs cimport Verdict, copy_of

check_layout(layout_hash())

cdef struct Run:
    Cell cells[MOST_OUTPUTS]
    unsigned char* places[MOST_OUTPUTS]
    Arena arena
    Fault fault
    int rc


cdef uint32_t _seen = 0    # so that no compiler leaves out what is read


cdef Verdict _cell_wrong(const Cell* cell, const Output* output) noexcept nogil:
    # Checks that a cell is as large as its shape says, and reads every byte of it.
    global _seen
    cdef int64_t count = 1, i
    if not 0 <= cell.ndim <= 32:
        return "step: a cell of no shape"
    for i in range(cell.ndim):
        if cell.dims[i] < 0:
            return "step: a negative side"
        count *= cell.dims[i]
    if not 0 <= cell.nbytes <= 16 << 20:
        return "step: more than such an input can hold"
    for i in range(cell.nbytes):
        _seen += cell.data[i]
    if output.item > 0:
        if cell.offsets != NULL or cell.nbytes != count * output.item:
            return "step: a size that isn't that of the shape"
        if output.role == ROLE_SPLITS:
            for i in range(count):
                if (<const int64_t*>cell.data)[i] < ((<const int64_t*>cell.data)[i - 1] if i > 0 else 0):
                    return "step: splits that fall"
        return NULL
    if cell.ndim > 0:
        if cell.offsets == NULL or cell.offsets[0] != 0 or cell.offsets[count] != cell.nbytes:
            return "step: strings that don't fill their bytes"
        for i in range(count):
            if cell.offsets[i + 1] < cell.offsets[i]:
                return "step: a string of negative length"
    return NULL


cdef Verdict _run_step(const Steps* steps, int batch, Cell* input_cell, bint places, int64_t n,
                       Run* run) noexcept nogil:
    cdef int32_t i
    cdef const Output* output
    cdef Verdict verdict = NULL
    memset(run, 0, sizeof(Run))
    for i in range(steps.count[batch]):
        output = &steps.outputs[batch][i]
        if places and output.place > 0:
            run.cells[i].nbytes = n * output.place
            run.cells[i].data = run.places[i] = <unsigned char*>malloc(n * output.place)
    run.rc = steps.run[batch](steps.params[batch], input_cell, run.cells, &run.arena, &run.fault)
    if run.rc == 0:
        for i in range(steps.count[batch]):
            verdict = _cell_wrong(&run.cells[i], &steps.outputs[batch][i])
            if verdict != NULL:
                return verdict
    elif run.fault.what == 0:
        return "step: a fault without a reason"
    return NULL


cdef void _run_free(Run* run) noexcept nogil:
    cdef int32_t i
    for i in range(MOST_OUTPUTS):
        free(run.places[i])
    arena_free(&run.arena)


cdef Verdict both_ways(const Steps* steps, const unsigned char* p, int64_t n, int64_t cut, bint places) noexcept nogil:
    cdef unsigned char* halves[3]
    cdef int64_t offsets[3]
    cdef int64_t position
    cdef Cell input_cell
    cdef Run* runs = <Run*>calloc(3, sizeof(Run))
    cdef const Cell* cell
    cdef Verdict verdict = NULL
    cdef int32_t i, j, k = 0
    offsets[0] = 0
    offsets[1] = cut
    offsets[2] = n
    halves[0] = copy_of(p, cut)
    halves[1] = copy_of(p + cut, n - cut)
    halves[2] = copy_of(p, n)
    for i in range(3):
        memset(&input_cell, 0, sizeof(Cell))
        input_cell.data = halves[i]
        input_cell.nbytes = offsets[i + 1] - offsets[i] if i < 2 else n
        if i == 2:
            input_cell.offsets = offsets
            input_cell.ndim = 1
            input_cell.dims[0] = 2
        if verdict == NULL:
            verdict = _run_step(steps, i == 2, &input_cell, places, 1 + (i == 2), &runs[i])
    if verdict == NULL and (runs[2].rc == 0) != (runs[0].rc == 0 and runs[1].rc == 0):
        verdict = "step: a batch fails, or its elements do"
    if verdict == NULL and runs[2].rc != 0:
        position = runs[2].fault.b if steps.element_is_b else runs[2].fault.a
        if not 0 <= position < 2 or runs[position].rc == 0 or runs[2].fault.what != runs[position].fault.what:
            verdict = "step: a batch fails with another fault than its elements"
    elif verdict == NULL:
        j = 0  # the same output of a lone element: it has no splits by element, and no lengths
        for i in range(steps.count[1]):
            if j == steps.count[0] or steps.outputs[0][j].role != steps.outputs[1][i].role or (
                    steps.outputs[0][j].item != steps.outputs[1][i].item):
                continue
            if steps.outputs[1][i].role == ROLE_VALUES:
                position = 0
                for k in range(2):
                    cell = &runs[k].cells[j]
                    if cell.nbytes > runs[2].cells[i].nbytes - position or (
                            cell.nbytes > 0 and memcmp(runs[2].cells[i].data + position, cell.data, cell.nbytes) != 0):
                        verdict = "step: a batch has other values than its elements"
                        break
                    position += cell.nbytes
                if verdict == NULL and position != runs[2].cells[i].nbytes:
                    verdict = "step: a batch has more values than its elements"
            j += 1
    for i in range(3):
        _run_free(&runs[i])
        free(halves[i])
    free(runs)
    return verdict
