"""The user's compiled functions as native steps."""
cimport cython
from libc.stdint cimport int32_t, int64_t, intptr_t
from libc.string cimport memcpy
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, new_error, raise_error
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take


cdef extern from "queuecore/calls.hpp" namespace "queuecore" nogil:
    const int kMostWords
    int64_t call_function(void* function, const intptr_t* words, int n, int result_bytes) noexcept

check_layout(layout_hash())

MOST_ARGUMENTS = kMostWords

cdef enum:
    WHAT_NO_MEMORY = 1   # for a bytes
    WHAT_CODE = 2        # the function returned a

cdef struct CallResult:
    int64_t nbytes
    int32_t ndim
    int64_t dims[MAX_DIMS]

cdef struct CallParams:
    void* function
    int32_t result_bytes
    int32_t given, made
    bint counts          # the function wants the number of items of each input, too
    int64_t* items       # bytes of an item, for each input
    CallResult* outputs


@cython.final
cdef class CallStep(Step):
    """A function that gets pointers to the data of its inputs, then of its outputs.

    Parameters
    ----------
    label : str
        For errors.
    inputs, outputs : tuple of Component
        Together at most `MOST_ARGUMENTS`, the inputs twice if there are counts. Outputs are of fixed shapes.
    address : int
        Of the function.
    result_bytes : int
        Of the signed integer that it returns: 0, 4 or 8. Any value but 0 is an error.
    counts : bool
        Whether the number of items of each input follows the pointers, as int64.
    owner : object
        Kept as long as the function is needed.
    """
    cdef CallParams call
    cdef str label
    cdef object owner

    def __init__(self, str label not None, tuple inputs not None, tuple outputs not None, size_t address,
                 int32_t result_bytes, bint counts, owner):
        cdef int32_t i, j
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        if len(inputs) * (1 + counts) + len(outputs) > kMostWords:
            raise_error(CODE_INVALID_ARGUMENT, f"{label}: more than {kMostWords} arguments")
        self.label = label
        self.inputs = inputs
        self.outputs = outputs
        self.owner = owner
        self.call.function = <void*>address
        self.call.result_bytes = result_bytes
        self.call.counts = counts
        self.call.given = <int32_t>len(inputs)
        self.call.made = <int32_t>len(outputs)
        self.call.items = <int64_t*>calloc(len(inputs) + 1, sizeof(int64_t))
        self.call.outputs = <CallResult*>calloc(len(outputs) + 1, sizeof(CallResult))
        if self.call.items == NULL or self.call.outputs == NULL:
            raise MemoryError
        for i in range(self.call.given):
            self.call.items[i] = inputs[i].dtype.itemsize or 1
        for i in range(self.call.made):
            self.call.outputs[i].nbytes = outputs[i].dtype.itemsize
            self.call.outputs[i].ndim = <int32_t>len(outputs[i].shape)
            for j in range(self.call.outputs[i].ndim):
                self.call.outputs[i].dims[j] = outputs[i].shape[j]
                self.call.outputs[i].nbytes *= outputs[i].shape[j]
        self.params = &self.call
        self.run = _run_call
        self.alone = True

    def __dealloc__(self):
        free(self.call.items)
        free(self.call.outputs)

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_CODE:
            return new_error(CODE_INVALID_ARGUMENT, f"{self.label}: the function returned the error code {fault.a}")
        return new_error(CODE_EXHAUSTED, f"{self.label}: no memory for {fault.a} bytes")


cdef int _run_call(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const CallParams* call = <const CallParams*>params
    cdef intptr_t[16] words  # kMostWords
    cdef Cell* out
    cdef int32_t i, n = 0
    for i in range(call.given):
        words[n] = <intptr_t>inputs[i].data
        n += 1
    for i in range(call.made):
        out = &outputs[i]
        if out.data == NULL:
            out.data = <unsigned char*>arena_take(arena, call.outputs[i].nbytes + 1)
            if out.data == NULL:
                fault.what = WHAT_NO_MEMORY
                fault.a = call.outputs[i].nbytes
                return -1
        out.nbytes = call.outputs[i].nbytes
        out.offsets = NULL
        out.ndim = call.outputs[i].ndim
        memcpy(out.dims, call.outputs[i].dims, out.ndim * sizeof(int64_t))
        words[n] = <intptr_t>out.data
        n += 1
    if call.counts:
        for i in range(call.given):
            words[n] = inputs[i].nbytes // call.items[i]
            n += 1
    fault.a = call_function(call.function, words, n, call.result_bytes)
    if fault.a != 0:
        fault.what = WHAT_CODE
        return -1
    return 0
