// One adapter for each peer of the ring benchmark. HAVE_ macros come from build.py, which looks for the headers.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>

#ifdef HAVE_MOODYCAMEL
#include <concurrentqueue/blockingconcurrentqueue.h>
#endif
#ifdef HAVE_READERWRITERQUEUE
#include <readerwriterqueue/readerwritercircularbuffer.h>
#endif
#ifdef HAVE_BOOST
#include <boost/lockfree/queue.hpp>
#endif
#ifdef HAVE_TBB
#include <oneapi/tbb/concurrent_queue.h>
#endif
#ifdef HAVE_CK
#include <ck_md.h>
#include <ck_pr.h>
#include <ck_string.h>
// Its header returns `false` where a null pointer is meant, which C lets pass and C++ does not.
#define false 0
#include <ck_ring.h>
#undef false
#endif
#ifdef HAVE_DPDK
#include <rte_config.h>
#include <rte_ring.h>
#endif
#ifdef HAVE_LIBCDS
#include <cds/container/vyukov_mpmc_cycle_queue.h>
#endif

#include "ring_loops.hpp"

namespace rings {

// The plain one, which everybody has.
class MutexDeque {
 public:
  static constexpr const char* kName = "mutex + deque";
  MutexDeque(std::size_t capacity, int) : capacity_(capacity) {}

  bool try_push(uint64_t token) { return push_n(&token, 1) == 1; }
  bool try_pop(uint64_t& token) { return pop_n(&token, 1) == 1; }

  std::size_t push_n(const uint64_t* tokens, std::size_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    n = std::min(n, capacity_ - queue_.size());
    queue_.insert(queue_.end(), tokens, tokens + n);
    return n;
  }
  std::size_t pop_n(uint64_t* tokens, std::size_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    n = std::min(n, queue_.size());
    std::copy_n(queue_.begin(), n, tokens);
    queue_.erase(queue_.begin(), queue_.begin() + std::ptrdiff_t(n));
    return n;
  }

  void push(uint64_t token) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      not_full_.wait(lock, [&] { return queue_.size() < capacity_; });
      queue_.push_back(token);
    }
    not_empty_.notify_one();
  }
  void pop(uint64_t& token) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      not_empty_.wait(lock, [&] { return !queue_.empty(); });
      token = queue_.front();
      queue_.pop_front();
    }
    not_full_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_empty_, not_full_;
  std::deque<uint64_t> queue_;
  std::size_t capacity_;
};

#ifdef HAVE_MOODYCAMEL
// Unbounded by nature. A trait bounds each producer's part of it, so with several producers there is more room in it than
// in the others. (Leaving the bound to try_enqueue, which may not allocate, locks up with four producers: it fails for good.)
struct MoodycamelTraits : moodycamel::ConcurrentQueueDefaultTraits {
  static const std::size_t MAX_SUBQUEUE_SIZE = kCapacity;
};

template <class Queue>
class MoodycamelEnds {
 public:
  MoodycamelEnds(std::size_t capacity, int producers) : queue_(capacity, std::size_t(producers), 0) {}

  class Producer {
   public:
    explicit Producer(MoodycamelEnds& of) : queue_(of.queue_), token_(of.queue_) {}
    bool try_push(uint64_t token) { return queue_.enqueue(token_, token); }
    std::size_t push_n(const uint64_t* tokens, std::size_t n) { return queue_.enqueue_bulk(token_, tokens, n) ? n : 0; }
    // There is no push that waits for room, so it tries again as in the spinning rows.
    void push(uint64_t token) {
      Backoff wait;
      while (!try_push(token)) wait();
    }

   private:
    Queue& queue_;
    moodycamel::ProducerToken token_;
  };
  class Consumer {
   public:
    explicit Consumer(MoodycamelEnds& of) : queue_(of.queue_), token_(of.queue_) {}
    bool try_pop(uint64_t& token) { return queue_.try_dequeue(token_, token); }
    std::size_t pop_n(uint64_t* tokens, std::size_t n) { return queue_.try_dequeue_bulk(token_, tokens, n); }
    void pop(uint64_t& token) { queue_.wait_dequeue(token_, token); }

   private:
    Queue& queue_;
    moodycamel::ConsumerToken token_;
  };

 private:
  Queue queue_;
};

class Moodycamel : public MoodycamelEnds<moodycamel::ConcurrentQueue<uint64_t, MoodycamelTraits>> {
 public:
  static constexpr const char* kName = "moodycamel";
  using MoodycamelEnds::MoodycamelEnds;
};

class MoodycamelBlocking : public MoodycamelEnds<moodycamel::BlockingConcurrentQueue<uint64_t, MoodycamelTraits>> {
 public:
  static constexpr const char* kName = "moodycamel, blocking";
  using MoodycamelEnds::MoodycamelEnds;
};
#endif

#ifdef HAVE_READERWRITERQUEUE
// One thread on each side at most.
class ReaderWriterBuffer {
 public:
  static constexpr const char* kName = "moodycamel SPSC, blocking";
  ReaderWriterBuffer(std::size_t capacity, int) : queue_(capacity) {}
  void push(uint64_t token) { queue_.wait_enqueue(token); }
  void pop(uint64_t& token) { queue_.wait_dequeue(token); }

 private:
  moodycamel::BlockingReaderWriterCircularBuffer<uint64_t> queue_;
};
#endif

#ifdef HAVE_BOOST
class BoostQueue {
 public:
  static constexpr const char* kName = "boost queue";
  BoostQueue(std::size_t capacity, int) : queue_(capacity) {}
  bool try_push(uint64_t token) { return queue_.bounded_push(token); }
  bool try_pop(uint64_t& token) { return queue_.pop(token); }

