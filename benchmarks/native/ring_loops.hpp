// The loops of the ring benchmark: what is done with a queue, whosever it is.
//
// Templates, because a call through a pointer would cost more than the quickest of these rings takes. An adapter is a class
// with some of these members; the registering functions at the end say which are used for what:
//   static constexpr const char* kName
//   explicit Q(std::size_t capacity, int producers)
//   bool try_push(uint64_t), bool try_pop(uint64_t&)
//   std::size_t push_n(const uint64_t*, std::size_t), pop_n(uint64_t*, std::size_t)   how many of them went through
//   void push(uint64_t), void pop(uint64_t&)             these wait
//   class Producer, class Consumer                       made by each thread from the queue, where a peer works so
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <pthread.h>
#include <sched.h>

#include "queuecore/platform.hpp"

namespace rings {

constexpr std::size_t kCapacity = 1024;
constexpr std::size_t kBatch = 32;
constexpr uint64_t kLastToken = 0x7fffff;  // tokens have 24 bits, and a ring may keep the largest for itself
constexpr uint64_t kEnd = 0x800000;        // told to each consumer that blocks, once

struct Setting {
  double seconds;
  int cpus[2];
};

inline void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// After a failed try: 16 pauses, for everybody. With more threads than cores the one that is waited for may not be
// running, so now and then the core is given away.
class Backoff {
 public:
  void operator()() {
    for (int i = 0; i < 16; i++) queuecore::cpu_pause();
    if (++tries_ == 64) {
      tries_ = 0;
      sched_yield();
    }
  }

 private:
  int tries_ = 0;
};

// What a thread works with: its own end of the queue, where the peer has such a thing, else the queue.
template <class Q, class = void>
struct Ends {
  using Producer = Q&;
  using Consumer = Q&;
};
template <class Q>
struct Ends<Q, std::void_t<typename Q::Producer>> {
  using Producer = typename Q::Producer;
  using Consumer = typename Q::Consumer;
};

struct alignas(queuecore::kLine) Tally {
  uint64_t count = 0;
  uint64_t sum = 0;
};

inline void check(bool right, const char* name) {
  if (!right) throw std::runtime_error(std::string(name) + ": what arrived is not what was sent");
}

// ---- one thread

template <class Q>
double pair_ns(const Setting& setting) {
  constexpr uint64_t kPairs = 20'000;
  double ns = 0;
  bool right = true;
  std::thread([&] {
    pin(setting.cpus[0]);
    Q queue(kCapacity, 1);
    typename Ends<Q>::Producer in(queue);
    typename Ends<Q>::Consumer out(queue);
    uint64_t token = 0, sum = 0, done = 0;
    double elapsed = 0;
    for (double start = now(); elapsed < setting.seconds; elapsed = now() - start) {
      for (uint64_t i = 1; i <= kPairs; i++) {
        right &= in.try_push(i);
        right &= out.try_pop(token);
        sum += token;
      }
      done += kPairs;
    }
    right &= sum == done / kPairs * (kPairs * (kPairs + 1) / 2) && !out.try_pop(token);
    ns = elapsed / double(done) * 1e9;
  }).join();
  check(right, Q::kName);
  return ns;
}

template <class Q>
double batch_ns(const Setting& setting) {
  constexpr uint64_t kBatches = 1'000;
  double ns = 0;
  bool right = true;
  std::thread([&] {
    pin(setting.cpus[0]);
    Q queue(kCapacity, 1);
    typename Ends<Q>::Producer in(queue);
    typename Ends<Q>::Consumer out(queue);
    uint64_t sent[kBatch], got[kBatch] = {}, first = 0, last = 0, done = 0;
    for (std::size_t i = 0; i < kBatch; i++) sent[i] = i + 1;
    double elapsed = 0;
    for (double start = now(); elapsed < setting.seconds; elapsed = now() - start) {
      for (uint64_t i = 1; i <= kBatches; i++) {
        sent[0] = i;
        right &= in.push_n(sent, kBatch) == kBatch;
        right &= out.pop_n(got, kBatch) == kBatch;
        first += got[0];
        last += got[kBatch - 1];
      }
      done += kBatches;
    }
    right &= first == done / kBatches * (kBatches * (kBatches + 1) / 2) && last == done * kBatch;
    right &= out.pop_n(got, 1) == 0;
    ns = elapsed / double(done * kBatch) * 1e9;
  }).join();
  check(right, Q::kName);
  return ns;
}

// ---- producers and consumers

enum class Way { kSpin, kBlock, kBatch };

struct Shared {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<bool> stop{false};  // producers: enough
  std::atomic<bool> done{false};  // consumers: nothing will be pushed any more

