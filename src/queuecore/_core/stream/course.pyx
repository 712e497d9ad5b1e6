"""Courses: the place of an iteration, and how it goes to another place."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport (
    CODE_HANDED, CODE_PRECONDITION, CODE_RESUME, WHAT_BEHIND, WHAT_NO_ERROR, fault_numbers, new_error, raise_error)
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.io.blocks cimport Place
from queuecore._core.io.handed cimport handed_lose, handed_lost
from queuecore._core.io.lanes cimport lanes_saved
from queuecore._core.stream.describe cimport Description
from queuecore._core.stream.left_out cimport LeftOut
from queuecore._core.stream.marks cimport (
    CUT_FAULT, CUT_LOST, CUT_NONE, CUT_SEAM, Goal, Saved, ShuffleCounter, cut_expect, cuts_of, mark_of, numbers,
    point_follow, point_free, point_init)
from queuecore._core.order.order cimport OP_PERMUTE, OP_SHUFFLE
from queuecore._core.order.lengths cimport lengths_add, lengths_at
from queuecore._core.order.op cimport PULL_FAULT, Cut, OpSpec
from queuecore._core.order.runs cimport Missing
from queuecore._core.order.store cimport store_failed
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.stream.discovery cimport discover_files
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.pipe cimport Beginning, Pipe, Plan
from queuecore._core.atoms.platform cimport Batch, Fault, kAcquire, layout_hash
from queuecore._core.io.sources cimport (
    FileTable, KnownFiles, entry_of, known_files_of, table_drop, table_extend, table_find, table_new)

check_layout(layout_hash())


@cython.no_gc_clear  # a finalizer may still ask for the place
cdef class Course:
    """The place of an iteration: the elements delivered, the next one, and the files and seeds that it goes on with."""

    def __cinit__(self, *_, **__):
        self.generation = fork_generation()
        self.expect_files = -1

    def __dealloc__(self):
        if self.generation == fork_generation():
            table_drop(self.table)
        free(self.specs)
        point_free(&self.at)
        point_free(&self.ahead)
        free(self.lengths.runs)
        free(self.base)
        free(self.begun)

    cdef int set_up(self, Description d, const Plan* plan, FileTable* table) except -1:
        cdef ShuffleCounter counter
        cdef int32_t i
        self.table = table
        self.plan = plan
        self.files = d.files
        self.outer = d.outer
        self.note_ends = d.note_ends
        self.drawn = d.drawn
        self.counters = d.ops.counters
        self.left_out = LeftOut.__new__(LeftOut)
        self.left_out.files = d.files
        self.left_out.headings = None if d.frames is None else d.frames.headings
        self.left_out.skips = d.skips
        if d.elements.components is not None:
            self.left_out.step = d.elements.step
        self.left_out.encoded = plan.blocks.encoding != 0
        point_init(&self.at, plan.blocks)
        point_init(&self.ahead, plan.blocks)
        self.specs = <OpSpec*>calloc(plan.spec_count + 1, sizeof(OpSpec))
        self.base = <int64_t*>calloc(d.ops.shuffles + 1, sizeof(int64_t))
        self.begun = <int64_t*>calloc(d.ops.shuffles + 1, sizeof(int64_t))
        if self.base == NULL or self.begun == NULL or self.specs == NULL:
            raise MemoryError
        memcpy(self.specs, plan.specs, plan.spec_count * sizeof(OpSpec))
        self.shuffles = d.ops.shuffles
        for i in range(self.shuffles):
            counter = self.counters[i]
            if counter is not None:
                self.specs[self._spec_of(i)].iteration = self.base[i] = counter.next_iteration
                counter.next_iteration += 1
        return 0

    cdef int begin(self, Beginning* begin) except -1:
        memset(begin, 0, sizeof(Beginning))
        begin.start = self.at.start
        begin.place = self.at.place
        begin.saved = self.at.lanes if self.at.has_lanes else NULL
        if self.at.has_lanes:
            self.at.lanes[lanes_saved(self.plan.blocks.cycle)] = 0
        begin.lengths = &self.lengths
        begin.specs = self.specs
        begin.skip = self.delivered
        self.left_out.seams = self._seams()
        if self.at.cut == CUT_SEAM:
            self.at.cut = CUT_NONE
        self.left_out.begin_run(begin, self.plan.config.blocks, self.shuffles > 0)
        return 0

    cdef void take(self, Pipe* p, const Batch* b, uint64_t k, int64_t elements) noexcept nogil:
        cdef int64_t n
        self.version += 1
        self.ahead.start.pass_ = self.ahead.pass_ = b.mark_pass
        self.ahead.start.ordinal = self.ahead.end = b.mark_end
        self.ahead.start.good = b.mark_good
        self.ahead.files = b.mark_files
        self.ahead.cut = b.cut
        self.ahead.seam.pass_, self.ahead.seam.ordinal, self.ahead.seam.good = b.seam[0], b.seam[1], b.seam[2]
        memcpy(&self.ahead.place, b.mark_place, sizeof(Place))
        if p.lane_marks != NULL:
            n = lanes_saved(p.plan.blocks.cycle) + 1
            memcpy(self.ahead.lanes, p.lane_marks + <int64_t>(k & p.window.mask) * n, n * sizeof(int64_t))
        if elements >= 0:
            self.delivered += elements
            point_follow(&self.at, &self.ahead)
            self._pass_mark(p)

    cdef void take_one(self, Pipe* p, bint is_last) noexcept nogil:
        self.version += 1
        self.delivered += 1
        point_follow(&self.at, &self.ahead)
        if is_last:
            self._pass_mark(p)

    cdef void tell_outer(self, Pipe* p, const Batch* b, Feed feed) noexcept:
        cdef Pipe* outer
        cdef bint is_told = False
        if b.cut < CUT_LOST or self.outer is None:
            return
        try:
            ends = None if self.note_ends is None else self.ends(p, feed)
            if ends is not None:
                self.note_ends(ends)
                is_told = True
        except BaseException:  # no memory, or a signal
            pass
        if is_told:
            return
        # Nobody can note it: there is no place behind what the other stream makes of these elements.
        outer = self.outer.pipe
        turn_take(outer.turn)
        handed_lose(outer.blocks)
        turn_give(outer.turn)

    cdef list ends(self, Pipe* p, Feed feed):
        cdef const Cut* cut
        cdef const Fault* f
        cdef int32_t i
        cdef list ends = []
        if self.left_out.cut_count == 0:
            return self._end_here(p, feed)
        for i in range(self.left_out.cut_count):
            cut = &self.left_out.cuts[i]
            f = &cut.fault
            if not self.left_out.comes_again(f, feed):
                return None
            if f.what == WHAT_NO_ERROR:
                ends.append([cut.pass_, cut.ordinal])
            else:
                ends.append([cut.pass_, cut.ordinal, int(cut.given), *fault_numbers(f)])
        return ends

    cdef list _end_here(self, Pipe* p, Feed feed):
        # Returns the record before which an error, which comes again, has ended what a shuffle takes its elements from.
        cdef int64_t pass_, ordinal
        cdef Fault f
        cdef bint interrupted
        if p == NULL:
            return None
        turn_take(p.turn)
        interrupted = (p.order.interrupted == PULL_FAULT and not (p.order.stored != NULL and store_failed(p.order))
                       and not handed_lost(p.blocks))
        pass_ = p.order.at.pass_
        ordinal = p.order.at.position
        f = p.order.fault
        turn_give(p.turn)
        return [[pass_, ordinal]] if interrupted and self.left_out.comes_again(&f, feed) else None

    cdef object cut_before(self, const Batch* b, Pipe* p, Feed feed):
        cdef object error
        # No run comes to that record.
        if b.fault.what == WHAT_BEHIND or self.left_out.is_cut(b.fault_pass, b.fault_ordinal):
            return self.left_out.error(&b.fault, feed)
        error = self.repeat_fault(p, feed)
        if error is None:
            self.left_out.cut(b.fault_pass, b.fault_ordinal, True, &b.fault)
        return error

    cdef object repeat_fault(self, Pipe* p, Feed feed):
        cdef const Fault* f = &p.order.fault
        cdef Cut expected
        if self.at.cut != CUT_FAULT:
            return None
        if handed_lost(p.blocks):
            return new_error(CODE_PRECONDITION,
                "an element could not be made, and those behind it can't be made in the order that they had: an "
                "error, which was to come at their end, has changed it. Go on from a state that was saved before")
        if p.order.interrupted != PULL_FAULT or self.left_out.cut_count > 0:
            return self.left_out.error(f, feed)
        if f.code == CODE_HANDED:  # its number is one of this run's feed: the next run meets the error itself
            cut_expect(&expected, p.order.at.pass_, p.order.at.position)
            f = &expected.fault
        self.left_out.cut(p.order.at.pass_, p.order.at.position, False, f)
        self.at.cut = CUT_LOST
        return None

    cdef int expect(self, list ends) except -1:
        self.left_out.check_faults([one[3:] or None for one in ends])
        self.left_out.cuts = cuts_of(ends)
        self.left_out.cut_count = len(ends)
        self.at.cut = CUT_LOST
        return 0

    cdef void count_iterations(self, Pipe* p, uint64_t k) noexcept:
        cdef const int64_t* iterations = &p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count]
        cdef ShuffleCounter counter
        cdef int i
        for i in range(self.shuffles):
            if iterations[i] == self.begun[i]:
                continue
            self.begun[i] = iterations[i]
            counter = <ShuffleCounter>self.counters[i]
            if counter is not None and counter.next_iteration < self.base[i] + iterations[i]:
                counter.next_iteration = self.base[i] + iterations[i]

    cdef void note_iterations(self, Pipe* p, uint64_t k) noexcept nogil:
        cdef const int64_t* begun = &p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count]
        cdef int32_t i
        for i in range(self.shuffles):
            self.begun[i] = begun[i]

    cdef void _pass_mark(self, Pipe* p) noexcept nogil:
        # Moves the mark: all elements up to the chunk's end are delivered, so a new run begins there.
        cdef int64_t pass_, total, left_out, i
        cdef Missing* m
        # A new run has the cuts from its beginning on. Behind a mark of later records a shuffle would never give the
        # record of a cut, and would keep other records: the mark stays.
        if not self.plan.config.blocks or (self.shuffles and self.left_out.cut_count):
            return
        for pass_ in range(self.at.start.pass_, self.ahead.start.pass_):
            # All bad records of the passes before `ahead` have been met, unless the order never asked for them.
            left_out = 0
            if pass_ == self.at.start.pass_:
                left_out = self.at.start.ordinal - self.at.start.good
                if self.left_out.handed_pass == pass_ and not self.shuffles:  # breaks count in a pass
                    left_out -= self.left_out.handed_count
            for i in range(p.order.ops[0].missing.count):  # the count is 0 if another operator leaves them out
                m = &self.left_out.missing[i]
                if m.pass_ == pass_ and (pass_ > self.at.start.pass_ or m.ordinal >= self.at.start.ordinal):
                    left_out += 1
            turn_take(p.turn)
            total = -1
            if pass_ < p.order.next_end or self.plan.blocks.kind.reads:
                total = lengths_at(&p.order.ends, pass_)
            turn_give(p.turn)
            if total < 0 and self.plan.blocks.kind.reads:  # all passes over files have the same length
                continue
            if not lengths_add(&self.lengths, pass_, total - left_out if total >= 0 else -1):
                return  # no memory: the mark stays, and a new run begins further back
        self.at.start = self.ahead.start
        self.at.place = self.ahead.place
        self.at.lanes, self.ahead.lanes = self.ahead.lanes, self.at.lanes
        self.at.has_lanes = self.at.lanes != NULL

    cdef Saved saved(self, Pipe* p, Feed feed):
        cdef Saved saved = Saved.__new__(Saved)
        cdef int64_t whole_count = -1
        cdef list lengths = numbers(<const int64_t*>self.lengths.runs, 2 * self.lengths.count)
        cdef list missing = numbers(<const int64_t*>self.left_out.missing, 2 * self.left_out.missing_count)
        saved.elements = self.delivered
        if self.files.names.count == 0:
            pass
        elif self.at.end > 0 or self.at.files != 0:  # errors alone lead on, too
            if self.plan.config.blocks and self.at.files >= 0:
                saved.files_known = self.at.files
            elif self.plan.config.blocks or self.at.pass_ > 0:
                saved.files_known = self.table.known_files.load(kAcquire)
            else:
                saved.files_known = table_find(self.table, self.at.end - 1, 0) + 1
            saved.files_digest = entry_of(self.table, saved.files_known - 1).digest
        elif self.expect_files > 0:  # restored, and nothing delivered since
            saved.files_known = self.expect_files
            saved.files_digest = self.expect_digest
        if self.plan.config.blocks:
            if lengths and lengths[0] == 0:  # mostly the only entry
                whole_count = lengths[1]
                del lengths[:2]
            saved.mark = mark_of(&self.at, whole_count, self.plan.blocks)
        saved.iterations = numbers(self.base, self.shuffles)
        saved.begun = numbers(self.begun, self.shuffles)
        saved.missing = [missing[i:i + 2] for i in range(0, len(missing), 2)]
        saved.lengths = [lengths[i:i + 2] for i in range(0, len(lengths), 2)]
        saved.handed = [list(place) for place in list(self.left_out.handed)]
        saved.seams = [list(seam) for seam in self._seams()]
        saved.told = sorted(list(place) for place in list(self.left_out.told))
        # A break that isn't delivered yet is saved too: it may have cut a delivered batch short, or have left a
        # shuffle.
        saved.ended = (self.ends(p, feed) or []) if self.at.cut >= CUT_LOST else []
        breaks = self.left_out.breaks  # a list of the keys is made at once; the consumer may be adding some
        saved.breaks = sorted([*place, *(breaks[place] or ())] for place in list(breaks))
        return saved

    cdef list _seams(self):
        # Returns the seams of the delivered batches.
        cdef list seams = list(self.left_out.seams)
        if self.at.cut == CUT_SEAM:
            seams.append((self.at.seam.pass_, self.at.seam.ordinal, self.at.seam.good))
        return seams

    cdef int extend(self) except -1:
        if not table_extend(self.table):
            raise MemoryError
        return 0

    cdef list digests(self, list upto):
        self._check_known(max(upto, default=0))
        return [entry_of(self.table, <int64_t>n - 1).digest for n in upto if n > 0]

    cdef list sizes(self, int64_t known):
        cdef int64_t i
        self._check_known(known)
        return [(entry_of(self.table, i).size, entry_of(self.table, i).mtime_ns) for i in range(known)]

    cdef int _check_known(self, int64_t files) except -1:
        if files > self.table.known_files.load(kAcquire):  # D2 acquire: pairs with D1 in sources.pyx
            raise IndexError(f"{files} files are not known yet")
        return 0

    cdef KnownFiles known(self, KnownFiles before):
        # D2 acquire: pairs with D1 in sources.pyx
        if before is not None and before.count >= self.table.known_files.load(kAcquire):
            return before
        return known_files_of(self.table)

    cdef FileTable* table_at(self, Saved place, check) except NULL:
        cdef FileTable* before = self.table
        cdef FileTable* t = table_new(self.files.names, before.record_bytes, before.header_bytes, before.footer_bytes,
                                      before.hop_bytes, before.tail, before.fd_limit)
        cdef int64_t i, n = place.files_known
        if t == NULL:
            raise MemoryError
        t.retries = self.plan.config.retries
        t.store = self.files.store_number
        try:
            discover_files(t, n)
            if check is not None:
                check([entry_of(t, i).digest for i in range(n)])
            elif n > 0 and entry_of(t, n - 1).digest != place.files_digest:
                raise_error(CODE_RESUME,
                    f"the first {n} files are not those of the saved state: a size or modification time differs")
        except BaseException:
            table_drop(t)
            raise
        return t

    cdef int arrive(self, Goal goal, Saved place, draws) except -1:
        cdef OpSpec* spec
        cdef int i
        self.left_out.missing, goal.missing = goal.missing, self.left_out.missing
        self.left_out.missing_count = goal.missing_count
        self.lengths, goal.lengths = goal.lengths, self.lengths
        self.at, goal.at = goal.at, self.at
        for i in range(self.shuffles):
            spec = &self.specs[self._spec_of(i)]
            spec.seed_lo, spec.seed_hi = goal.pairs[2 * i], goal.pairs[2 * i + 1]
            spec.iteration = self.base[i] = goal.base[i]
            self.begun[i] = goal.begun[i]
        self.left_out.cuts, goal.cuts = goal.cuts, self.left_out.cuts
        self.left_out.cut_count = goal.cut_count
        self.delivered = place.elements
        self.expect_files = place.files_known
        self.expect_digest = entry_of(self.table, place.files_known - 1).digest if place.files_known > 0 else 0
        self.version += 1
        self.left_out.handed_pass, self.left_out.handed_count = goal.handed_pass, goal.handed_count
        # The objects that these assignments release may run Python.
        self.left_out.handed = goal.handed
        self.left_out.seams = goal.seams
        self.left_out.told = goal.told
        self.left_out.breaks = goal.breaks
        self.counters = goal.counters
        self.drawn = draws
        return 0

    cdef int _spec_of(self, int shuffle):
        cdef int i, seen = 0
        for i in range(self.plan.spec_count):
            if self.specs[i].kind == OP_SHUFFLE or self.specs[i].kind == OP_PERMUTE:
                if seen == shuffle:
                    return i
                seen += 1
        return -1
