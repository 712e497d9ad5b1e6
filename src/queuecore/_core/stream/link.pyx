"""Links: the rows of one stream become rows of another stream without a copy, and without the GIL."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.handed cimport HANDED, HANDED_FULL, HANDED_NO_MEMORY, Chunk, Column
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.marks cimport CUT_LOST
from queuecore._core.stream.pipe cimport Pipe, SlotOwner, pipe_drop, pipe_hold, slot_release
from queuecore._core.atoms.platform cimport Batch, kRelaxed, layout_hash, size_product, size_sum
from queuecore._core.stream.maker cimport Output
from queuecore._core.atoms.runtime cimport stop_requested, wait_out_exit
from queuecore._core.atoms.slab cimport slab_slot, slots_push
from queuecore._core.stream.stream cimport Stream
from queuecore._core.stream.waiting cimport wait_for_batch
from queuecore._core.atoms.window cimport window_batch, window_ready

import numpy as np

check_layout(layout_hash())

cdef enum:
    # Besides HANDED, the reasons for which a thread comes back to Python:
    LINK_LOOK = 10               # the child is at its end, has failed, or has no batch ready
    LINK_COPY = 11               # this batch must be handed in from Python
    LINK_STALE = 12              # no more rows of this pass are wanted
    LINK_STOP = 13               # the feed's run is over
    LINK_MEMORY = 14             # no memory
    LINK_COLUMNS = 64            # most columns of a batch that is handed in natively


@cython.final
cdef class _Link:
    # The link of one child stream to a feed.
    cdef Feed feed
    cdef Stream child
    cdef int64_t pass_
    cdef int64_t skip         # rows still to be left out

    cdef int run(self, Pipe* up) noexcept nogil:
        cdef uint64_t k
        cdef Batch* b
        cdef int status
        while True:
            if stop_requested(&self.feed.pipe.runner.stop):
                return LINK_STOP
            k = self.child.pipes.next_k
            if not window_ready(up.window, k):
                self.child.spin_ns = wait_for_batch(up, k, self.child.spin_ns)
                if not window_ready(up.window, k):
                    return LINK_LOOK
            b = window_batch(up.window, k)
            if b.failed.load(kRelaxed):  # relaxed: published by B3 in window.pxd. Also for a break
                return LINK_LOOK
            # relaxed: only this thread takes leases
            if (b.cut >= CUT_LOST or self.child.pipes.lease is not None or self.child.course.plan.config.skip_bad
                or self.feed.pipe.plan.maker.column_count > LINK_COLUMNS
                    or up.shared.leases.load(kRelaxed) >= up.plan.config.max_leases):
                return LINK_COPY
            status = self.hand(up, b)
            if status != HANDED:
                return status
            self.child.note(up, b, k)

    cdef int hand(self, Pipe* up, Batch* b) noexcept nogil:
        # Hands in the chosen rows of one batch.
        cdef Pipe* p = self.feed.pipe
        cdef unsigned char* slot = slab_slot(up.slab, b.slot)
        cdef const unsigned char* mask = slot + up.plan.maker.outputs[up.plan.maker.count - 1].slot_offset
        cdef Column columns[LINK_COLUMNS]
        cdef const Output* out
        cdef SlotOwner* owner
        cdef Chunk chunk
        cdef int64_t n = 0, row, skip
        cdef int32_t i
        cdef int status
        for row in range(b.rows):
            n += mask[row] != 0
        skip = self.skip if self.skip < n else n
        self.skip -= skip
        n -= skip
        if n == 0:
            slots_push(&up.slab.stack, b.slot)
            return HANDED
        owner = <SlotOwner*>malloc(size_sum(sizeof(SlotOwner), size_product(n, sizeof(int64_t))))
        if owner == NULL:
            return LINK_MEMORY
        owner.pipe = up
        owner.slot = b.slot
        memset(&chunk, 0, sizeof(Chunk))
        chunk.columns = columns
        chunk.count = p.plan.maker.column_count
        chunk.rows = owner.rows
        chunk.n = n
        chunk.owner = -1
        chunk.link = owner
        n = 0
        for row in range(b.rows):
            if mask[row] != 0 and skip > 0:
                skip -= 1
            elif mask[row] != 0:
                owner.rows[n] = row
                n += 1
        for i in range(p.plan.maker.column_count):
            out = &up.plan.maker.outputs[i]
            memset(&columns[i], 0, sizeof(Column))
            if out.item == 0:
                columns[i].data = slot + out.slot_offset
                chunk.nbytes += n * out.row_bytes
                continue
            columns[i].ends = <int64_t*>(slot + out.slot_offset)
            columns[i].data = up.vars[<int64_t>b.slot * up.plan.maker.vars + out.var].data
            chunk.nbytes += columns[i].ends[b.rows]
            if out.ndim > 0:
                columns[i].dims = <int64_t*>(slot + out.dims_offset)
        pipe_hold(up)
        up.shared.leases.fetch_add(1, kRelaxed)  # relaxed: as in slot_release
        status = self.feed.offer(self.pass_, &chunk, True)
        if status == HANDED:
            return HANDED
        slot_release(owner)
        return LINK_STOP if status == HANDED_FULL else (LINK_MEMORY if status == HANDED_NO_MEMORY else LINK_STALE)


def choose(Feed feed not None, int64_t pass_, Stream child not None, int mask, int64_t skip=0):
    """Hand in the rows of a stream's batches whose last component is true, without that component, until the stream
    ends.

    Runs without the GIL, except at the end and at failures of the stream, and where too many of its batches are held.

    Parameters
    ----------
    feed : Feed
        The feed that gets the rows.
    pass_ : int
        The pass, as in `Feed.hand`.
    child : Stream
        A stream of batches that nothing else uses.
    mask : int
        The number of the stream's last component, a bool.
    skip : int
        The number of chosen rows that are left out first.

    Returns
    -------
    bool
        False: no more of this pass is wanted.
    """
    cdef _Link link = _Link.__new__(_Link)
    cdef Pipe* up
    cdef int status
    link.feed = feed
    link.child = child
    link.pass_ = pass_
    link.skip = skip
    child.raw = True
    while True:
        try:
            child.await_batch()
        except StopIteration:
            return True
        except Exception as error:
            if not child.behind:
                raise
            if not feed.fail(pass_, error):
                return False
            continue
        up = child.pipes.current
        pipe_hold(up)
        try:
            with nogil:
                status = link.run(up)
        finally:
            pipe_drop(up)
        if status == LINK_STALE:
            return False
        if status == LINK_STOP:
            wait_out_exit()
            return False
        if status == LINK_MEMORY:
            raise MemoryError
        if status == LINK_COPY:
            _, columns = child.next_columns()
            rows = np.flatnonzero(columns[mask])[link.skip:]
            link.skip = max(0, link.skip - np.count_nonzero(columns[mask]))
            if not feed.hand(pass_, columns[:mask], len(rows), owner=None, rows=rows):
                return False
        feed.sweep()
