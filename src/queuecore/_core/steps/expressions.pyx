"""Native steps made from traced functions: whole expressions run by NumPy's own loops, and graphs of steps.

An expression goes over its output in tiles that stay in the first-level cache. Every call of a tile is the loop that
NumPy itself would run for these dtypes, or a cast or chain that gives the same bits, so the values are NumPy's. The
processor's flags, by which a loop tells of its floats, are dropped.
"""
cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, intptr_t, uintptr_t
from libc.string cimport memcpy
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.steps.elementwise cimport (
    CastFn, ChainFn, ChainLink, bytes_in, bytes_out, cast_fn, chain_fn, fill_items, gather, step_explain, step_fault)
from queuecore._core.steps.elementwise cimport step_place
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.steps.stages cimport (
    WHOSE, WHOSE_BITS, Arena, Cell, RowsWay, Span, Step, StageFn, arena_take, explain_part, made_bytes_of, row_bytes_of,
    rows_way, step_begun, step_ended)


cdef extern from *:
    """
    #include <cfenv>
    #include <cstdint>
    #include <cstring>
    #include "queuecore/kernels/elementwise.hpp"

    // The struct that NumPy documents for the capsule of this name.
    typedef int (*qc_loop)(void*, char* const*, const intptr_t*, const intptr_t*, void*);
    struct qc_call_info {
      qc_loop loop;
      void* context;
      void* auxdata;
      unsigned char requires_pyapi;
      unsigned char no_floatingpoint_errors;
    };

    // Strides are 0 or that of an item.
    template <class T>
    static void qc_choose_items(const unsigned char* which, int64_t step, const T* first, bool all_first,
                                const T* second,
                                bool all_second, T* target, int64_t n) noexcept {
      if (step == 0) {
        bool all = which[0];
        for (int64_t i = 0; i < n; i++) target[i] = all ? first[all_first ? 0 : i] : second[all_second ? 0 : i];
      } else if (!all_first && !all_second) {
        for (int64_t i = 0; i < n; i++) target[i] = which[i] ? first[i] : second[i];
      } else if (!all_first) {
        for (int64_t i = 0; i < n; i++) target[i] = which[i] ? first[i] : second[0];
      } else if (!all_second) {
        for (int64_t i = 0; i < n; i++) target[i] = which[i] ? first[0] : second[i];
      } else {
        for (int64_t i = 0; i < n; i++) target[i] = which[i] ? first[0] : second[0];
      }
    }
    static inline void qc_choose(char* const* data, const intptr_t* strides, int64_t n, int item) noexcept {
    #define QC_CHOOSE(T)                                                                                            \
      qc_choose_items(reinterpret_cast<const unsigned char*>(data[0]), strides[0], \
                      reinterpret_cast<const T*>(data[1]), \
                      strides[1] == 0, reinterpret_cast<const T*>(data[2]), strides[2] == 0,                          \
                      reinterpret_cast<T*>(data[3]), n)
      if (item == 1) QC_CHOOSE(uint8_t);
      else if (item == 2) QC_CHOOSE(uint16_t);
      else if (item == 4) QC_CHOOSE(uint32_t);
      else QC_CHOOSE(uint64_t);
    #undef QC_CHOOSE
    }

    // To and from halves as NumPy's portable code does it: the bits of a NaN stay, also of a signalling one.
    static inline void qc_half_to_double(const void* source, void* target, int64_t n) noexcept {
      queuecore::cast_fn(9, 11, true)(source, target, n);
      for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        std::memcpy(&half, static_cast<const char*>(source) + 2 * i, 2);
        if ((half & 0x7fff) > 0x7c00) {
          uint64_t bits = uint64_t(half & 0x8000) << 48 | uint64_t(0x7ff) << 52 | uint64_t(half & 0x3ff) << 42;
          std::memcpy(static_cast<char*>(target) + 8 * i, &bits, 8);
        }
      }
    }
    template <class Bits, int number, int fraction>
    static void qc_to_half(const void* source, void* target, int64_t n) noexcept {
      const Bits infinity = ((Bits(1) << (8 * sizeof(Bits) - 1 - fraction)) - 1) << fraction;
      queuecore::cast_fn(number, 9, true)(source, target, n);
      for (int64_t i = 0; i < n; i++) {
        Bits bits;
        std::memcpy(&bits, static_cast<const char*>(source) + sizeof(Bits) * i, sizeof(Bits));
        if ((bits & ~(Bits(1) << (8 * sizeof(Bits) - 1))) > infinity) {
          uint16_t half = uint16_t(0x7c00 | (bits >> (fraction - 10) & 0x3ff));
          half = uint16_t((half + (half == 0x7c00)) | (bits >> (8 * sizeof(Bits) - 16) & 0x8000));
          std::memcpy(static_cast<char*>(target) + 2 * i, &half, 2);
        }
      }
    }
    static inline queuecore::CastFn qc_numpy_cast(int source, int target) noexcept {
      if (source == 9 && target == 11) return qc_half_to_double;
      if (source == 10 && target == 9) return qc_to_half<uint32_t, 10, 23>;
      if (source == 11 && target == 9) return qc_to_half<uint64_t, 11, 52>;
      return queuecore::cast_fn(source, target, true);
    }

    // Reading the flags is cheap, clearing them is not.
    static inline void qc_clear_float_flags() noexcept {
      if (std::fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW)) std::feclearexcept(FE_ALL_EXCEPT);
    }
    """
    ctypedef int (*qc_loop)(void*, char**, const intptr_t*, const intptr_t*, void*) noexcept nogil
    struct qc_call_info:
        qc_loop loop
        void* context
        void* auxdata
        unsigned char requires_pyapi
    CastFn qc_numpy_cast(int source, int target) noexcept nogil
    void qc_choose(char**, const intptr_t*, int64_t, int) noexcept nogil
    void qc_clear_float_flags() noexcept nogil
    bint __builtin_mul_overflow(int64_t, int64_t, int64_t*) noexcept nogil

