# Runs of records by number: the lists in which operators of the order program hand them on, and the stores in which
# they keep them. The holder of the pipeline's turn alone uses this memory; nothing here waits or knows of operators.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.memory cimport malloc
from queuecore._core.io.blocks cimport RecordBlock
from queuecore._core.atoms.platform cimport map_pages, size_product, unmap_pages
from queuecore._core.atoms.growing cimport array_room

cdef enum:
    SCRATCH_RUNS = 1024  # room of a list that an operator pulls its input into, and the most records it asks for

# Consecutive records.
cdef struct Run:
    int64_t ordinal      # of the first record; out of a stored shuffle: the row of the store
    int64_t pass_        # of the source
    int64_t n
    RecordBlock* block   # the block that holds them; NULL: they are at a known place, or in the store
    int64_t first        # index of the first one among that block's records
    int64_t good         # records of the pass that came before them

# The result of a pull.
cdef struct RunList:
    Run* runs
    int32_t count
    bint closed          # the element that was open ends with the last row
    int64_t rows
    int64_t subs         # elements that the closed element is made of; 0: it is made of records

# The runs of one element, kept until they are given.
cdef struct Element:
    Run* runs
    int32_t count
    int64_t room
    int64_t rows
    int64_t subs         # as in RunList
    int32_t given        # runs given so far
    int64_t offset       # records given of the next run

# A record that is left out.
cdef struct Missing:
    int64_t pass_, ordinal

cdef struct MissingList:
    const Missing* records  # sorted
    int64_t count

# Numbers from 0 to capacity - 1, for the records or elements that a shuffle keeps. Numbers that were given back are
# taken first, so that a buffer larger than the data touches few pages.
cdef struct Ids:
    uint32_t* free_ids
    int64_t free_count
    int64_t fresh        # the first number that was never taken
    int64_t capacity

# A record that is kept.
cdef struct KeptRecord:
    int64_t ordinal, pass_
    RecordBlock* block   # as in Run; also NULL if the record is only played
    int64_t first

cdef struct KeptRecords:
    Ids ids
    KeptRecord* records        # by id


# Returns whether a record lies at a place or behind it.
cdef inline bint is_behind(int64_t pass_, int64_t ordinal, int64_t place_pass, int64_t place_ordinal) noexcept nogil:
    return pass_ > place_pass or (pass_ == place_pass and ordinal >= place_ordinal)


cdef inline bint is_missing(const MissingList* missing, int64_t pass_, int64_t ordinal) noexcept nogil:
    cdef int64_t low = 0, high = missing.count, middle
    cdef const Missing* m
    while low < high:
        middle = (low + high) // 2
        m = &missing.records[middle]
        if m.pass_ == pass_ and m.ordinal == ordinal:
            return True
        if is_behind(pass_, ordinal, m.pass_, m.ordinal):
            low = middle + 1
        else:
            high = middle
    return False


# Takes the first n records off a run.
cdef inline void run_from(Run* run, int64_t n) noexcept nogil:
    run.ordinal += n
    run.first += n
    run.good += n
    run.n -= n


cdef inline bint list_init(RunList* list_) noexcept nogil:
    list_.runs = <Run*>malloc(size_product(SCRATCH_RUNS, sizeof(Run)))
    return list_.runs != NULL


cdef inline void list_clear(RunList* list_) noexcept nogil:
    list_.count = 0
    list_.rows = 0
    list_.closed = False
    list_.subs = 0


cdef inline void list_append(RunList* out, int64_t ordinal, int64_t pass_, int64_t n, RecordBlock* block, int64_t first,
                             int64_t good_ordinal) noexcept nogil:
    cdef Run* last
    if out.count > 0:
        last = &out.runs[out.count - 1]
        if last.ordinal + last.n == ordinal and last.pass_ == pass_ and last.block == block:
            last.n += n
            out.rows += n
            return
    out.runs[out.count].ordinal = ordinal
    out.runs[out.count].pass_ = pass_
    out.runs[out.count].n = n
    out.runs[out.count].block = block
    out.runs[out.count].first = first
    out.runs[out.count].good = good_ordinal
    out.count += 1
    out.rows += n


# Appends the first n records of a run.
cdef inline void list_append_of(RunList* out, const Run* run, int64_t n) noexcept nogil:
    list_append(out, run.ordinal, run.pass_, n, run.block, run.first, run.good)


# False: no memory.
cdef inline bint element_append(Element* e, const Run* run) noexcept nogil:
    cdef Run* grown
    cdef Run* last
    e.rows += run.n
    if e.count > 0:
        last = &e.runs[e.count - 1]
        if last.ordinal + last.n == run.ordinal and last.pass_ == run.pass_ and last.block == run.block:
            last.n += run.n
            return True
    grown = <Run*>array_room(e.runs, e.count, &e.room, sizeof(Run))
    if grown == NULL:
        return False
    e.runs = grown
    e.runs[e.count] = run[0]
    e.count += 1
    return True


cdef inline bint element_append_all(Element* e, const RunList* list_) noexcept nogil:
    cdef int32_t i
    for i in range(list_.count):
        if not element_append(e, &list_.runs[i]):
            return False
    return True


cdef inline void element_clear(Element* e) noexcept nogil:
    e.count = 0
    e.rows = 0
    e.subs = 0
    e.given = 0
    e.offset = 0


# Appends up to max_rows records of the element. True: these were the last ones.
cdef inline bint element_give(Element* e, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Run* run
    cdef int64_t n, rows = 0
    while rows < max_rows and e.given < e.count:
        run = &e.runs[e.given]
        n = run.n - e.offset
        if n > max_rows - rows:
            n = max_rows - rows
        list_append(out, run.ordinal + e.offset, run.pass_, n, run.block, run.first + e.offset, run.good + e.offset)
        rows += n
        e.offset += n
        if e.offset == run.n:
            e.offset = 0
            e.given += 1
    out.closed = e.given == e.count
    out.subs = e.subs
    return out.closed


# False: no memory.
cdef inline bint ids_init(Ids* ids, int64_t capacity) noexcept nogil:
    ids.capacity = capacity
    ids.free_ids = <uint32_t*>map_pages(size_product(capacity, sizeof(uint32_t)))
    return ids.free_ids != NULL


cdef inline void ids_free(Ids* ids) noexcept nogil:
    unmap_pages(ids.free_ids, size_product(ids.capacity, sizeof(uint32_t)))


# -1: none is left.
cdef inline int64_t ids_take(Ids* ids) noexcept nogil:
    if ids.free_count > 0:
        ids.free_count -= 1
        return ids.free_ids[ids.free_count]
    if ids.fresh < ids.capacity:
        ids.fresh += 1
        return ids.fresh - 1
    return -1


cdef inline void ids_give(Ids* ids, int64_t id) noexcept nogil:
    ids.free_ids[ids.free_count] = <uint32_t>id
    ids.free_count += 1
