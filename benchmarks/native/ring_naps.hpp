// What atomic.hpp includes instead of its own names when ring_stall is compiled (QUEUECORE_SCHEDULE): the same, but a thread can
// be told to take a nap at one labelled edge, right before the operation there. Inside namespace queuecore.

template <class T>
using Atomic = std::atomic<T>;

using MemoryOrder = std::memory_order;
constexpr MemoryOrder kRelaxed = std::memory_order_relaxed;
constexpr MemoryOrder kAcquire = std::memory_order_acquire;
constexpr MemoryOrder kRelease = std::memory_order_release;
constexpr MemoryOrder kAcqRel = std::memory_order_acq_rel;
constexpr MemoryOrder kSeqCst = std::memory_order_seq_cst;

inline void fence(MemoryOrder order) noexcept { std::atomic_thread_fence(order); }

template <class T>
struct Plain {
  T get() const noexcept { return value; }
  void set(T next) noexcept { value = next; }
  T value;
};

inline thread_local int nap_before = 0;  // the edge, for this thread; 0: none
static void nap() noexcept;              // ring_stall.pyx has it

[[gnu::always_inline]] inline MemoryOrder order(int edge, MemoryOrder wanted) noexcept {
  if (__builtin_expect(edge == nap_before, 0)) nap();
  return wanted;
}
