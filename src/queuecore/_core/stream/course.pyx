"""Courses: the place of an iteration, and how it goes to another place."""
cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from queuecore._core.atoms.errors cimport (
    CODE_PRECONDITION, CODE_RESUME, WHAT_NO_ERROR, fault_numbers, raise_error, raise_from)
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.io.blocks cimport Place
from queuecore._core.io.handed cimport handed_lose, handed_lost
from queuecore._core.io.lanes cimport lanes_saved
from queuecore._core.stream.meter cimport DEPTHS, SAMPLED
from queuecore._core.stream.marks cimport (
    CUT_LOST, CUT_SEAM, Goal, Saved, ShuffleCounter, cuts_of, mark_of, numbers, point_follow, point_free)
from queuecore._core.order.order cimport OP_PERMUTE, OP_SHUFFLE
from queuecore._core.order.lengths cimport lengths_add, lengths_at
from queuecore._core.order.op cimport PULL_FAULT, Cut, OpSpec
from queuecore._core.order.runs cimport Missing
from queuecore._core.order.store cimport store_failed
from queuecore._core.atoms.parking cimport event_has_waiters, event_notify_all, turn_give, turn_take
from queuecore._core.stream.feed cimport feed_taken
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.atoms.platform cimport Batch, Fault, kAcquire, kRelaxed, layout_hash
from queuecore._core.io.sources cimport (
    FileTable, KnownFiles, known_files_of, table_claim, table_discover, table_drop, table_find)
from queuecore._core.stream.traced cimport note_taken
from queuecore._core.stream.gate cimport STATE_RUNNING, CallGate, never_made
from queuecore._core.atoms.window cimport window_ready, window_take

check_layout(layout_hash())


