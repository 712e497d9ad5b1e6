"""Left out: records that a stream does without, and the errors of elements that come out in their places."""
import errno
from bisect import bisect_left

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport qsort
from libc.string cimport memmove
from queuecore._core.atoms.memory cimport calloc, free, realloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport Skipped
from queuecore._core.io.lanes cimport lanes_saved
from queuecore._core.atoms.errors cimport (
    CODE_EXHAUSTED, CODE_HANDED, CODE_RESUME, CODE_STEP, CODE_UNAVAILABLE, fault_error, fault_numbers, fault_of, is_own,
    raise_error, shown_name)
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.marks cimport Point, by_missing, last_pass
from queuecore._core.order.op cimport LEVEL_HANDED, LEVEL_SEAM, Break, Cut, Order, Start
from queuecore._core.order.runs cimport Missing
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.stream.pipe cimport Bad, Pipe
from queuecore._core.atoms.platform cimport Batch, Fault, FileEntry, kAcquire, layout_hash, size_product
from queuecore._core.io.names cimport name_of
from queuecore._core.io.sources cimport FileTable, entry_of, file_skippable, table_fault, table_find

from queuecore._core.io.csv import placed_text

check_layout(layout_hash())

# The reasons of failed calls that have to do with the files themselves.
cdef tuple LASTING = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)


cdef bint _source_leaves_out(const Order* order) noexcept nogil:
    # False: an operator above the source does. It must know them also where it plays what lies before the mark, since
    # there it is given all of them by number.
    cdef int i
    for i in range(1, order.count):
        if order.ops[i].leaves_out:
            return False
    return True


