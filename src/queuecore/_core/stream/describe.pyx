"""Descriptions: the work of a stream, with names and types, as Python describes it."""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, raise_error
from queuecore._core.atoms.growing cimport array_room
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.framing cimport FRAME_WHOLE, framing_of
from queuecore._core.stream.pipe cimport plan_free
from queuecore._core.stream.marks cimport ShuffleCounter
from queuecore._core.order.order cimport OP_BATCH, OP_PERMUTE, OP_REPEAT, OP_SHARD, OP_SHUFFLE, OP_SKIP, OP_TAKE
from queuecore._core.order.op cimport OpSpec
from queuecore._core.atoms.platform cimport Atomic, alloc_lines, kAcquire, kMostBytes, layout_hash, size_product
from queuecore._core.stream.maker cimport TAKE_LENGTHS, TAKE_STRINGS, Output
from queuecore._core.io.names cimport FileList
from queuecore._core.steps.stages cimport Step

check_layout(layout_hash())

# The kinds of components, for Python.
FIXED, STRING, STRINGS = KIND_FIXED, KIND_STRING, KIND_STRINGS
RAGGED, DENSE, OBJECT = KIND_RAGGED, KIND_DENSE, KIND_OBJECT


@cython.final
cdef class RowComponent:
    pass


cdef RowComponent component_of(int kind, dtype, shape):
    cdef RowComponent component = RowComponent.__new__(RowComponent)
    component.kind = kind
    component.dtype = dtype
    component.shape = tuple(shape)
    component.pad = -1
    return component


cdef int describe_output(Output* outputs, int32_t position, int32_t cell, RowComponent component,
                         int32_t* vars) except -1:
    cdef Output* out = &outputs[position]
    cdef size_t nbytes
    out.cell = cell
    if component.kind == KIND_OBJECT:
        out.row_bytes = sizeof(int64_t)
        return position + 1
    if component.kind == KIND_FIXED:
        nbytes = component.dtype.itemsize
        for side in component.shape:
            nbytes = size_product(nbytes, side)
        if nbytes > <size_t>kMostBytes:
            raise_error(CODE_EXHAUSTED,
                f"an array of {component.dtype} of shape {list(component.shape)} is more than can be made: at "
                f"most {kMostBytes} bytes")
        out.row_bytes = nbytes
        return position + 1
    out.var = vars[0]
    vars[0] += 1
    out.item = component.dtype.itemsize if component.dtype.itemsize and component.kind != KIND_STRINGS else 1
    if component.kind == KIND_DENSE:
        out.ndim = len(component.shape)
    elif component.kind == KIND_STRINGS:
        out.take = TAKE_STRINGS
        out = &outputs[position + 1]
        out.cell = cell
        out.take = TAKE_LENGTHS
        out.item = sizeof(int64_t)
        out.var = vars[0]
        vars[0] += 1
        return position + 2
    return position + 1


cdef int32_t describe_columns(Output* columns, int64_t* shapes, list components) except -1:
    cdef int32_t count = 0, vars = 0, i, j
    cdef RowComponent component
    cdef Output* out
    for i, (kind, dtype, shape) in enumerate(components):
        component = component_of(kind, dtype, shape)
        count = describe_output(columns, count, i, component, &vars)
        out = &columns[count - 1]
        if component.kind == KIND_RAGGED:  # steps need the shape of a row
            out.ndim = 1 + len(component.shape)
        elif component.kind == KIND_FIXED:
            out.ndim = len(component.shape)
        if component.kind == KIND_FIXED or component.kind == KIND_RAGGED:
            for j, side in enumerate(component.shape, out.ndim - len(component.shape)):
                shapes[(count - 1) * MAX_DIMS + j] = side
    return count


@cython.final
cdef class Records:
    """Records of one length, at known places of a file.

    Parameters
    ----------
    record_bytes, header_bytes, footer_bytes, hop_bytes : int
        Bytes of a record, of a file before its first record, behind its last one, and from the start of a record to the
        start of the next.
    drop_tail : bool
        Whether a last record that is cut short is left out; otherwise it is an error.
    """

    def __init__(self, int64_t record_bytes=1, int64_t header_bytes=0, int64_t footer_bytes=0, int64_t hop_bytes=1,
                 bint drop_tail=False):
        self.record_bytes = record_bytes
        self.header_bytes = header_bytes
        self.footer_bytes = footer_bytes
        self.hop_bytes = hop_bytes
        self.drop_tail = drop_tail