@cython.no_gc_clear  # __dealloc__ needs the objects that a plan refers to
cdef class Course(CallGate):
    """The place of an iteration: the elements delivered, the next one, and the files and seeds that it goes on with."""

    def __dealloc__(self):
        if self.generation == fork_generation():
            table_drop(self.table)
        free(self.specs)
        point_free(&self.at)
        point_free(&self.ahead)
        free(self.lengths.runs)
        free(self.base)
        free(self.begun)

    cdef void _take(self, Pipe* p, Batch* b, uint64_t k, int64_t elements) noexcept nogil:
        # Gives batch k to the consumer, with so many elements; -1: as a chunk of elements, which come one by one.
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
        if k % SAMPLED == 0:
            self._count_ready(p, k)
        if elements >= 0:
            self.delivered += elements
            point_follow(&self.at, &self.ahead)
            self._pass_mark()
            if p.plan.config.ahead >= 0:
                feed_taken(p, 1 if p.plan.config.batched else b.rows)
        note_taken(p, b, k)
        self._pass_over(p, k)

    cdef void _pass_over(self, Pipe* p, uint64_t k) noexcept nogil:
        # Ends the use of batch k, whose descriptor is free from here on.
        self.next_k = k + 1
        window_take(p.window, k)
        # Workers that found the window full are woken once half of it is free: one wake for several batches.
        if (event_has_waiters(&p.runner.work)
                and p.shared.planned.load(kRelaxed) - self.next_k <= p.window.width // 2):  # relaxed: a hint
            event_notify_all(&p.runner.work)

    cdef void _count_ready(self, Pipe* p, uint64_t k) noexcept nogil:
        # Notes how many batches behind batch k are ready.
        cdef uint64_t n = 1
        cdef int32_t depth = 0
        while depth < DEPTHS - 1 and n < p.window.width and window_ready(p.window, k + n):
            depth += 1
            n *= 2
        self.ready[depth] += 1

    cdef void _lose(self, const Batch* b) noexcept:
        # The place of what the other stream makes of the elements from this batch on needs to know of the error. If
        # nobody can note it, there is no such place. Comes before the batch's rows are handed in.
        if b.cut < CUT_LOST or self.outer is None or self._note_ends():
            return
        turn_take(self.outer.pipe.turn)
        handed_lose(self.outer.pipe.blocks)
        turn_give(self.outer.pipe.turn)

    cdef list _ends(self):
        # Returns `ended` of the place; None: it can't be saved, as an error has changed the order that need not come
        # again: one of a read, or one that changed the order of a stream that works for this one.
        cdef const Cut* cut
        cdef const Fault* f
        cdef int32_t i
        cdef list ends = []
        if self.left_out.cut_count == 0:
            return self._end_here()
        for i in range(self.left_out.cut_count):
            cut = &self.left_out.cuts[i]
            f = &cut.fault
            if not self.left_out.comes_again(f, self._feed()):
                return None
            if f.what == WHAT_NO_ERROR:
                ends.append([cut.pass_, cut.ordinal])
            else:
                ends.append([cut.pass_, cut.ordinal, int(cut.given), *fault_numbers(f)])
        return ends

    cdef list _end_here(self):
        # Returns the record before which an error, which comes again, has ended what a shuffle takes its elements from.
        cdef Pipe* p = self.pipe
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
        return [[pass_, ordinal]] if interrupted and self.left_out.comes_again(&f, self._feed()) else None

    cdef Feed _feed(self):
        # Returns the feed of the run; None: it has none.
        return None

    cdef bint _note_ends(self) noexcept:
        if self.note_ends is None:
            return False
        try:
            ends = self._ends()
            if ends is not None:
                self.note_ends(ends)
        except BaseException:  # no memory, or a signal
            return False
        return ends is not None

    def expect_ends(self, list ends):
        """Expect, before the first call of ``next()``, that errors end the source; `ends`: as `Saved.ended`.

        If an error that is to come again does not, what comes before it is as if it did, and then comes a
        `ResumeMismatchError`.
        """
        self._check_made()
        self.left_out.check_faults([one[3:] or None for one in ends])
        self.left_out.cuts = cuts_of(ends)
        self.left_out.cut_count = len(ends)
        self.at.cut = CUT_LOST

    cdef void _count_all_iterations(self, Pipe* p, uint64_t k) noexcept:
        # Counts the iterations of shuffles that had begun when batch k was planned.
        cdef const int64_t* begun = &p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count]
        cdef ShuffleCounter counter
        cdef int i
        for i in range(self.shuffles):
            if begun[i] == self.begun[i]:
                continue
            self.begun[i] = begun[i]
            counter = <ShuffleCounter>self.counters[i]
            if counter is not None and counter.next_iteration < self.base[i] + begun[i]:
                counter.next_iteration = self.base[i] + begun[i]

    cdef void _pass_mark(self) noexcept nogil:
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
            for i in range(self.pipe.order.ops[0].missing.count):  # the count is 0 if another operator leaves them out
                m = &self.left_out.missing[i]
                if m.pass_ == pass_ and (pass_ > self.at.start.pass_ or m.ordinal >= self.at.start.ordinal):
                    left_out += 1
            turn_take(self.pipe.turn)
            total = -1
            if pass_ < self.pipe.order.next_end or self.plan.blocks.kind.reads:
                total = lengths_at(&self.pipe.order.ends, pass_)
            turn_give(self.pipe.turn)
            if total < 0 and self.plan.blocks.kind.reads:  # all passes over files have the same length
                continue
            if not lengths_add(&self.lengths, pass_, total - left_out if total >= 0 else -1):
                return  # no memory: the mark stays, and a new run begins further back
        self.at.start = self.ahead.start
        self.at.place = self.ahead.place
        self.at.lanes, self.ahead.lanes = self.ahead.lanes, self.at.lanes
        self.at.has_lanes = self.at.lanes != NULL

    cdef int _check_made(self) except -1:
        if self.generation != fork_generation():
            self._refuse()
        if self.table == NULL:
            never_made()
        return 0

    def oldest(self):
        """Return the pass and the number of the first row of its feed that the stream may need again: its block is made
        again."""
        return self.at.start.pass_, self.at.place.base

    def position(self):
        """Return the place behind the last delivered element as a `Saved`, and the `drawn` that belongs to it."""
        cdef Saved place
        cdef uint64_t version
        self._check_made()
        while True:
            version = self.version
            drawn = self.drawn
            place = self._place()
            place.version = version
            if version == self.version:  # making objects may let other calls in
                break
        return place, drawn

    def check_place(self):
        """Raise if an error has changed the order of the last element, so that the place behind it can't be saved."""
        if self.at.cut >= CUT_LOST and self._ends() is None:
            raise_from(CODE_PRECONDITION,
                "no place can be saved here: since an error has ended what a shuffle takes its elements from, they "
                "come in another order than they would without that error, which need not come again. Go on from a "
                "state that was saved before", self.failure)

    cdef Saved _place(self):
        cdef Saved saved = Saved.__new__(Saved)
        cdef int64_t whole = -1
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
            saved.files_digest = self.table.entries[saved.files_known - 1].digest
        elif self.expect_files > 0:  # restored, and nothing delivered since
            saved.files_known = self.expect_files
            saved.files_digest = self.expect_digest
        if self.plan.config.blocks:
            if lengths and lengths[0] == 0:  # mostly the only entry
                whole = lengths[1]
                del lengths[:2]
            saved.mark = mark_of(&self.at, whole, self.plan.blocks)
        saved.iterations = numbers(self.base, self.shuffles)
        saved.begun = numbers(self.begun, self.shuffles)
        saved.missing = [missing[i:i + 2] for i in range(0, len(missing), 2)]
        saved.lengths = [lengths[i:i + 2] for i in range(0, len(lengths), 2)]
        saved.handed = [list(place) for place in list(self.left_out.handed)]
        saved.seams = [list(seam) for seam in self._seams()]
        saved.told = sorted(list(place) for place in list(self.left_out.told))
        # A break that isn't delivered yet is saved too: it may have cut a delivered batch short, or have left a
        # shuffle.
        saved.ended = (self._ends() or []) if self.at.cut >= CUT_LOST else []
        breaks = self.left_out.breaks  # a list of the keys is made at once; the consumer may be adding some
        saved.breaks = sorted([*place, *(breaks[place] or ())] for place in list(breaks))
        return saved

    cdef list _seams(self):
        # Returns the seams of the delivered batches.
        cdef list seams = list(self.left_out.seams)
        if self.at.cut == CUT_SEAM:
            seams.append((self.at.seam.pass_, self.at.seam.ordinal, self.at.seam.good))
        return seams

    cdef int _check_known(self, int64_t files) except -1:
        self._check_made()
        if files > self.table.known_files.load(kAcquire):  # D2 acquire: pairs with D1 in sources.pyx
            raise IndexError(f"{files} files are not known yet")
        return 0

    def known_files(self, KnownFiles before=None):
        """Return the files that were found so far, for the stream of a later pass over them: `Description.known`.

        `before`: those that an earlier pass has found; they are returned if this one has found no more.
        """
        self._check_made()
        # D2 acquire: pairs with D1 in sources.pyx
        if before is not None and before.count >= self.table.known_files.load(kAcquire):
            return before
        return known_files_of(self.table)

    def digests(self, list upto):
        """Return, for each n in `upto` above 0, the digest of the sizes and times of the first n files when they were
        opened."""
        self._check_known(max(upto, default=0))
        return [self.table.entries[<int64_t>n - 1].digest for n in upto if n > 0]

    def sizes(self, int64_t known):
        """Return size in bytes and modification time in ns of the first `known` files when they were opened; (-1, 0):
        not opened."""
        self._check_known(known)
        return [(self.table.entries[i].size, self.table.entries[i].mtime_ns) for i in range(known)]

    cdef int _check_files(self, FileTable* t, Saved place, check) except -1:
        # Opens and measures the files that the place knows, and raises if they differ from those of the saved state.
        cdef int64_t i, _file, n = place.files_known
        with nogil:
            for _file in range(n):
                table_discover(t, table_claim(t, n))
        if check is not None:
            check([t.entries[i].digest for i in range(n)])
        elif n > 0 and t.entries[n - 1].digest != place.files_digest:
            raise_error(CODE_RESUME,
                f"the first {n} files are not those of the saved state: a size or modification time differs")
        return 0

    cdef int _arrive(self, Goal goal, Saved place, drawn) except -1:
        # Takes over the numbers of the goal, which frees the earlier ones. Nothing raises before all are taken over.
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
        self.expect_digest = self.table.entries[place.files_known - 1].digest if place.files_known > 0 else 0
        self.state = STATE_RUNNING
        self.told = False
        self.version += 1
        self.left_out.handed_pass, self.left_out.handed_count = goal.handed_pass, goal.handed_count
        # The objects that these assignments release may run Python.
        self.left_out.handed = goal.handed
        self.left_out.seams = goal.seams
        self.left_out.told = goal.told
        self.left_out.breaks = goal.breaks
        self.counters = goal.counters
        self.drawn = drawn
        self.chunk = None
        self.failure = None
        return 0

    cdef int _spec_of(self, int shuffle):
        cdef int i, seen = 0
        for i in range(self.plan.spec_count):
            if self.specs[i].kind == OP_SHUFFLE or self.specs[i].kind == OP_PERMUTE:
                if seen == shuffle:
                    return i
                seen += 1
        return -1
