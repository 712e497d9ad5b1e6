// The atomic type and the memory orders of the native core.
//
// All atomics in src/ use these names, so that a test build can put another type here
// (QUEUECORE_SCHEDULE: an atomic that a seeded scheduler drives) without touching an algorithm.
#pragma once

#include <atomic>
#include <cstdint>

#ifdef QUEUECORE_SCHEDULE
#include "queuecore/schedule.hpp"
#endif

namespace queuecore {

#ifndef QUEUECORE_SCHEDULE
template <class T>
using Atomic = std::atomic<T>;

using MemoryOrder = std::memory_order;
constexpr MemoryOrder kRelaxed = std::memory_order_relaxed;
constexpr MemoryOrder kAcquire = std::memory_order_acquire;
constexpr MemoryOrder kRelease = std::memory_order_release;
constexpr MemoryOrder kAcqRel = std::memory_order_acq_rel;
constexpr MemoryOrder kSeqCst = std::memory_order_seq_cst;

inline void fence(MemoryOrder order) noexcept { std::atomic_thread_fence(order); }
inline void compiler_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Memory that the atomics beside it guard: the scheduler's checks each access for a race.
template <class T>
struct Plain {
  T get() const noexcept { return value; }
  void set(T next) noexcept { value = next; }
  T value;
};

// The memory order of the edge with that label. The scheduler's weakens it when a test asks for that.
[[gnu::always_inline]] constexpr MemoryOrder order(int, MemoryOrder wanted) noexcept { return wanted; }
#endif

static_assert(Atomic<uint64_t>::is_always_lock_free, "64-bit atomics must be lock-free");
static_assert(sizeof(Plain<uint64_t>) == 8, "plain memory is its value and nothing else");
static_assert(sizeof(Atomic<uint64_t>) == 8 && sizeof(Atomic<uint32_t>) == 4, "a futex word is the atomic itself");

}  // namespace queuecore