check_layout(layout_hash())

MOST_REGISTERS = 64       # of one expression
MOST_STEPS = 254          # of one graph

cdef enum:
    REGISTERS = 64
    MOST_ARGUMENTS = 4    # of one call, the output among them
    SCRATCH_BYTES = 24 << 10

cdef enum:
    WHAT_SIDE = 1         # an input has another side than expected: a, not b
    WHAT_RANK = 2         # an input has a dimensions, not b

cdef struct Operand:
    int32_t cell             # -1: a constant
    int32_t item
    int32_t base_ndim
    int64_t period           # of a constant, whose items come over and over: 1 for a lone one. 0: see axes
    unsigned char* data      # of a constant
    int32_t axes[MAX_DIMS]  # which axis of the base each of the output is; -1: it has none for it
    int64_t steps[MAX_DIMS]
    int64_t starts[MAX_DIMS]  # of each axis of the base
    int64_t sides[MAX_DIMS]   # -1: not known beforehand

cdef struct Instruction:
    CastFn cast              # or
    ChainFn chain            # over the links, or
    qc_loop loop             # or numpy.where
    ChainLink* links
    int32_t link_count
    void* context
    void* auxdata
    int32_t arguments        # number of arguments, without the output
    int32_t registers[MOST_ARGUMENTS]

cdef struct ExprParams:
    Operand* leaves
    Instruction* instructions
    int32_t leaf_count
    int32_t instruction_count
    int32_t register_count
    int32_t temporaries      # number of places that temporaries share
    int32_t items[REGISTERS]   # bytes of one item of each register
    int32_t places[REGISTERS]  # of a temporary
    int32_t item             # of the output
    int32_t ndim
    int64_t tile
    int64_t dims[MAX_DIMS]  # -1: that of
    int32_t from_leaf[MAX_DIMS]
    int32_t from_axis[MAX_DIMS]
    int64_t made_bytes
    bint alike               # all leaves have the items of the output side by side, in its order

# A leaf of an element, or of several, and how to read it in the order of the output.
cdef struct Reading:
    bytes_in data
    bytes_out room           # room for a tile of the leaf, if it has to be gathered
    int64_t stride           # items from one to the next; 0: one for all
    int32_t ndim
    int64_t dims[MAX_DIMS]
    int64_t strides[MAX_DIMS]