  void wait_for_go() {
    ready.fetch_add(1);
    while (!go.load()) sched_yield();
  }
};

template <class Q, Way way>
void produce(Q& queue, Shared& shared, Tally& tally) {
  typename Ends<Q>::Producer end(queue);
  Backoff wait;
  uint64_t token = 1, count = 0, sum = 0, batch[kBatch];
  shared.wait_for_go();
  do {
    for (std::size_t i = 0; i < kBatch; i++) {
      if constexpr (way == Way::kSpin) {
        while (!end.try_push(token)) wait();
      } else if constexpr (way == Way::kBlock) {
        end.push(token);
      } else {
        batch[i] = token;
      }
      sum += token;
      token = token == kLastToken ? 1 : token + 1;
    }
    if constexpr (way == Way::kBatch) {
      for (std::size_t sent = 0, n; sent < kBatch; sent += n) {
        n = end.push_n(batch + sent, kBatch - sent);
        if (n == 0) wait();
      }
    }
    count += kBatch;
  } while (!shared.stop.load(std::memory_order_relaxed));
  tally = {count, sum};
}

template <class Q, Way way>
void consume(Q& queue, Shared& shared, Tally& tally) {
  typename Ends<Q>::Consumer end(queue);
  uint64_t count = 0, sum = 0;
  shared.wait_for_go();
  if constexpr (way == Way::kBlock) {
    for (uint64_t token;;) {
      end.pop(token);
      if (token == kEnd) break;
      count++;
      sum += token;
    }
  } else {
    Backoff wait;
    uint64_t got[kBatch] = {};
    auto some = [&]() -> std::size_t {
      if constexpr (way == Way::kSpin)
        return end.try_pop(got[0]);
      else
        return end.pop_n(got, kBatch);
    };
    for (bool over = false;;) {
      if (std::size_t n = some()) {
        for (std::size_t i = 0; i < n; i++) sum += got[i];
        count += n;
      } else if (over) {
        break;  // empty, and it was over before that was looked at
      } else {
        over = shared.done.load();
        if (!over) wait();
      }
    }
  }
  tally = {count, sum};
}

// Millions of tokens a second that got from the producers to the consumers. Producers before `first` stay away; each of the
// others calls `prepare` with its number.
template <class Q, Way way>
double throughput(const Setting& setting, int producers, int consumers, int first = 0,
                  void (*prepare)(int producer) = nullptr) {
  Q queue(kCapacity, producers + 1);
  Shared shared;
  std::vector<Tally> sent(producers), got(consumers);
  std::vector<std::thread> in, out;
  for (int i = first; i < producers; i++)
    in.emplace_back([&, i] {
      pin(setting.cpus[i % 2]);
      if (prepare != nullptr) prepare(i);
      produce<Q, way>(queue, shared, sent[i]);
    });
  for (int i = 0; i < consumers; i++)
    out.emplace_back([&, i] {
      pin(setting.cpus[(i + 1) % 2]);
      consume<Q, way>(queue, shared, got[i]);
    });
  while (shared.ready.load() < producers - first + consumers) sched_yield();
  double start = now();
  shared.go.store(true);
  sleep(setting.seconds);
  shared.stop.store(true);
  for (auto& thread : in) thread.join();
  shared.done.store(true);
  if constexpr (way == Way::kBlock) {
    typename Ends<Q>::Producer end(queue);
    for (int i = 0; i < consumers; i++) end.push(kEnd);
  }
  for (auto& thread : out) thread.join();
  double elapsed = now() - start;

  Tally all, arrived;
  for (auto& one : sent) all.count += one.count, all.sum += one.sum;
  for (auto& one : got) arrived.count += one.count, arrived.sum += one.sum;
  double rate = double(arrived.count) / elapsed / 1e6;
  if constexpr (way == Way::kBlock) {
    // A queue that is not FIFO among producers may have let the end overtake some.
    typename Ends<Q>::Consumer end(queue);
    for (uint64_t token; end.try_pop(token); arrived.count++, arrived.sum += token) check(token != kEnd, Q::kName);
  }
  check(all.count == arrived.count && all.sum == arrived.sum, Q::kName);
  return rate;
}

template <class Q>
double round_trip_us(const Setting& setting) {
  Q there(kCapacity, 2), back(kCapacity, 2);
  double us = 0;
  bool right = true;
  std::thread echo([&] {
    pin(setting.cpus[1]);
    typename Ends<Q>::Consumer in(there);
    typename Ends<Q>::Producer out(back);
    for (uint64_t token = 0; token != kEnd;) {
      in.pop(token);
      out.push(token);
    }
  });
  std::thread([&] {
    pin(setting.cpus[0]);
    typename Ends<Q>::Producer out(there);
    typename Ends<Q>::Consumer in(back);
    uint64_t token = 0, sent = 0;
    double elapsed = 0;
    for (double start = now(); elapsed < setting.seconds; elapsed = now() - start) {
      for (int i = 0; i < 64; i++) {
        sent = sent % kLastToken + 1;
        out.push(sent);
        in.pop(token);
        right &= token == sent;
        us++;
      }
    }
    us = elapsed / us * 1e6;
    out.push(kEnd);
    in.pop(token);
    right &= token == kEnd;
  }).join();
  echo.join();
  check(right, Q::kName);
  return us;
}

// ---- who runs what

struct Entry {
  const char* row;
  const char* name;
  double (*run)(const Setting&);
};

inline std::vector<Entry>& entries() {
  static std::vector<Entry> all;
  return all;
}

template <class Q, Way way, int threads>
double crowd(const Setting& setting) {
  return throughput<Q, way>(setting, threads, threads);
}

template <class Q>
void add(const char* row, double (*run)(const Setting&)) {
  entries().push_back({row, Q::kName, run});
}

// `oversubscribed`: whether it gets on with more threads than cores, which takes one whose calls don't wait for a thread that
// isn't running.
template <class Q>
void add_spinning(bool oversubscribed = true) {
  add<Q>("pair, MPMC", pair_ns<Q>);
  add<Q>("1P1C spinning, MPMC", crowd<Q, Way::kSpin, 1>);
  add<Q>("2P2C spinning", crowd<Q, Way::kSpin, 2>);
  if (oversubscribed) add<Q>("4P4C spinning", crowd<Q, Way::kSpin, 4>);
}

template <class Q>
void add_round_trip() {
  add<Q>("round trip, blocking", round_trip_us<Q>);
}

template <class Q>
void add_blocking() {
  add<Q>("1P1C blocking, MPMC", crowd<Q, Way::kBlock, 1>);
  add<Q>("2P2C blocking", crowd<Q, Way::kBlock, 2>);
  add<Q>("4P4C blocking", crowd<Q, Way::kBlock, 4>);
  add_round_trip<Q>();
}

template <class Q>
void add_batches(bool oversubscribed = true) {
  add<Q>("batches of 32, 1 thread, MPMC", batch_ns<Q>);
  add<Q>("batches of 32, 1P1C, MPMC", crowd<Q, Way::kBatch, 1>);
  if (oversubscribed) add<Q>("batches of 32, 4P4C", crowd<Q, Way::kBatch, 4>);
}

}  // namespace rings
