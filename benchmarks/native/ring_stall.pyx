# cython: language_level=3, cdivision=True
# distutils: language = c++
"""Two producers and two consumers, with one producer asleep in the middle of a push, or absent.

The first producer sleeps a millisecond in every push, right before the step that ends what others could have to wait
for. The ring names each of its steps where it asks for the memory order, so that is where the producer can be made to
sleep.
"""

from queuecore._core.atoms.ring cimport R5
# For all of its functions: the loops call them by their names in C++.
cimport ring_ours  # no-cython-lint

cdef extern from "ring_loops.hpp" namespace "rings" nogil:
    cdef cppclass Setting:
        double seconds
        int[2] cpus

cdef extern from *:
    """
    #include "ring_ours.hpp"

    static double bench_awake_from = 0;
    static int bench_edge = 0;
    static int bench_naps = 0;
    static thread_local bool bench_sleepy = false;

    static void bench_nap() {
      // When the slice is over it naps no more: else joining it would take long.
      if (rings::now() >= bench_awake_from) return;
      bench_naps++;
      rings::sleep(1e-3);
    }

    namespace queuecore {
    [[gnu::always_inline]] inline MemoryOrder bench_order(int edge, MemoryOrder wanted) {
      if (__builtin_expect(bench_sleepy && edge == bench_edge, 0)) bench_nap();
      return wanted;
    }
    }  // namespace queuecore
    // From here on, which is in all that Cython wrote.
    #define order(edge, wanted) bench_order(edge, wanted)

    static void bench_first_one_naps(int producer) {
      bench_sleepy = producer == 0;
    }

    // Throws when tokens are lost, and when there was nothing to see.
    static double bench_stall(const rings::Setting& setting, int edge, bool absent) {
      bench_edge = edge;
      bench_naps = 0;
      bench_awake_from = rings::now() + setting.seconds;
      double rate = rings::throughput<rings::Ours, rings::Way::kSpin>(setting, 2, 2, absent, bench_first_one_naps);
      if (!absent && bench_naps == 0) throw std::runtime_error("nobody slept: is that edge still in a push?");
      return rate;
    }
    """
    double bench_stall(const Setting&, int edge, bint absent) except + nogil


def measure(bint is_absent, double seconds, cpus):
    """Return how many million tokens a second the others get through.

    Parameters
    ----------
    is_absent : bool
        Leave the producer out that would sleep, between filling its cell and moving the tail.
    seconds : float
        How long.
    cpus : (int, int)
        The two processors that its threads are bound to, in turn.

    Raises
    ------
    RuntimeError
        If not all tokens arrived, or the producer never slept.
    """
    cdef Setting setting
    cdef double figure
    setting.seconds = seconds
    setting.cpus[0], setting.cpus[1] = cpus
    with nogil:
        figure = bench_stall(setting, R5, is_absent)
    return figure