@cython.final
cdef class ExprStep(Step):
    """One expression of items, all calls of it in one pass.

    Parameters
    ----------
    inputs : tuple of Component
        Which the leaves read.
    output : Component
        The result.
    leaves : list of tuple
        ``(input, item, axes, steps, starts, sides)``: which input; bytes of an item; for each axis of the output which
        one of the input it is, or -1, and with what step; where each axis of the input starts, and how long it is, or
        -1. Of a constant: ``(-1, item, period, data)``, or with axes as above and the data at the end.
    items : list of int
        Bytes of one item of each register: first the leaves, then the temporaries.
    places : list of int
        Which room each register has; of leaves -1.
    program : list of tuple
        ``("cast", number of one dtype, of the other, register, register, as NumPy does it)`` or ``("call", capsule,
        registers)``, or, of numpy.where, ``("choose", bytes of an item, registers)``, or ``("chain", number of a dtype,
        links, register, register)``, a link being its kind (`LinkKind` of kernels/chains.hpp) and its constant; the
        last one is the output.
        Register -1 is the step's own output. None at all: the first leaf is the result.
    dims : list of tuple
        Sides of the output: ``(side, -1, -1)``, or ``(-1, leaf, axis of its input)``.
    """
    cdef ExprParams expression
    cdef list kept

    def __init__(self, tuple inputs, output, list leaves, list items, list places, list program, list dims):
        cdef int32_t i, k, room
        cdef ExprParams* e = &self.expression
        cdef Instruction* instruction
        cdef qc_call_info* info
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        if len(items) > REGISTERS or len(items) != len(places) or not leaves:
            raise ValueError(f"{len(items)} registers")
        self.inputs = inputs
        self.outputs = (output,)
        self.kept = []
        e.leaves = <Operand*>calloc(len(leaves) + 1, sizeof(Operand))
        e.instructions = <Instruction*>calloc(len(program) + 1, sizeof(Instruction))
        if e.leaves == NULL or e.instructions == NULL:
            raise MemoryError
        e.register_count = <int32_t>len(items)
        for i in range(e.register_count):
            e.items[i] = items[i]
            e.places[i] = places[i]
            e.temporaries = max(e.temporaries, e.places[i] + 1)
        # A multiple of every vector's length, so that a tile's items are grouped as those of a whole array are.
        room = SCRATCH_BYTES // (8 * (e.temporaries + 1)) & ~63
        e.tile = min(2048, max(256, room))
        for leaf in leaves:
            e.leaf_count += 1
            self._leaf(&e.leaves[e.leaf_count - 1], leaf)
        e.ndim = <int32_t>len(dims)
        for i in range(e.ndim):
            e.dims[i], e.from_leaf[i], e.from_axis[i] = dims[i]
        e.item = output.dtype.itemsize
        e.made_bytes = made_bytes_of(output)
        for kind, *rest in program:
            instruction = &e.instructions[e.instruction_count]
            e.instruction_count += 1
            if kind == "cast":
                instruction.cast = qc_numpy_cast(rest[0], rest[1]) if rest[4] else cast_fn(rest[0], rest[1], False)
                instruction.arguments = 1
                instruction.registers[0], instruction.registers[1] = rest[2], rest[3]
                continue
            if kind == "chain":
                self._chain(instruction, rest)
                continue
            instruction.arguments = <int32_t>len(rest[1]) - 1
            if instruction.arguments >= MOST_ARGUMENTS:
                raise ValueError(f"{instruction.arguments} arguments")
            for k in range(instruction.arguments + 1):
                instruction.registers[k] = rest[1][k]
            if kind == "choose":
                continue
            info = <qc_call_info*>PyCapsule_GetPointer(rest[0], "numpy_1.24_ufunc_call_info")
            if info.requires_pyapi or info.loop == NULL:
                raise ValueError("a loop that needs the GIL")
            self.kept.append(rest[0])  # NumPy frees what it points to with it
            instruction.loop = info.loop
            instruction.context = info.context
            instruction.auxdata = info.auxdata
        self.params = e
        self.run = _run_expression
        if _is_fixed(e):
            self.run_rows = _rows_of_expression

    cdef int _chain(self, Instruction* instruction, list rest) except -1:
        instruction.chain = chain_fn(rest[0], True)
        instruction.links = <ChainLink*>calloc(len(rest[1]) + 1, sizeof(ChainLink))
        if instruction.links == NULL:
            raise MemoryError
        if instruction.chain == NULL:
            raise ValueError(f"no chain begins with the dtype of number {rest[0]}")
        for kind, constant in rest[1]:
            instruction.links[instruction.link_count].kind = kind
            instruction.links[instruction.link_count].constant = constant
            instruction.link_count += 1
        instruction.arguments = 1
        instruction.registers[0], instruction.registers[1] = rest[2], rest[3]
        return 0

    cdef int _leaf(self, Operand* leaf, tuple description) except -1:
        cdef int32_t i = 0
        cdef bytes data = None
        cdef int64_t nbytes, position = 0, part
        leaf.cell = description[0]
        leaf.item = description[1]
        if leaf.cell < 0:
            data = description[len(description) - 1]
            nbytes = len(data)
            if len(description) == 4:
                leaf.period = description[2]
                nbytes = leaf.item if leaf.period == 1 else (leaf.period + self.expression.tile) * leaf.item
            leaf.data = <unsigned char*>malloc(nbytes + 64)
            if leaf.data == NULL:
                raise MemoryError
            while position < nbytes:
                part = min(nbytes - position, <int64_t>len(data))
                memcpy(leaf.data + position, <const char*>data, part)
                position += part
            if leaf.period > 0:
                return 0
        for axis, step in zip(description[2], description[3], strict=True):
            leaf.axes[i] = axis
            leaf.steps[i] = step
            i += 1
        for start, side in zip(description[4], description[5], strict=True):
            leaf.starts[leaf.base_ndim] = start
            leaf.sides[leaf.base_ndim] = side
            leaf.base_ndim += 1
        return 0

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.expression.leaf_count):
            free(self.expression.leaves[i].data)
        for i in range(self.expression.instruction_count):
            free(self.expression.instructions[i].links)
        free(self.expression.leaves)
        free(self.expression.instructions)

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_SIDE:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"arithmetic: a dimension is {fault.a} long, and {fault.b} in what it is combined with")
        if fault.what == WHAT_RANK:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"arithmetic: expected {fault.b} dimensions, as was said beforehand, got {fault.a}")
        return step_explain("arithmetic", fault)


