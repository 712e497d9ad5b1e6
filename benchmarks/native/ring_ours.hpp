// The adapter for our ring. What it calls is Cython: ring_ours.pxd.
#pragma once

#include <new>

#include "queuecore/layout.hpp"
#include "ring_loops.hpp"

static bool our_init(queuecore::FifoRing*, uint32_t);
static void our_free(queuecore::FifoRing*);
static bool our_push(queuecore::FifoRing*, uint64_t);
static bool our_pop(queuecore::FifoRing*, uint64_t*);
static uint32_t our_push_n(queuecore::FifoRing*, const uint64_t*, uint32_t);
static uint32_t our_pop_n(queuecore::FifoRing*, uint64_t*, uint32_t);
static void our_wait(queuecore::FifoRing*, uint64_t*, bool, queuecore::EventCount*, queuecore::EventCount*);

namespace rings {

class Ours {
 public:
  static constexpr const char* kName = "queuecore FifoRing";
  Ours(std::size_t capacity, int) {
    if (!our_init(&ring_, uint32_t(capacity))) throw std::bad_alloc();
    static const bool light = queuecore::membarrier_register();  // as atoms does, if the kernel can
    not_empty_.light = not_full_.light = light;
  }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;
  ~Ours() { our_free(&ring_); }

  bool try_push(uint64_t token) { return our_push(&ring_, token); }
  bool try_pop(uint64_t& token) { return our_pop(&ring_, &token); }
  std::size_t push_n(const uint64_t* tokens, std::size_t n) { return our_push_n(&ring_, tokens, uint32_t(n)); }
  std::size_t pop_n(uint64_t* tokens, std::size_t n) { return our_pop_n(&ring_, tokens, uint32_t(n)); }
  void push(uint64_t token) { our_wait(&ring_, &token, true, &not_full_, &not_empty_); }
  void pop(uint64_t& token) { our_wait(&ring_, &token, false, &not_empty_, &not_full_); }

 private:
  // Zero bytes are where each of these begins.
  queuecore::FifoRing ring_{};
  queuecore::EventCount not_empty_{}, not_full_{};
};

}  // namespace rings
