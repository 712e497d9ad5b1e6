"""Marks: places in a stream, while it runs and as they are saved."""
from bisect import bisect_left

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport CODE_RESUME, STAGE_ORDER, WHAT_NO_ERROR, fault_begin, fault_of, raise_error
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport BlockPlan
from queuecore._core.io.lanes cimport lanes_saved
from queuecore._core.order.lengths cimport lengths_add
from queuecore._core.order.runs cimport Missing
from queuecore._core.atoms.platform cimport layout_hash, size_product

check_layout(layout_hash())

# A mark as a list of numbers: MARK_NUMBERS of its own, then those of the lanes (lanes_save).
cdef enum:
    MARK_NUMBERS = 9
    LANE_HEAD = 3          # the next file, the lane whose turn it is, and the records of its turn
    LANE_NUMBERS = 5       # of each lane: file (-1: none), offset, number, line, records
    NUMBER_BITS = 62       # most bits of each number


cdef class ShuffleCounter:
    """A count of the iterations over a dataset object's shuffle.

    Attributes
    ----------
    next_iteration : int
        The number of the next iteration, 0 at first; iteration e takes the master generator's numbers 2e and 2e + 1.
    """


cdef int point_init(Point* point, const BlockPlan* frame) except -1:
    point.place.line = 1
    if frame.cycle > 1:
        point.lanes = <int64_t*>malloc(size_product(lanes_saved(frame.cycle) + 1, sizeof(int64_t)))
        if point.lanes == NULL:
            raise MemoryError
    return 0


cdef void point_free(Point* point) noexcept nogil:
    free(point.lanes)
    point.lanes = NULL


cdef bint _is_number(value, int64_t least=0):
    return isinstance(value, int) and least <= value < (<int64_t>1 << NUMBER_BITS)


@cython.final
cdef class Mark:
    """A place where a run over records without known places begins.

    Attributes
    ----------
    pass_, ordinal : int
        The pass and the number of the next record.
    good : int
        The number of good records before it in its pass.
    whole : int
        The number of good records of a whole pass; -1: unknown.
    file, offset, number, line, base : int
        The block that holds the record: its file, its offset there in bytes, the number of its first record in the file
        (below 0: it is of the header) and in the pass (`base`), and its first line.
    lanes : list of int
        The places of interleaved files; empty if none is interleaved.
    """

    @staticmethod
    def of(numbers):
        """Return the mark that has these numbers, as `Mark.numbers` returns them; None if they are no mark."""
        cdef Mark mark = Mark.__new__(Mark)
        if not isinstance(numbers, list) or len(numbers) < MARK_NUMBERS:
            return None
        if not all([_is_number(one, least) for one, least in zip(numbers, (0, 0, 0, -1, 0, 0, -(1 << 60), 0, 0))]):
            return None
        (mark.pass_, mark.ordinal, mark.good, mark.whole, mark.file, mark.offset, mark.number, mark.line,
         mark.base) = numbers[:MARK_NUMBERS]
        mark.lanes = numbers[MARK_NUMBERS:]
        if mark.good > mark.ordinal or mark.base > mark.ordinal or (mark.lanes and not _are_lanes(mark.lanes)):
            return None
        return mark

    def numbers(self):
        """Return the mark as a list of int, which JSON can store."""
        return [self.pass_, self.ordinal, self.good, self.whole, self.file, self.offset, self.number, self.line,
                self.base, *self.lanes]

    cdef bint fits(self, const BlockPlan* frame, int64_t files_known) except -1:
        cdef list lanes = self.lanes
        if self.file >= max(files_known, 1) or (frame.passes >= 0 and self.pass_ >= max(frame.passes, 1)):
            return False
        if self.good > self.ordinal or self.base > self.ordinal:
            return False
        if not lanes:
            return frame.cycle == 1 or (self.pass_ == 0 and self.ordinal == 0 and self.good == 0)
        return (frame.cycle > 1 and len(lanes) == lanes_saved(frame.cycle) and lanes[0] <= files_known
                and lanes[1] < frame.cycle and lanes[2] < frame.lane_records
                and all([-1 <= file < lanes[0] for file in lanes[LANE_HEAD::LANE_NUMBERS]]))