 private:
  boost::lockfree::queue<uint64_t, boost::lockfree::fixed_sized<true>> queue_;
};
#endif

#ifdef HAVE_TBB
class Tbb {
 public:
  static constexpr const char* kName = "oneTBB bounded";
  Tbb(std::size_t capacity, int) { queue_.set_capacity(std::ptrdiff_t(capacity)); }
  bool try_push(uint64_t token) { return queue_.try_push(token); }
  bool try_pop(uint64_t& token) { return queue_.try_pop(token); }
  void push(uint64_t token) { queue_.push(token); }
  void pop(uint64_t& token) { queue_.pop(token); }

 private:
  oneapi::tbb::concurrent_bounded_queue<uint64_t> queue_;
};
#endif

#ifdef HAVE_CK
// Holds pointers, one fewer than its size.
class Ck {
 public:
  static constexpr const char* kName = "ck_ring, mpmc";
  Ck(std::size_t capacity, int) : cells_(capacity) { ck_ring_init(&ring_, unsigned(capacity)); }
  bool try_push(uint64_t token) { return ck_ring_enqueue_mpmc(&ring_, cells_.data(), reinterpret_cast<void*>(token)); }
  bool try_pop(uint64_t& token) {
    void* value = nullptr;
    bool got = ck_ring_dequeue_mpmc(&ring_, cells_.data(), &value);
    token = reinterpret_cast<uint64_t>(value);
    return got;
  }

 private:
  alignas(queuecore::kLine) ck_ring_t ring_;
  std::vector<ck_ring_buffer_t> cells_;
};
#endif

#ifdef HAVE_DPDK
enum class Sync { kMulti, kRts, kHts };

// One fewer than its size. Bulk calls: all or nothing.
template <Sync sync>
class Rte {
 public:
  static constexpr const char* kName = sync == Sync::kMulti ? "rte_ring, mp/mc"
                                       : sync == Sync::kRts ? "rte_ring, RTS"
                                                            : "rte_ring, HTS";
  Rte(std::size_t capacity, int) {
    unsigned flags = sync == Sync::kMulti ? 0
                     : sync == Sync::kRts ? RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ
                                          : RING_F_MP_HTS_ENQ | RING_F_MC_HTS_DEQ;
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, std::size_t(rte_ring_get_memsize(unsigned(capacity)))) != 0)
      throw std::bad_alloc();
    ring_ = static_cast<rte_ring*>(memory);
    if (rte_ring_init(ring_, "bench", unsigned(capacity), flags) != 0) throw std::runtime_error("rte_ring_init");
  }
  Rte(const Rte&) = delete;
  Rte& operator=(const Rte&) = delete;
  ~Rte() { std::free(ring_); }

  bool try_push(uint64_t token) { return push_n(&token, 1) == 1; }
  bool try_pop(uint64_t& token) { return pop_n(&token, 1) == 1; }
  std::size_t push_n(const uint64_t* tokens, std::size_t n) {
    constexpr unsigned size = sizeof(uint64_t);
    if constexpr (sync == Sync::kMulti) return rte_ring_mp_enqueue_bulk_elem(ring_, tokens, size, n, nullptr);
    if constexpr (sync == Sync::kRts) return rte_ring_mp_rts_enqueue_bulk_elem(ring_, tokens, size, n, nullptr);
    if constexpr (sync == Sync::kHts) return rte_ring_mp_hts_enqueue_bulk_elem(ring_, tokens, size, n, nullptr);
  }
  std::size_t pop_n(uint64_t* tokens, std::size_t n) {
    constexpr unsigned size = sizeof(uint64_t);
    if constexpr (sync == Sync::kMulti) return rte_ring_mc_dequeue_bulk_elem(ring_, tokens, size, n, nullptr);
    if constexpr (sync == Sync::kRts) return rte_ring_mc_rts_dequeue_bulk_elem(ring_, tokens, size, n, nullptr);
    if constexpr (sync == Sync::kHts) return rte_ring_mc_hts_dequeue_bulk_elem(ring_, tokens, size, n, nullptr);
  }

 private:
  rte_ring* ring_;
};
#endif

#ifdef HAVE_LIBCDS
class Libcds {
 public:
  static constexpr const char* kName = "libcds Vyukov";
  Libcds(std::size_t capacity, int) : queue_(capacity) {}
  bool try_push(uint64_t token) { return queue_.enqueue(token); }
  bool try_pop(uint64_t& token) { return queue_.dequeue(token); }

 private:
  cds::container::VyukovMPMCCycleQueue<uint64_t> queue_;
};
#endif

inline void add_peers() {
  add_spinning<MutexDeque>();
  add_blocking<MutexDeque>();
  add_batches<MutexDeque>();
#ifdef HAVE_MOODYCAMEL
  add_spinning<Moodycamel>();
  add_batches<Moodycamel>();
  add_blocking<MoodycamelBlocking>();
#endif
#ifdef HAVE_READERWRITERQUEUE
  add_round_trip<ReaderWriterBuffer>();
#endif
#ifdef HAVE_BOOST
  add_spinning<BoostQueue>();
#endif
#ifdef HAVE_TBB
  add_spinning<Tbb>();
  add_blocking<Tbb>();
#endif
#ifdef HAVE_CK
  add_spinning<Ck>(false);
#endif
#ifdef HAVE_DPDK
  add_spinning<Rte<Sync::kMulti>>(false);
  add_spinning<Rte<Sync::kRts>>();
  add_spinning<Rte<Sync::kHts>>();
  add_batches<Rte<Sync::kMulti>>();
  add_batches<Rte<Sync::kRts>>();
  add_batches<Rte<Sync::kHts>>();
#endif
#ifdef HAVE_LIBCDS
  add_spinning<Libcds>();
#endif
}

}  // namespace rings