cdef int _read(const ExprParams* e, const Operand* leaf, const int64_t* sides, const int64_t* dims, int64_t rows,
               Arena* arena, Reading* reading, Fault* fault) noexcept nogil:
    # Fills in how to read the leaf of some rows with these sides, each behind the other; a constant is there once. Axes
    # that can be read as one are made one.
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t stride = 1, stride_there
    cdef int32_t d, axis, last
    for d in range(leaf.base_ndim - 1, -1, -1):
        if leaf.sides[d] >= 0 and leaf.sides[d] != sides[d]:
            return step_fault(fault, WHAT_SIDE, sides[d], leaf.sides[d])
        strides[d] = stride
        reading.data += leaf.starts[d] * stride * leaf.item
        stride *= sides[d]
    reading.ndim = 0
    if rows > 1:
        reading.dims[0] = rows
        reading.strides[0] = stride if leaf.cell >= 0 else 0
        reading.ndim = 1
    for d in range(e.ndim):
        axis = leaf.axes[d]
        if axis >= 0 and leaf.sides[axis] < 0 and sides[axis] != dims[d]:
            return step_fault(fault, WHAT_SIDE, sides[axis], dims[d])
        if dims[d] == 1:
            continue
        stride_there = 0 if axis < 0 else strides[axis] * leaf.steps[d]
        last = reading.ndim - 1
        if last >= 0 and reading.strides[last] == stride_there * dims[d]:
            reading.dims[last] *= dims[d]
            reading.strides[last] = stride_there
        else:
            reading.dims[last + 1] = dims[d]
            reading.strides[last + 1] = stride_there
            reading.ndim += 1
    if reading.ndim == 1 and reading.strides[0] == 0:
        reading.stride = 0
    elif reading.ndim > 1 or (reading.ndim == 1 and reading.strides[0] != 1):
        reading.room = <bytes_out>arena_take(arena, e.tile * leaf.item)
        if reading.room == NULL:
            return step_fault(fault, 100, e.tile * leaf.item, 0)
    return 0


cdef void _gather(const Reading* reading, bytes_out target, int64_t position, int64_t n, int32_t item) noexcept nogil:
    # Items [position, position + n) in the order of the output.
    cdef int64_t index[MAX_DIMS]
    cdef int32_t d, last = reading.ndim - 1
    cdef int64_t side = reading.dims[last], stride = reading.strides[last], run, rows
    cdef bytes_in source = reading.data
    for d in range(last, -1, -1):
        index[d] = position % reading.dims[d]
        position //= reading.dims[d]
        source += index[d] * reading.strides[d] * item
    while n > 0:
        run = side - index[last]
        run = run if run < n else n
        rows = 1
        if stride == 0:
            fill_items(target, source, run, item)
        elif last > 0 and run == side and (stride != 1 or side < 16):
            # Copies as many rows as there are: one call for each row would cost more than its copy.
            rows = reading.dims[last - 1] - index[last - 1]
            rows = rows if rows < n // side else n // side
            gather(source, target, rows, side, reading.strides[last - 1], stride, item)
        elif stride == 1:
            memcpy(target, source, run * item)
        else:
            gather(source, target, 1, run, 0, stride, item)
        target += rows * run * item
        n -= rows * run
        source -= index[last] * stride * item
        index[last] = 0
        for d in range(last - 1, -1, -1):
            index[d] += rows
            source += rows * reading.strides[d] * item
            if index[d] < reading.dims[d]:
                break
            source -= reading.strides[d] * item * reading.dims[d]
            index[d] = 0
            rows = 1