cdef bint _are_lanes(list lanes):
    if len(lanes) <= LANE_HEAD or (len(lanes) - LANE_HEAD) % LANE_NUMBERS != 0:
        return False
    if not all([_is_number(one) for one in lanes[:LANE_HEAD]]):
        return False
    return all([_is_number(one, (-1, 0, -(1 << 60), 0, 0)[at % LANE_NUMBERS]) for at,
                one in enumerate(lanes[LANE_HEAD:])])


cdef Mark mark_of(const Point* point, int64_t whole, const BlockPlan* frame):
    cdef Mark mark = Mark.__new__(Mark)
    # All numbers are copied first: making objects may let other calls in.
    mark.pass_, mark.ordinal, mark.good, mark.whole = point.start.pass_, point.start.ordinal, point.start.good, whole
    mark.file, mark.offset, mark.number, mark.line, mark.base = (
        point.place.file, point.place.offset, point.place.number, point.place.line, point.place.base)
    mark.lanes = numbers(point.lanes, lanes_saved(frame.cycle)) if point.has_lanes else []
    return mark


@cython.final
cdef class Saved:
    """A place as it is saved: all that a stream needs to go there.

    Attributes
    ----------
    elements : int
        The number of elements delivered.
    iterations, begun : list of int
        For each shuffle, the number of passes that had begun before this iterator, and the number that have begun
        since.
    files_known, files_digest : int
        The number of files that had been opened and measured, and the digest of their sizes and times.
    mark : Mark, optional
        The place where reading begins, if records have no known places.
    missing : list of list of int
        The pass and the number of each record that is left out.
    lengths : list of list of int
        Where the lengths of passes change: the pass, and the number of good records of each pass from there on (-1: the
        pass did not come to its end). The length of the first passes stands in `mark`.
    handed, breaks : list of list of int
        The pass and the number of the record of each element's error; of `breaks` also the level, and, if the error is
        not delivered yet, the numbers of its fault.
    seams : list of list of int
        For each place at which an error has cut a delivered batch short and need not come again: the pass, the number
        of the record that follows, and the number of good records before it.
    told : list of list of int
        The pass and the number of each record whose error came although its batch was dropped (`drop_remainder`).
    ended : list of list of int
        The pass and the number of each record before which an error has ended what a shuffle takes its elements from,
        so that they come in another order than without the error. If the error is not to come again, also whether it
        showed only when the record had left the shuffle (1, or 0), and the numbers of the fault.
    version : int
        The version of the stream's place, which changes with each change of the place.
    """


@cython.final
cdef class Goal:
    def __dealloc__(self):
        point_free(&self.at)
        free(self.missing)
        free(self.lengths.runs)
        free(self.pairs)
        free(self.base)
        free(self.begun)
        free(self.cuts)


