# cython: language_level=3, cdivision=True
# distutils: language = c++
"""Rings and blocking queues, ours and those of the peers that were found, in one harness.

`contenders` says what there is to measure, `measure` measures one of them for a moment. The loops are in
ring_loops.hpp, our ring's adapter in ring_ours.pxd, those of the peers in ring_peers.hpp.
"""

from libcpp.vector cimport vector
# For all of its functions: the loops call them by their names in C++.
cimport ring_ours  # no-cython-lint

cdef extern from "ring_loops.hpp" namespace "rings" nogil:
    cdef cppclass Setting:
        double seconds
        int[2] cpus

    cdef cppclass Entry:
        const char* row
        const char* name

    vector[Entry]& entries()

cdef extern from *:
    """
    #include "ring_ours.hpp"
    #include "ring_peers.hpp"

    static void bench_add_all() {
      rings::add_spinning<rings::Ours>();
      rings::add_blocking<rings::Ours>();
      rings::add_batches<rings::Ours>();
      rings::add_peers();
    }

    // Throws when tokens are lost.
    static double bench_run(const rings::Entry& entry, const rings::Setting& setting) { return entry.run(setting); }
    """
    void bench_add_all()
    double bench_run(const Entry&, const Setting&) except + nogil


def contenders():
    """Return (row, name) of all that can be measured, ours first; the place here is the number for `measure`."""
    return [(entry.row.decode(), entry.name.decode()) for entry in entries()]


def measure(size_t number, double seconds, cpus):
    """Run one contender and return its figure: nanoseconds, microseconds (round trip) or million tokens a second.

    Parameters
    ----------
    number : int
        Place in the list that `contenders` returns.
    seconds : float
        How long.
    cpus : (int, int)
        The two processors that its threads are bound to, in turn.

    Raises
    ------
    RuntimeError
        If not all tokens arrived.
    """
    cdef Setting setting
    cdef double figure
    setting.seconds = seconds
    setting.cpus[0], setting.cpus[1] = cpus
    if number >= entries().size():
        raise IndexError(number)
    with nogil:
        figure = bench_run(entries()[number], setting)
    return figure


bench_add_all()