cdef bint _is_fixed(ExprParams* e) noexcept nogil:
    # True if all leaves and the output have sides that are known beforehand, none of them 0. Notes then whether all
    # have their items side by side, in the output's order: of several elements they have, too. Axes of one item don't
    # count.
    cdef const Operand* leaf
    cdef int64_t n = 1, items
    cdef int32_t i, d, axis, last
    if e.ndim >= MAX_DIMS:  # there is one more of several elements
        return False
    for d in range(e.ndim):
        if e.dims[d] <= 0 or __builtin_mul_overflow(n, e.dims[d], &n):
            return False
    e.alike = True
    for i in range(e.leaf_count):
        leaf = &e.leaves[i]
        if leaf.period > 0:
            if n % leaf.period != 0:
                return False
            continue
        e.alike = e.alike and leaf.cell >= 0
        items = 1
        for d in range(leaf.base_ndim):
            if leaf.sides[d] <= 0 or __builtin_mul_overflow(items, leaf.sides[d], &items):
                return False
            e.alike = e.alike and leaf.starts[d] == 0
        e.alike = e.alike and items == n
        last = -1
        for d in range(e.ndim):
            axis = leaf.axes[d]
            if e.dims[d] == 1:
                continue
            e.alike = e.alike and axis > last and leaf.steps[d] == 1 and leaf.sides[axis] == e.dims[d]
            last = axis
    return True


cdef int _rows_of_expression(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                             Fault* fault) noexcept nogil:
    cdef const ExprParams* e = <const ExprParams*>params
    cdef const Operand* leaf
    cdef Reading* readings = <Reading*>arena_take(arena, e.leaf_count * sizeof(Reading))
    cdef int64_t nbytes = rows * e.made_bytes
    cdef int32_t i
    if readings == NULL:
        return step_fault(fault, 100, e.leaf_count * <int64_t>sizeof(Reading), 0)
    for i in range(e.leaf_count):
        leaf = &e.leaves[i]
        _begin(leaf, &readings[i])
        if leaf.cell >= 0 and _aligned(&inputs[leaf.cell], leaf, arena, &readings[i], fault) != 0:
            return -1
        if (not e.alike and leaf.period == 0
                and _read(e, leaf, leaf.sides, e.dims, rows, arena, &readings[i], fault) != 0):
            return -1
    return _made(e, readings, &outputs[0], nbytes, nbytes, arena, fault)


cdef inline void _begin(const Operand* leaf, Reading* reading) noexcept nogil:
    reading.room = NULL
    reading.data = leaf.data
    # NumPy, too, gives a lone constant no stride, whatever there is of the rest.
    reading.stride = 0 if leaf.period == 1 else 1