@cython.final
cdef class Frames:
    """Records whose places are found by reading, or that are handed in.

    Parameters
    ----------
    framing : str or None
        The name of the way in which records are told apart; `None`: rows are handed in.
    guess : int
        An estimate of a record's size in bytes.
    max_record_bytes : int
        The most bytes of a record; a longer one is an error.

    Attributes
    ----------
    encoding : int
        The number of the files' compression; 0: none.
    header : int
        Lines, or rows of CSV, that are left out at the top of each file.
    first_number : int
        Of the first file, if files are records: what random draws for its element depend on.
    cycle, lane_records : int
        The number of files that are interleaved, and the number of records that each gives in a row.
    piece_bytes, headroom : int
        Other sizes of a piece that is read at once and of the room before it, in bytes, for tests; 0: the usual ones.
    records : Records
        The places of records, for the framing "fixed".
    csv : CsvFormat, optional
    headings : callable, optional
        Returns the name of a column of CSV, given a file and the column's index; `None`: it has none.
    columns : list, optional
        The components of rows that are handed in.
    """

    def __init__(self, str framing, int64_t guess, int64_t max_record_bytes):
        self.handed = framing is None
        self.framing = FRAME_WHOLE if framing is None else framing_of(framing)
        self.guess = guess
        self.max_record_bytes = max_record_bytes
        self.cycle = self.lane_records = 1
        self.records = Records()


@cython.final
cdef class Elements:
    """Elements that are made of records.

    Parameters
    ----------
    template : nested
        The structure of an element, over its components.
    components : list of NativeComponent, optional
        The components: of each its kind (`FIXED`, `STRING`, `STRINGS`, `RAGGED`, `DENSE` or `OBJECT`), its dtype, and
        the shape of a row. Default: a record is cut into `leaves`.
    leaves : list of tuple
        The pieces of a record, as `RecordPlan` has them.
    step : Step, optional
        The step that makes the components; default: they are the record.
    assemble : callable, optional
        Makes an element from the list of its components, which may be batched.
    pads : list of tuple or None, optional
        For each component whose rows are padded, the size that each dimension gets (-1: the longest of a batch), and
        the bytes of an item.
    """

    def __init__(self, template, list components=None, list leaves=None, Step step=None, assemble=None, list pads=None):
        self.template = template
        self.components = components
        self.leaves = [] if leaves is None else leaves
        self.step = step
        self.assemble = assemble
        self.pads = [] if pads is None else pads

    def changed(self, **changes):
        """Return elements that differ in some parameters."""
        return Elements(**{"template": self.template, "components": self.components, "leaves": self.leaves,
                           "step": self.step,
                           "assemble": self.assemble, "pads": self.pads, **changes})


@cython.final
cdef class Ops:
    """The operators of an order, which decide the elements and their sequence; that on the records comes first."""

    def __cinit__(self):
        self.counters = []
        self.levels = []
        self.batch_rows = 1
        self.batch_level = -1

    def __dealloc__(self):
        free(self.specs)

    cdef OpSpec* _add(self, int32_t kind, int64_t size) except NULL:
        cdef OpSpec* specs = <OpSpec*>array_room(self.specs, self.count, &self.room, sizeof(OpSpec))
        if specs == NULL:
            raise MemoryError
        self.specs = specs
        specs = &self.specs[self.count]
        memset(specs, 0, sizeof(OpSpec))
        specs.kind = kind
        specs.size = size
        self.count += 1
        return specs

    cdef int _draws(self, OpSpec* spec, pair, bint reshuffle, ShuffleCounter counter) except -1:
        spec.seed_lo, spec.seed_hi = pair
        spec.flag = reshuffle
        self.counters.append(counter)
        self.shuffles += 1
        self.shuffle_level = self.count
        return 0

    def take(self, int64_t number):
        """Give only the first `number` elements; -1: all."""
        self._add(OP_TAKE, number)

    def skip(self, int64_t number):
        """Leave out the first `number` elements; -1: all."""
        self._add(OP_SKIP, number)

    def repeat(self, int64_t number):
        """Give all elements `number` times; -1: endlessly."""
        self._add(OP_REPEAT, number)

    def map(self):
        """Note that a map follows the operators so far: an error of the last map comes out above the operators before
        it."""
        self.map_level = self.count

    def batch(self, int64_t size, bint drop_remainder):
        """Stack `size` elements into one; `drop_remainder` leaves out a shorter last one."""
        cdef OpSpec* spec
        if size > (<int64_t>1 << 40) // self.batch_rows:
            raise_error(CODE_INVALID_ARGUMENT, f"a batch of {size} x {self.batch_rows} records is too large")
        spec = self._add(OP_BATCH, size)
        spec.flag = drop_remainder
        if self.batch_level < 0:
            self.batch_level = self.count - 1
        self.batch_rows *= size
        self.levels.append(size)

    def shuffle(self, int64_t buffer_size, pair, bint reshuffle, ShuffleCounter counter):
        """Draw from a window of `buffer_size` elements; `counter`, unless it is None, counts the passes."""
        if buffer_size >= <int64_t>1 << 31:
            raise_error(CODE_INVALID_ARGUMENT, f"buffer_size must be less than 2**31, not {buffer_size}")
        self._draws(self._add(OP_SHUFFLE, buffer_size), pair, reshuffle, counter)

    def permute(self, pair, bint reshuffle, ShuffleCounter counter):
        """Draw an order of all elements of a pass."""
        self._draws(self._add(OP_PERMUTE, 1), pair, reshuffle, counter)

    def shard(self, int64_t shards, int64_t index, int32_t uneven):
        """Give every `shards`-th element; `uneven` decides the fate of an incomplete last group (order/shard.pxd)."""
        cdef OpSpec* spec = self._add(OP_SHARD, shards)
        spec.index = index
        spec.uneven = uneven
        if shards > 1:
            self.shuffle_level = self.count