cdef Goal goal_of(Saved saved, list seeds, list counters, int shuffles, bint blocks, const BlockPlan* frame,
                  int64_t files):
    cdef Goal goal = Goal.__new__(Goal)
    cdef Mark mark = saved.mark
    cdef int64_t i, whole_count = -1
    if (saved.elements < 0 or saved.files_known < 0 or saved.files_known > files
            or not len(saved.iterations) == len(seeds) == len(counters) == len(saved.begun) == shuffles):
        raise_error(CODE_RESUME, "the saved place does not fit this dataset's operations or files")
    if mark is not None if not blocks else mark is None or not mark.fits(frame, saved.files_known):
        raise_error(CODE_RESUME, "the saved place does not fit this dataset's files")
    point_init(&goal.at, frame)
    goal.missing_count = len(saved.missing)
    goal.missing = <Missing*>malloc(size_product(goal.missing_count + 1, sizeof(Missing)))
    goal.pairs = <uint64_t*>calloc(shuffles + 1, 2 * sizeof(uint64_t))
    goal.base = <int64_t*>calloc(shuffles + 1, sizeof(int64_t))
    goal.begun = <int64_t*>calloc(shuffles + 1, sizeof(int64_t))
    if goal.missing == NULL or goal.pairs == NULL or goal.base == NULL or goal.begun == NULL:
        raise MemoryError
    for i, (pass_, ordinal) in enumerate(saved.missing):
        goal.missing[i].pass_ = pass_
        goal.missing[i].ordinal = ordinal
    if mark is not None:
        goal.at.start.pass_, goal.at.start.ordinal, goal.at.start.good = mark.pass_, mark.ordinal, mark.good
        whole_count = mark.whole
        goal.at.place.file, goal.at.place.offset, goal.at.place.number, goal.at.place.line, goal.at.place.base = (
            mark.file, mark.offset, mark.number, mark.line, mark.base)
        goal.at.has_lanes = len(mark.lanes) > 0
        for i, number in enumerate(mark.lanes):
            goal.at.lanes[i] = number
    for pass_, number in [(0, whole_count)] * (whole_count >= 0) + [tuple(pair) for pair in saved.lengths]:
        if not lengths_add(&goal.lengths, pass_, number):
            raise MemoryError
    goal.handed = sorted((pass_, ordinal) for pass_, ordinal in saved.handed)
    goal.handed_pass, goal.handed_count = last_pass(goal.handed)
    goal.seams = sorted(tuple(seam) for seam in saved.seams)
    goal.told = sorted(tuple(place) for place in saved.told)
    goal.breaks = {tuple(entry[:3]): tuple(entry[3:]) or None for entry in saved.breaks}
    for i in range(shuffles):
        goal.pairs[2 * i], goal.pairs[2 * i + 1] = seeds[i]
        goal.base[i] = saved.iterations[i]
        goal.begun[i] = saved.begun[i]
    goal.cuts = cuts_of(saved.ended)
    goal.cut_count = len(saved.ended)
    if goal.cut_count > 0:
        goal.at.cut = CUT_LOST
    goal.counters = [<ShuffleCounter?>counter if counter is not None else None for counter in counters]
    return goal


cdef list numbers(const int64_t* some, int64_t n):
    cdef int64_t* copy = <int64_t*>malloc(size_product(n + 1, sizeof(int64_t)))
    cdef int64_t i
    if copy == NULL:
        raise MemoryError
    try:
        if n > 0:
            memcpy(copy, some, n * sizeof(int64_t))
        return [copy[i] for i in range(n)]
    finally:
        free(copy)


cdef Cut* cuts_of(list ends) except NULL:
    cdef Cut* cuts = <Cut*>calloc(len(ends) + 1, sizeof(Cut))
    cdef int32_t i
    if cuts == NULL:
        raise MemoryError
    try:
        for i, one in enumerate(ends):
            cut_expect(&cuts[i], one[0], one[1])
            if len(one) > 2:
                cuts[i].given = one[2]
                fault_of(&cuts[i].fault, one[3:])
    except BaseException:
        free(cuts)
        raise
    return cuts


cdef void cut_expect(Cut* cut, int64_t pass_, int64_t ordinal) noexcept nogil:
    memset(cut, 0, sizeof(Cut))
    fault_begin(&cut.fault, CODE_RESUME, WHAT_NO_ERROR, STAGE_ORDER)
    cut.pass_ = cut.fault.a = pass_
    cut.ordinal = cut.fault.b = ordinal


cdef int by_missing(const void* a, const void* b) noexcept nogil:
    cdef const Missing* x = <const Missing*>a
    cdef const Missing* y = <const Missing*>b
    if x.pass_ != y.pass_:
        return -1 if x.pass_ < y.pass_ else 1
    return -1 if x.ordinal < y.ordinal else (1 if x.ordinal > y.ordinal else 0)


cdef tuple last_pass(list handed):
    pass_ = handed[-1][0] if handed else -1
    return pass_, len(handed) - bisect_left(handed, (pass_, -1))