cdef int _made(const ExprParams* e, const Reading* readings, Cell* out, int64_t nbytes, int64_t place_bytes,
               Arena* arena, Fault* fault) noexcept nogil:
    # Makes the output: `nbytes`, for which there is a place if they are as many as `place_bytes`.
    if e.instruction_count == 0 and readings[0].room == NULL and readings[0].stride == 1 and e.leaves[0].cell >= 0:
        # A part that lies in one piece.
        out.data = <bytes_out>readings[0].data
        out.nbytes = nbytes
        out.offsets = NULL
        return 0
    if step_place(out, nbytes, place_bytes, arena, fault) != 0:
        return -1
    return _tiles(e, readings, out.data, nbytes // e.item, arena, fault)


cdef int _aligned(const Cell* cell, const Operand* leaf, Arena* arena, Reading* reading, Fault* fault) noexcept nogil:
    # NumPy's loops expect addresses that are aligned to an item.
    cdef bytes_out copy
    reading.data = cell.data
    if <uintptr_t>cell.data % leaf.item != 0 and cell.nbytes > 0:
        copy = <bytes_out>arena_take(arena, cell.nbytes)
        if copy == NULL:
            return step_fault(fault, 100, cell.nbytes, 0)
        memcpy(copy, cell.data, cell.nbytes)
        reading.data = copy
    return 0


cdef int _run_expression(const void* params, const Cell* inputs, Cell* outputs, Arena* arena,
                         Fault* fault) noexcept nogil:
    cdef const ExprParams* e = <const ExprParams*>params
    cdef const Operand* leaf
    cdef const int64_t* sides
    cdef Cell* out = &outputs[0]
    cdef Reading* readings
    cdef int64_t n = 1, nbytes
    cdef int32_t i
    for i in range(e.leaf_count):
        leaf = &e.leaves[i]
        if leaf.cell >= 0 and inputs[leaf.cell].ndim != leaf.base_ndim:
            return step_fault(fault, WHAT_RANK, inputs[leaf.cell].ndim, leaf.base_ndim)
    for i in range(e.ndim):
        out.dims[i] = e.dims[i]
        if e.dims[i] < 0:
            out.dims[i] = inputs[e.leaves[e.from_leaf[i]].cell].dims[e.from_axis[i]]
        if __builtin_mul_overflow(n, out.dims[i], &n):
            return step_fault(fault, 100, (<int64_t>1 << 62) - 1 + (<int64_t>1 << 62), 0)
    out.ndim = e.ndim
    if __builtin_mul_overflow(n, <int64_t>e.item, &nbytes):
        return step_fault(fault, 100, (<int64_t>1 << 62) - 1 + (<int64_t>1 << 62), 0)
    readings = <Reading*>arena_take(arena, e.leaf_count * sizeof(Reading))
    if readings == NULL:
        return step_fault(fault, 100, e.leaf_count * <int64_t>sizeof(Reading), 0)
    for i in range(e.leaf_count):
        leaf = &e.leaves[i]
        _begin(leaf, &readings[i])
        if leaf.period > 0:
            continue
        sides = <const int64_t*>leaf.sides
        if leaf.cell >= 0:
            sides = <const int64_t*>inputs[leaf.cell].dims
            if _aligned(&inputs[leaf.cell], leaf, arena, &readings[i], fault) != 0:
                return -1
        if _read(e, leaf, sides, out.dims, 1, arena, &readings[i], fault) != 0:
            return -1
    return _made(e, readings, out, nbytes, e.made_bytes, arena, fault)


cdef int _tiles(const ExprParams* e, const Reading* readings, bytes_out target, int64_t n, Arena* arena,
                Fault* fault) noexcept nogil:
    # n items of the output.
    cdef const Operand* leaf
    cdef const Instruction* instruction
    cdef const Reading* reading
    cdef char* data[REGISTERS]
    cdef intptr_t strides[REGISTERS]
    cdef char* arguments[MOST_ARGUMENTS]
    cdef intptr_t steps[MOST_ARGUMENTS]
    cdef bytes_out scratch = NULL
    cdef int64_t position = 0
    cdef intptr_t m
    cdef int32_t i, k, r
    if n == 0:
        return 0
    if e.instruction_count == 0 and readings[0].room != NULL:  # only moved: no stop on the way
        _gather(&readings[0], target, 0, n, e.item)
        return 0
    if e.temporaries > 0:
        scratch = <bytes_out>arena_take(arena, e.temporaries * e.tile * 8)
        if scratch == NULL:
            return step_fault(fault, 100, e.temporaries * e.tile * 8, 0)
    for i in range(e.leaf_count, e.register_count):
        data[i] = <char*>scratch + e.places[i] * e.tile * 8
        strides[i] = e.items[i]
    while position < n:
        m = e.tile if n - position > e.tile else n - position
        for i in range(e.leaf_count):
            leaf = &e.leaves[i]
            reading = &readings[i]
            strides[i] = reading.stride * leaf.item
            if reading.room != NULL:
                _gather(reading, reading.room, position, m, leaf.item)
                data[i] = <char*>reading.room
            elif leaf.period > 0:
                data[i] = <char*>reading.data + (position % leaf.period) * leaf.item
            else:
                data[i] = <char*>reading.data + position * strides[i]
        if e.instruction_count == 0:
            if strides[0] == 0:
                fill_items(target + position * e.item, data[0], m, e.item)
            else:
                memcpy(target + position * e.item, data[0], m * e.item)
        for i in range(e.instruction_count):
            instruction = &e.instructions[i]
            for k in range(instruction.arguments + 1):
                r = instruction.registers[k]
                if r < 0:
                    arguments[k] = <char*>target + position * e.item
                    steps[k] = e.item
                else:
                    arguments[k] = data[r]
                    steps[k] = strides[r]
            if instruction.chain != NULL and steps[0] == 0:
                instruction.chain(arguments[0], arguments[1], 1, instruction.links, instruction.link_count)
                strides[instruction.registers[1]] = 0
            elif instruction.chain != NULL:
                instruction.chain(arguments[0], arguments[1], m, instruction.links, instruction.link_count)
            elif instruction.cast == NULL and instruction.loop == NULL:
                qc_choose(arguments, steps, m, <int>steps[3])
            elif instruction.cast == NULL:
                instruction.loop(instruction.context, arguments, &m, steps, instruction.auxdata)
            elif steps[0] == 0:
                instruction.cast(arguments[0], arguments[1], 1)
                strides[instruction.registers[1]] = 0
            else:
                instruction.cast(arguments[0], arguments[1], m)
        position += m
    if e.instruction_count > 0:
        qc_clear_float_flags()
    return 0


cdef struct ExpressionNode:
    StageFn run
    RowsWay way              # to make many rows at once
    const void* params
    int32_t given
    int32_t made
    int32_t first            # register of its first output; the others follow
    bint row                 # its inputs are registers one after the other
    int32_t* registers
    int32_t* places          # for each output, the graph's own output that it is, or -1

cdef struct GraphParams:
    ExpressionNode* nodes
    int32_t count
    int32_t given
    int32_t made
    int32_t registers
    int32_t most             # inputs of one node
    Cell* constants
    unsigned char* strings   # for each constant: it is a string
    int32_t constant_count
    int32_t* outputs


@cython.final
cdef class GraphStep(Step):
    """Steps that get what others made.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        Of the whole.
    constants : list of tuple
        ``(bytes, shape)``; of a string the shape is `None`.
    nodes : list of tuple
        ``(step, registers of its inputs, place of each output)``, in order. Registers are numbered: inputs, constants,
        what the first step makes, and so on. A place is the number of the graph's output that is made there, or -1.
    results : list of int
        The registers that are the outputs.
    """
    cdef GraphParams graph
    cdef list steps
    cdef list kept

    def __init__(self, tuple inputs, tuple outputs, list constants, list nodes, list results):
        cdef GraphParams* g = &self.graph
        cdef ExpressionNode* node
        cdef Cell* cell
        cdef Step step
        cdef bytes data
        cdef int32_t i, first
        cdef bint all_ways = True, some_rows = not nodes
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        if len(nodes) > MOST_STEPS:
            raise ValueError(f"{len(nodes)} steps")
        self.inputs = inputs
        self.outputs = outputs
        self.steps = [node_step for node_step, _, _ in nodes]
        self.kept = []
        g.nodes = <ExpressionNode*>calloc(len(nodes) + 1, sizeof(ExpressionNode))
        g.constants = <Cell*>calloc(len(constants) + 1, sizeof(Cell))
        g.strings = <unsigned char*>calloc(len(constants) + 1, 1)
        g.outputs = <int32_t*>calloc(len(results) + 1, sizeof(int32_t))
        if g.nodes == NULL or g.constants == NULL or g.strings == NULL or g.outputs == NULL:
            raise MemoryError
        g.given = <int32_t>len(inputs)
        g.made = <int32_t>len(results)
        for i in range(g.made):
            g.outputs[i] = results[i]
        for data, shape in constants:
            cell = &g.constants[g.constant_count]
            g.strings[g.constant_count] = shape is None
            g.constant_count += 1
            # A copy at an address for any item: bytes are not aligned.
            cell.data = <unsigned char*>malloc(len(data) + 1)
            if cell.data == NULL:
                raise MemoryError
            memcpy(cell.data, <const char*>data, len(data))
            cell.nbytes = len(data)
            for side in shape or ():
                cell.dims[cell.ndim] = side
                cell.ndim += 1
        g.registers = first = g.given + g.constant_count
        for step, registers, places in nodes:
            node = &g.nodes[g.count]
            g.count += 1
            node.registers = <int32_t*>calloc(len(registers) + 1, sizeof(int32_t))
            node.places = <int32_t*>calloc(len(places) + 1, sizeof(int32_t))
            if node.registers == NULL or node.places == NULL:
                raise MemoryError
            node.run = step.run
            node.way = rows_way(step, [g.given <= register < first for register in registers], self.kept)
            node.params = step.params
            all_ways = all_ways and node.way.run != NULL
            some_rows = some_rows or step.run_rows != NULL
            self.alone = self.alone or step.alone
            self.between += step.between + (row_bytes_of(step.outputs) if -1 in places else 0)
            node.first = g.registers
            node.row = True
            for register in registers:
                if not 0 <= register < g.registers:
                    raise ValueError(f"register {register}")
                node.registers[node.given] = register
                node.row = node.row and register == node.registers[0] + node.given
                node.given += 1
            for place in places:
                node.places[node.made] = place
                node.made += 1
            g.registers += node.made
            g.most = max(g.most, node.given)
        self.params = g
        self.run = _run_graph
        if all_ways and some_rows:
            self.run_rows = _rows_of_graph

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.graph.count):
            free(self.graph.nodes[i].registers)
            free(self.graph.nodes[i].places)
        for i in range(self.graph.constant_count):
            free(self.graph.constants[i].data)
        free(self.graph.nodes)
        free(self.graph.constants)
        free(self.graph.strings)
        free(self.graph.outputs)

    def parts(self):
        """The steps that it is made of, as of `Step.parts`."""
        return [part for step in self.steps for part in step.parts()]

    def remarks(self):
        """The sentences of a plan about its steps, as of `Step.remarks`."""
        return [remark for step in self.steps for remark in step.remarks()]

    cdef object explain(self, const Fault* fault):
        return explain_part(self.steps, fault)