@cython.final
cdef class Description:
    """The description of a stream.

    Parameters
    ----------
    files : FileList
    elements : Elements
    records : Records, optional
        The places of records; if `frames` is given, reading finds them.
    frames : Frames, optional

    Attributes
    ----------
    ops : Ops
    num_threads : int
        The number of native workers.
    help : bool
        Whether the consumer works, too.
    prefetch : int
        Elements that are made ahead; -1: the user set no number.
    ahead : int
        Elements that are made ahead, and no more of those that a feed gets one by one; -1: as many as there is room
        for.
    at_a_time : int
        Elements that the consumer takes one after the other once it has taken one of them: `ahead` counts from the
        last.
    max_leases : int
        Batches that the consumer may hold.
    on_hold_raise : bool
        Whether holding more is an error.
    quiet : bool
        Whether nothing is said of batches that are held: the stream works for another one, or copies were asked for.
    retries : int
        How often a failed read is tried again.
    asks : bool
        Whether the request engine reads what is not in the page cache; otherwise the workers wait for that.
    depth : int
        Requests that it does at a time; 0: as many as are measured to be good.
    rings : bool
        Whether io_uring does those that it can do.
    drops : bool
        Whether the page cache forgets what was read.
    direct : bool
        Whether reads pass over the page cache, where the file system can do that.
    stall_warn, stall_timeout : float
        Seconds without progress after which the stream warns, or ends with an error; below 0: never.
    memory_budget : int
        Bytes that the stream's buffers may take, approximately; 0: no bound.
    memory_limit : int
        Bytes that the process may have; 0: unknown.
    skips : Quarantine, optional
        Gets the errors of elements that are left out; default: errors are raised.
    feeder : callable, optional
        For rows that are handed in: it is called with the `Feed` of each run and with `drawn`, and returns at once.
    settle_inputs : callable, optional
        For rows that are handed in: it is called at the end, and returns the error of a file that has changed since it
        was read, or None.
    scope : Scope, optional
        The scope of the functions that run for the stream.
    target : Target, optional
        The device that batches go to; all components must be `FIXED`.
    outer : Feed, optional
        The feed of the stream that this one works for.
    note_ends : callable, optional
        For a stream that works for another: it is called with `Saved.ended` when an error has ended what a shuffle
        takes its elements from. Default: nobody notes it, and what the other stream makes of the elements from there on
        has no place.
    drawn : object, optional
        An object that belongs to a place: `Stream.position` returns it, and `Stream.go_to` sets it.
    known : KnownFiles, optional
        The files as an earlier pass found them: one that is another by now is an error.
    """

    def __init__(self, FileList files not None, Elements elements not None, Records records=None, Frames frames=None):
        self.files = files
        self.elements = elements
        self.records = Records() if records is None else records
        self.frames = frames
        self.ops = Ops()
        self.num_threads = 1
        self.prefetch = self.ahead = -1
        self.at_a_time = 1
        self.max_leases = 4
        self.stall_warn = self.stall_timeout = -1
        self.asks = True


# The first of those that are kept: a chain, because a list would need memory to keep one, and threads would use what is
# gone.
cdef Keeper _kept = None


@cython.final
# a collection must not empty a keeper while threads use its objects: Python doesn't see the threads' references
@cython.no_gc
cdef class Keeper:
    def __cinit__(self):
        self.pipes = <Atomic[int32_t]*>alloc_lines(sizeof(int32_t))
        if self.pipes == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pipes)
        plan_free(self.plan)
        free(self.columns)


cdef Keeper keeper_new(Description d):
    global _kept
    cdef Keeper keeper = Keeper.__new__(Keeper)
    cdef Keeper node = _kept, next_node, used_list = None, unused_list = None
    while node is not None:
        next_node = node.after
        if node.pipes.load(kAcquire) != 0:  # acquire: pairs with _pipe_free in pipe.pyx
            node.after = used_list
            used_list = node
        else:
            node.after = unused_list
            unused_list = node
        node = next_node
    _kept = used_list
    while unused_list is not None:  # objects that they kept may run code that comes here again
        next_node = unused_list.after
        unused_list.after = None
        unused_list = next_node
    keeper.kept = [(d.elements.step, d.elements.pads), None if d.frames is None else d.frames.csv]
    return keeper


cdef void keep_until_unused(Keeper keeper) noexcept:
    global _kept
    keeper.after = _kept
    _kept = keeper