@cython.final
cdef class LeftOut:
    def __cinit__(self):
        self.handed = []
        self.seams = []
        self.told = []
        self.breaks = {}

    def __dealloc__(self):
        free(self.missing)
        free(self.cuts)

    cdef object error(self, const Fault* f, Feed feed):
        if f.code == CODE_HANDED:
            return feed.errors[<object>f.a]
        if f.code == CODE_STEP:
            return self._step_error(f)
        name = None if f.file < 0 else <bytes>name_of(self.files.names, f.file)
        return fault_error(f, name, self.headings, self.files.store_number)

    cdef object final_error(self, const Fault* f, Feed feed):
        error = self.error(f, feed)
        if self.last is not None and fault_numbers(f) == fault_numbers(&self.last_fault):
            error = self.last
        return error

    cdef bint comes_again(self, const Fault* f, Feed feed) noexcept:
        cdef object error
        if f.code == CODE_HANDED:
            error = feed.errors.get(<object>f.a)
            return not isinstance(error, MemoryError) and getattr(error, "errno", None) in LASTING
        return f.code != CODE_EXHAUSTED and f.code != CODE_UNAVAILABLE

    cdef object _step_error(self, const Fault* f):
        cdef object error = self.step.explain(f)
        text = placed_text(error)
        error.stage = "map"
        error.record = f.record if f.record >= 0 else None
        if f.file < 0:
            error.args = (f"{text} (element {f.record})",)
            return error
        error.path = shown_name(<bytes>name_of(self.files.names, f.file))
        where = f"record {f.record}"
        if f.offset >= 0:
            error.offset = f.offset
            where += f", at byte {f.offset}"
        error.args = (f"{text} ({where} of {error.path!r})",)
        return error

    cdef int cut(self, int64_t pass_, int64_t ordinal, bint is_given, const Fault* f) except -1:
        cdef Cut* cuts = <Cut*>realloc(self.cuts, size_product(self.cut_count + 1, sizeof(Cut)))
        cdef Cut* last
        if cuts == NULL:
            raise MemoryError
        self.cuts = cuts
        last = &cuts[self.cut_count]
        last.pass_ = pass_
        last.ordinal = ordinal
        last.given = is_given
        last.fault = f[0]
        self.cut_count += 1
        return 0

    cdef bint is_cut(self, int64_t pass_, int64_t ordinal) noexcept:
        cdef int32_t i
        for i in range(self.cut_count):
            if self.cuts[i].pass_ == pass_ and self.cuts[i].ordinal == ordinal:
                return True
        return False

    cdef bint take_bad(self, Pipe* p, Feed feed, const Start* mark) except -1:
        cdef Missing* grown
        cdef Bad* entry
        cdef int64_t n = p.bad_count, i, count
        if n == 0:
            return False
        qsort(p.bad, n, sizeof(Bad), by_missing)
        if p.plan.config.tell_bad:
            for i in range(n):
                entry = &p.bad[i]
                self.breaks[entry.place.pass_, entry.place.ordinal, entry.level] = fault_numbers(&entry.fault)
            return True
        grown = <Missing*>realloc(self.missing, size_product(self.missing_count + n, sizeof(Missing)))
        if grown == NULL:
            raise MemoryError
        self.missing = grown
        count = self.missing_count
        for i in range(n):
            entry = &p.bad[i]
            try:
                self.skips.skip(self.error(&entry.fault, feed))
            except Exception as error:
                if not is_own(error):
                    raise
                self.last = error
                self.last_fault = entry.fault
                self.cut(entry.place.pass_, entry.place.ordinal, True, &entry.fault)
                break
            self.missing[count] = entry.place
            count += 1
        self.missing_count = count
        qsort(self.missing, count, sizeof(Missing), by_missing)
        if p.plan.config.blocks and _source_leaves_out(p.order):  # records before the mark are never met again
            i = 0
            while i < count and (self.missing[i].pass_ < mark.pass_
                                 or (self.missing[i].pass_ == mark.pass_ and self.missing[i].ordinal < mark.ordinal)):
                i += 1
            memmove(self.missing, self.missing + i, (count - i) * sizeof(Missing))
            self.missing_count = count - i
        return True

    cdef int64_t broke(self):
        cdef int64_t n = len(self.handed) + len(self.seams)
        for error in self.breaks.values():
            n += error is None
        return n

    cdef int begin_run(self, Beginning* begin, bint blocks, bint shuffled) except -1:
        # Before the run's start, the order counts only records that were good or given as good: the numbers of breaks
        # there are converted.
        cdef int64_t i, break_count
        cdef const Start* mark = &begin.start
        cdef dict counts = {}
        cdef object start = (0, 0)
        if blocks:
            start = mark.pass_, mark.ordinal
        begin.missing = self.missing
        begin.missing_count = self.missing_count
        begin.cuts = self.cuts
        begin.cut_count = self.cut_count
        handed = self.handed[:bisect_left(self.handed, start)]
        played = []
        for pass_, ordinal in handed:
            break_count = counts.get(pass_, 0)
            counts[pass_] = break_count + 1
            ordinal -= break_count
            if pass_ == mark.pass_ and ordinal > mark.good and not shuffled:  # breaks before it are forgotten
                ordinal = mark.good
            played.append((pass_, ordinal, LEVEL_HANDED))
        places = [(*place, LEVEL_HANDED) for place in self.handed[len(handed):]]
        for pass_, ordinal, good_ordinal in self.seams:
            if (pass_, ordinal) >= start:
                places.append((pass_, ordinal, LEVEL_SEAM))
            elif shuffled:
                break_count = bisect_left(handed, (pass_, ordinal)) - bisect_left(handed, (pass_, -1))
                played.append((pass_, ordinal - break_count, LEVEL_SEAM))
            else:
                played.append((pass_, good_ordinal, LEVEL_SEAM))
        played.sort()
        places.sort()
        begin.handed = <Break*>calloc(len(played) + len(places) + 1, sizeof(Break))
        if begin.handed == NULL:
            raise MemoryError
        for i, (pass_, ordinal, level) in enumerate([*played, *places]):
            begin.handed[i].pass_ = pass_
            begin.handed[i].ordinal = ordinal
            begin.handed[i].level = level
        begin.handed_count = len(played)
        begin.known_count = len(places)
        if handed and shuffled:  # a shuffle lets all other bad records in
            begin.start.good = mark.ordinal - counts.get(start[0], 0)
        breaks = sorted((level, pass_, ordinal) for pass_, ordinal, level in self.breaks)
        begin.breaks = <Break*>calloc(len(breaks) + 1, sizeof(Break))
        if begin.breaks == NULL:
            raise MemoryError
        for i, (level, pass_, ordinal) in enumerate(breaks):
            if handed and (pass_, ordinal) < start:
                ordinal -= bisect_left(handed, (pass_, ordinal)) - bisect_left(handed, (pass_, -1))
            begin.breaks[i].level = level
            begin.breaks[i].pass_ = pass_
            begin.breaks[i].ordinal = ordinal
        begin.break_count = len(breaks)
        if blocks:  # records before the mark are never owed again
            self.told = [place for place in self.told if place >= start]
        told_places = sorted(self.told)
        begin.told = <Missing*>calloc(len(told_places) + 1, sizeof(Missing))
        if begin.told == NULL:
            raise MemoryError
        for i, (pass_, ordinal) in enumerate(told_places):
            begin.told[i].pass_ = pass_
            begin.told[i].ordinal = ordinal
        begin.told_count = len(told_places)
        begin.skip_breaks = self.broke()
        return 0

    cdef object break_error(self, const Batch* b, Feed feed):
        cdef Fault f
        if b.fault_row < 0:
            return feed.errors[<object>b.fault.a]
        fault_of(&f, self.breaks[b.fault_pass, b.fault_ordinal, b.fault_row])
        return self.error(&f, feed)

    cdef bint deliver_break(self, const Batch* b, Feed feed) except *:
        if b.fault_row >= 0:
            self.breaks[b.fault_pass, b.fault_ordinal, b.fault_row] = None
            return False
        self.handed.append((b.fault_pass, b.fault_ordinal))
        feed.errors.pop(<object>b.fault.a)
        return True

    cdef int check_faults(self, faults) except -1:
        # Each of the numbers goes to the function that makes the error, or is an index there: if it makes one, the
        # numbers are good.
        cdef Fault f
        for numbers in faults:
            if numbers is None:
                continue
            fault_of(&f, numbers)
            try:
                good = f.code != CODE_HANDED and -1 <= f.file < self.files.names.count and is_own(self.error(&f, None))
            except Exception:
                good = False
            if not good:
                raise_error(CODE_RESUME, "the state is damaged: it has an error that this dataset's elements can't "
                                         "have")
        return 0

    cdef int count_handed(self, int64_t pass_) except -1:
        self.handed_count = self.handed_count + 1 if self.handed_pass == pass_ else 1
        self.handed_pass = pass_
        return 0

    cdef int forget_handed(self, int64_t pass_, int64_t base) except -1:
        cdef int64_t i = bisect_left(self.handed, (pass_, base))
        if i > 0:
            del self.handed[:i - (self.handed[i - 1][0] == pass_)]
            self.handed_pass, self.handed_count = last_pass(self.handed)
        return 0

    cdef object log_files(self, Pipe* p, FileTable* table, const Point* point, bint all_, Feed feed):
        cdef Fault f
        cdef Skipped given_up
        cdef FileEntry* e
        cdef int64_t n, until
        cdef object error
        if self.skips is None or self.files.names.count == 0:
            return None
        if p.blocks != NULL:
            while True:
                turn_take(p.turn)
                n = p.blocks.skipped_count - self.files_logged
                if n > 0:
                    given_up = p.blocks.skipped[self.files_logged]
                turn_give(p.turn)
                if n <= 0:
                    return None
                if all_:
                    pass
                elif p.plan.blocks.cycle > 1:
                    if not point.has_lanes or self.files_logged >= point.lanes[lanes_saved(p.plan.blocks.cycle)]:
                        return None
                elif not (given_up.pass_ < point.start.pass_
                          or (given_up.pass_ == point.start.pass_ and given_up.fault.file < point.place.file)):
                    return None
                self.files_logged += 1
                error = self.log_file(&given_up.fault, table, feed)
                if error is not None:
                    return error
        until = table.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
        if not all_ and point.pass_ == 0:
            until = table_find(table, point.end - 1, 0) if point.end > 0 else 0
        while self.table_logged < until:
            e = entry_of(table, self.table_logged)
            self.table_logged += 1
            if e.code != 0 and file_skippable(e.code, e.what, e.err):
                table_fault(table, self.table_logged - 1, &f)
                error = self.log_file(&f, table, feed)
                if error is not None:
                    return error
        return None

    cdef object log_file(self, const Fault* f, FileTable* table, Feed feed):
        cdef FileEntry* e = entry_of(table, f.file)
        cdef object nbytes = None
        if e.size >= 0 and f.offset >= 0 and not self.encoded:
            nbytes = e.size - f.offset
        try:
            self.skips.skip(self.error(f, feed), file=True, nbytes=nbytes)
        # One file too many; or the call was cut short, and may or may not have counted and logged it.
        except BaseException as last:
            return last
        return None