cdef int _run_graph(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    return _rows_of_graph(params, inputs, outputs, 0, arena, fault)


cdef int _rows_of_graph(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                        Fault* fault) noexcept nogil:
    # With 0 rows: one element, of any shape.
    cdef const GraphParams* g = <const GraphParams*>params
    cdef const ExpressionNode* node
    cdef const Cell* node_inputs
    cdef int64_t nbytes = (g.registers + g.most) * <int64_t>sizeof(Cell)
    cdef Cell* cells = <Cell*>arena_take(arena, nbytes)
    cdef Cell* scratch
    cdef Cell* node_outputs
    cdef int32_t i, k
    cdef int64_t begin_ticks
    cdef int rc
    if cells == NULL:
        return step_fault(fault, WHOSE, nbytes, 0)
    scratch = cells + g.registers
    memcpy(cells, inputs, g.given * sizeof(Cell))
    memcpy(cells + g.given, g.constants, g.constant_count * sizeof(Cell))
    for i in range(g.count):
        node = &g.nodes[i]
        node_inputs = cells + node.registers[0]
        if not node.row:
            for k in range(node.given):
                scratch[k] = cells[node.registers[k]]
            node_inputs = scratch
        node_outputs = cells + node.first
        for k in range(node.made):
            node_outputs[k].data = NULL
            node_outputs[k].nbytes = 0
            node_outputs[k].offsets = NULL
            node_outputs[k].ndim = 0
            if node.places[k] >= 0:
                node_outputs[k].data = outputs[node.places[k]].data
                node_outputs[k].nbytes = outputs[node.places[k]].nbytes
                if arena.row_output == &outputs[node.places[k]]:
                    arena.row_output = &node_outputs[k]
        begin_ticks = step_begun(arena)
        if rows > 0:
            rc = node.way.run(node.way.params, node_inputs, node_outputs, rows, arena, fault)
        else:
            rc = node.run(node.params, node_inputs, node_outputs, arena, fault)
        step_ended(arena, node.params, begin_ticks)
        if rc != 0:
            fault.what = fault.what << WHOSE_BITS | i
            return -1
    for i in range(g.made):
        k = g.outputs[i] - g.given
        if rows == 0 or not 0 <= k < g.constant_count:
            outputs[i] = cells[g.outputs[i]]
        elif _repeat(&g.constants[k], g.strings[k], rows, &outputs[i], arena, fault) != 0:
            return -1
    return 0


cdef int _repeat(const Cell* constant, bint string, int64_t rows, Cell* out, Arena* arena, Fault* fault) noexcept nogil:
    # Makes a constant into a row for each element.
    cdef int64_t nbytes = rows * (<int64_t>sizeof(Span) if string else constant.nbytes), i
    cdef Span* spans = NULL
    if out.data == NULL:
        out.data = <bytes_out>arena_take(arena, nbytes + 1)
        if out.data == NULL:
            return step_fault(fault, WHOSE, nbytes, 0)
        if string:
            spans = <Span*>out.data
            out.offsets = <const int64_t*>spans
            out.data = NULL
    for i in range(rows):
        if spans != NULL:
            spans[i].data = constant.data
            spans[i].nbytes = constant.nbytes
        else:
            memcpy(out.data + i * constant.nbytes, constant.data, constant.nbytes)
    out.nbytes = rows * constant.nbytes
    return 0
