"""The choice of a request engine's depth, from measurements that tests make up."""
from libc.stdint cimport int64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport alloc_lines, layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.engine cimport Engine, engine_begin, engine_judge

check_layout(layout_hash())


def depths(rate_at, int64_t max_depth, int64_t measurements):
    """Return the depth during each measurement.

    Parameters
    ----------
    rate_at : callable
        It returns what is measured at a depth, in bytes a ns.
    max_depth : int
        The greatest depth.
    measurements : int
    """
    cdef Engine* e = <Engine*>alloc_lines(sizeof(Engine))
    cdef list results = []
    cdef int64_t _i
    if e == NULL:
        raise MemoryError
    try:
        engine_begin(e, 0, max_depth)
        for _i in range(measurements):
            results.append(e.depth)
            engine_judge(e, rate_at(e.depth))
        return results
    finally:
        free(e)
