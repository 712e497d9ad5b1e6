"""Reading ahead of files whose bytes come by requests. See ahead.pxd for the contract."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.parking cimport event_notify_all, turn_give, turn_take
from queuecore._core.atoms.platform cimport Atomic, alloc_lines, kAcqRel, kRelaxed, layout_hash
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout, fork_generation

check_layout(layout_hash())

cdef extern from "<cerrno>" nogil:
    const int ECANCELED

cdef enum:
    # Most bytes of a request, however many files are open at least these; how many requests are under way or wait to be
    # read, and their bytes. Each request costs a server some tenths of a millisecond, whatever its size.
    MOST_BYTES = 8 << 20
    LEAST_BYTES = 256 << 10
    REQUESTS = 8
    ASKED = 9              # what one reader asks for at a time
    WINDOW_BYTES = 64 << 20
    # What all files of a process may read ahead.
    ALL_BYTES = 256 << 20
    # How many ranges are kept that nobody has read to their end.
    MOST_KEPT = 16
    # After how many ranges that follow each other others are begun before their turn: two that do so by chance are
    # rare.
    SURE = 2
    # By how much a range is longer than the one that it follows; the first one of a file follows so many bytes.
    LONGER = 4
    FIRST_BYTES = 128 << 10
    # From so many bytes on, a range lies in pages that are kept for further ones.
    PAGES_BYTES = 128 << 10

cdef Atomic[int32_t] _files_read  # of which ranges are listed


cdef void _free_bytes(unsigned char* data, int64_t nbytes) noexcept nogil:
    if nbytes >= PAGES_BYTES:
        buffer_give(data, nbytes)
    else:
        free(data)


cdef void _free_ranges(AheadFile* a, AheadRange* r) noexcept nogil:
    # One buffer stays with a file that is read: each that is given back costs the kernel a walk over its pages.
    cdef AheadRange* next
    cdef unsigned char* data
    cdef int64_t nbytes
    if r == NULL:
        return
    while r != NULL:
        next = r.next
        data, nbytes = r.data, r.stop - r.start
        free(r)
        turn_take(&a.turn)
        if a.count > 0 and nbytes >= PAGES_BYTES and data != NULL:
            a.spare, data = data, a.spare
            a.spare_bytes, nbytes = nbytes, a.spare_bytes
        turn_give(&a.turn)
        _free_bytes(data, nbytes)
        r = next
    _free_spare(a)


cdef void _free_spare(AheadFile* a) noexcept nogil:
    # Frees the buffer of a file of which nothing is read now.
    cdef unsigned char* data = NULL
    cdef int64_t nbytes = 0
    turn_take(&a.turn)
    if a.count == 0:
        data, nbytes = a.spare, a.spare_bytes
        a.spare = NULL
        a.spare_bytes = 0
    turn_give(&a.turn)
    _free_bytes(data, nbytes)


cdef void _expect_beginning(AheadFile* a) noexcept nogil:
    # Lets what is read next be the file's beginning, if it is near.
    a.ends[0].at, a.ends[0].followed, a.ends[0].nbytes = 0, 0, FIRST_BYTES
    a.ends_count = 1


cdef AheadFile* ahead_new(int64_t size) noexcept nogil:
    cdef AheadFile* a = <AheadFile*>alloc_lines(sizeof(AheadFile))
    if a == NULL:
        return NULL
    a.size = size
    a.stuck = -1
    a.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    _expect_beginning(a)
    a.generation = fork_generation()
    return a


cdef void ahead_drop(AheadFile* a) noexcept nogil:
    # acq_rel: release, this holder is done; acquire, the last one frees what all wrote
    cdef AheadRange* dead = NULL
    cdef AheadFile* next
    if a.refs.fetch_sub(1, kAcqRel) == 1:
        _unlist_all(a, &dead)  # what was read after ahead_close
        _free_ranges(a, dead)
        next = a.next
        free(a)
        if next != NULL:
            ahead_drop(next)


# Under the turn

cdef void _let_go(AheadRange* r, AheadRange** dead) noexcept nogil:
    # Ends a reference. The caller frees what comes to the list `dead`, without the turn.
    r.refs -= 1
    if r.refs == 0:
        r.next = dead[0]
        dead[0] = r


cdef void _unlist(AheadFile* a, AheadRange* r, AheadRange** dead) noexcept nogil:
    cdef AheadRange** link = &a.first
    if not r.listed:
        return
    while link[0] != r:
        link = &link[0].next
    link[0] = r.next
    r.next = NULL
    r.listed = False
    if a.spent == r:
        a.spent = NULL
    a.count -= 1
    if a.count == 0:
        _files_read.fetch_sub(1, kRelaxed)  # relaxed: it only shares out room, as does each access to it
    _let_go(r, dead)


cdef void _unlist_all(AheadFile* a, AheadRange** dead) noexcept nogil:
    while a.first != NULL:
        _unlist(a, a.first, dead)


cdef AheadRange* _find(AheadFile* a, int64_t offset) noexcept nogil:
    cdef AheadRange* r = a.first
    while r != NULL and not r.start <= offset < r.stop:
        r = r.next
    return r


cdef AheadEnd _end_at(AheadFile* a, int64_t offset) noexcept nogil:
    # Takes the end at an offset out. A range that begins elsewhere follows none.
    cdef AheadEnd end
    cdef int32_t i, j
    end.at, end.followed, end.nbytes = offset, -1, 0
    for i in range(a.ends_count):
        if a.ends[i].at == offset:
            end = a.ends[i]
            a.ends_count -= 1
            for j in range(i, a.ends_count):
                a.ends[j] = a.ends[j + 1]
            break
    return end


cdef int64_t _place_for(AheadFile* a, int64_t offset) noexcept nogil:
    # Returns where the range of a reader begins: at an end shortly before, since of several readers that go on there
    # the first one may come last. No listed range has the offset.
    cdef AheadRange* r = a.first
    cdef int64_t behind = 0, place = -1
    cdef int32_t i
    while r != NULL:
        if r.stop <= offset:
            behind = max(behind, r.stop)
        r = r.next
    for i in range(a.ends_count):
        if behind <= a.ends[i].at <= offset < a.ends[i].at + a.ends[i].nbytes:
            place = max(place, a.ends[i].at)
    return offset if place < 0 else place


cdef void _note_end(AheadFile* a, const AheadRange* r) noexcept nogil:
    cdef AheadEnd* end
    _end_at(a, r.stop)
    if a.ends_count == MOST_ENDS:
        _end_at(a, a.ends[0].at)
    end = &a.ends[a.ends_count]
    end.at, end.followed, end.nbytes = r.stop, r.followed, r.stop - r.start
    a.ends_count += 1


cdef int64_t _window() noexcept nogil:
    # Returns what one file may have read ahead.
    cdef int64_t files = max(<int64_t>_files_read.load(kRelaxed), <int64_t>1)  # relaxed: as in _unlist
    return ALL_BYTES // files


cdef AheadRange* _add(AheadFile* a, int64_t offset, int64_t nbytes, AheadRange** dead) noexcept nogil:
    # Adds the range that begins at an offset, of so many bytes or more; NULL: no memory.
    cdef AheadRange* r = <AheadRange*>malloc(sizeof(AheadRange))
    cdef AheadRange** link = &a.first
    cdef AheadRange* done = NULL
    cdef AheadEnd last_end
    cdef int64_t limit = min(<int64_t>MOST_BYTES, max(_window() // REQUESTS, <int64_t>LEAST_BYTES)), stop = a.size
    if r == NULL:
        return NULL
    last_end = _end_at(a, offset)
    while link[0] != NULL:
        if link[0].start > offset:
            stop = min(stop, link[0].start)
        if done == NULL and link[0].state == RANGE_HERE:
            done = link[0]
        link = &link[0].next
    r.start, r.stop = offset, min(stop, offset + min(max(nbytes, LONGER * last_end.nbytes), limit))
    r.next = NULL
    r.followed, r.unread = last_end.followed + 1, r.stop - offset
    r.refs, r.state, r.error = 1, RANGE_ASKED, 0
    r.listed, r.wanted = True, False
    r.data = NULL
    link[0] = r
    a.ended = a.ended and offset > 0
    if a.count == 0:
        _files_read.fetch_add(1, kRelaxed)  # relaxed: as in _unlist
    a.count += 1
    _note_end(a, r)
    if a.count > MOST_KEPT and done != NULL:
        _unlist(a, done, dead)
    return r


cdef int64_t _ahead_of(const AheadFile* a, const AheadRange* current) noexcept nogil:
    # Returns how many of the bytes behind a range are asked for early.
    if current.followed < SURE or (a.single and current.state != RANGE_HERE):
        return 0
    if a.single:
        return 1
    return min(REQUESTS * (current.stop - current.start), <int64_t>WINDOW_BYTES, _window())


cdef int32_t _add_ahead(AheadFile* a, int64_t front, int64_t end, int64_t nbytes, AheadRange** ranges,
                        AheadRange** dead) noexcept nogil:
    # Adds ranges of so many bytes or more, until those that are listed have all bytes from `front` to `end`; returns
    # how many.
    cdef AheadRange* r
    cdef int32_t count = 0
    end = min(end, a.size)
    while front < end and count < REQUESTS and front != a.stuck:
        r = _find(a, front)
        if r == NULL:
            r = _add(a, front, nbytes, dead)
            if r == NULL:
                break
            r.refs += 1
            ranges[count] = r
            count += 1
        front = r.stop
    return count


# Readers

cdef int64_t _copied(AheadFile* a, AheadRange* r, void* to, int64_t nbytes, int64_t offset) noexcept nogil:
    # Copies from a range that is here.
    cdef AheadRange* dead = NULL
    nbytes = min(nbytes, r.stop - offset)
    memcpy(to, r.data + (offset - r.start), nbytes)
    turn_take(&a.turn)
    r.unread -= nbytes
    if r.unread <= 0 and r.listed and a.spent != r:
        if a.spent != NULL:
            _unlist(a, a.spent, &dead)
        a.spent = r
        a.ended = a.ended or r.stop == a.size
        if a.ended and a.count == 1:  # the file was read: it takes no more room
            _unlist(a, r, &dead)
            _expect_beginning(a)
    turn_give(&a.turn)
    _free_ranges(a, dead)
    return nbytes


cdef void _ask(AheadFile* a, AheadRange** asked, int32_t count) noexcept nogil:
    cdef int32_t i
    for i in range(count):
        if not a.ask(a, asked[i]):
            ahead_done(a, asked[i], ENOMEM)


cdef void _begin_early(AheadFile* a, int64_t end) noexcept nogil:
    # Asks for a file up to `end`, before anybody reads of it, in ranges as long as those of a long file become.
    cdef AheadRange* ranges[ASKED]
    cdef AheadRange* dead = NULL
    cdef int32_t count = 0
    turn_take(&a.turn)
    if not a.begun:
        if a.count == 0:
            _expect_beginning(a)
            a.ends[0].followed, a.ends[0].nbytes = SURE, MOST_BYTES // LONGER
        count = _add_ahead(a, 0, end, MOST_BYTES, ranges, &dead)
    turn_give(&a.turn)
    _free_ranges(a, dead)
    _ask(a, ranges, count)


cdef int64_t ahead_copy(AheadFile* a, void* to, int64_t nbytes, int64_t offset, AheadRange** mine) noexcept nogil:
    cdef AheadRange* ranges[ASKED]
    cdef AheadRange* dead = NULL
    cdef AheadRange* r = mine[0]
    cdef AheadFile* next = NULL
    cdef int64_t place, end = 0
    cdef int32_t count = 0
    cdef int error = ENOMEM
    cdef bint is_here = False
    turn_take(&a.turn)
    a.begun = a.begun or offset < FIRST_BYTES
    if r != NULL and r.state == RANGE_FAILED and r.wanted:  # H3
        error = r.error
        r = NULL
    elif r == NULL or r.state != RANGE_ASKED:
        r = _find(a, offset)
        if r == NULL:
            place = _place_for(a, offset)
            r = _add(a, place, offset + nbytes - place, &dead)
            if offset >= a.stuck:
                a.stuck = -1
            if r != NULL:
                r.wanted = True
                r.refs += 1
                ranges[0] = r
                count = 1
    if r != NULL and r != mine[0]:
        if mine[0] != NULL:
            _let_go(mine[0], &dead)
        r.refs += 1
        mine[0] = r
    if r != NULL:
        end = r.stop + _ahead_of(a, r)
        count += _add_ahead(a, r.stop, end, r.stop - r.start, &ranges[count], &dead)
        is_here = r.state == RANGE_HERE
        if end > a.size and a.next != NULL:
            next = a.next
            next.refs.fetch_add(1, kRelaxed)  # relaxed: this file has one
    turn_give(&a.turn)
    _free_ranges(a, dead)
    _ask(a, ranges, count)
    if next != NULL:
        _begin_early(next, end - a.size)
        ahead_drop(next)
    if is_here:
        return _copied(a, r, to, nbytes, offset)
    return -error if r == NULL else 0


cdef void ahead_forget(AheadFile* a, AheadRange* mine) noexcept nogil:
    cdef AheadRange* dead = NULL
    turn_take(&a.turn)
    _let_go(mine, &dead)
    turn_give(&a.turn)
    _free_ranges(a, dead)


cdef void ahead_single(AheadFile* a, bint single) noexcept nogil:
    turn_take(&a.turn)
    a.single = single
    turn_give(&a.turn)


cdef void ahead_follow(AheadFile* a, AheadFile* next) noexcept nogil:
    cdef AheadFile* predecessor
    if next != NULL:
        next.refs.fetch_add(1, kRelaxed)  # relaxed: the caller has one
        turn_take(&next.turn)
        next.begun = False
        turn_give(&next.turn)
    turn_take(&a.turn)
    predecessor, a.next = a.next, next
    turn_give(&a.turn)
    if predecessor != NULL:
        ahead_drop(predecessor)


cdef void ahead_close(AheadFile* a) noexcept nogil:
    cdef AheadRange* dead = NULL
    if a.generation != fork_generation():  # a thread of the parent may have had the turn
        if a.count > 0:
            _files_read.fetch_sub(1, kRelaxed)  # relaxed: as in _unlist
        return
    turn_take(&a.turn)
    # The file that is read before it may still name it. It isn't begun for that, so whoever drops it last frees no
    # buffers: that may be under the turn of a file table.
    a.begun = True
    _unlist_all(a, &dead)
    turn_give(&a.turn)
    _free_ranges(a, dead)
    ahead_follow(a, NULL)
    ahead_drop(a)


# Servers

cdef int ahead_begin(AheadFile* a, AheadRange* r) noexcept nogil:
    cdef int64_t nbytes = r.stop - r.start
    cdef bint alone
    turn_take(&a.turn)
    alone = r.refs == 1
    if not alone and a.spare_bytes == nbytes:
        r.data = a.spare
        a.spare = NULL
        a.spare_bytes = 0
    turn_give(&a.turn)
    if alone:
        return ECANCELED
    if r.data == NULL:
        r.data = <unsigned char*>(buffer_take(nbytes) if nbytes >= PAGES_BYTES else malloc(nbytes))
    return ENOMEM if r.data == NULL else 0


cdef void ahead_done(AheadFile* a, AheadRange* r, int error) noexcept nogil:
    cdef AheadRange* dead = NULL
    turn_take(&a.turn)
    if error == 0:
        r.state = RANGE_HERE
    else:
        r.state = RANGE_FAILED
        r.error = error
        a.stuck = r.start if a.stuck < 0 else min(a.stuck, r.start)
        _unlist(a, r, &dead)
    _let_go(r, &dead)
    turn_give(&a.turn)
    event_notify_all(&a.come)
    _free_ranges(a, dead)
