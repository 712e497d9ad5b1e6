// The seeded scheduler: atomics for tests, in one extension alone (QUEUECORE_SCHEDULE).
//
// Threads are fibres of one OS thread. Before each atomic operation, and after those that store, a random number decides
// which fibre goes on, so a seed is a schedule.
// Memory is weak, as views make it: each place keeps all its stores in the order in which they were made, and a load
// may return any of them that is not older than what its thread knows of. An acquiring load learns what the store's
// releasing thread knew. A read-modify-write takes the newest store and passes on what that one carried. seq_cst: a
// load is not older than the last seq_cst store, and fences exchange all that is known with one view that they share.
// Vector clocks keep the happens-before order apart from the views: a fence orders atomics, and a payload still needs an
// edge.
// Not modelled: stores that become visible in another order than they were made in, and loads that see a later store of
// their own future. So a mutation that goes unnoticed here needs an argument.
// Source: views as in Kang et al., "A Promising Semantics for Relaxed-Memory Concurrency" (POPL 2017), without
// promises; clocks as in Flanagan and Freund, "FastTrack" (PLDI 2009).
#pragma once

#include <ucontext.h>

#include <bitset>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

namespace queuecore {

enum MemoryOrder : int { kRelaxed, kAcquire, kRelease, kAcqRel, kSeqCst };

namespace schedule {

constexpr int kFibres = 8;
constexpr int kPlaces = 128;
constexpr int kLabels = 128;
constexpr std::size_t kStack = 64 << 10;

enum Verdict : int { kFine, kWrong, kRace, kAllAsleep, kEndless };
enum State : int { kReady, kAsleep, kSuspended, kEnded };

// The knowledge of a thread, or that a store carries: for each fibre, the time up to which its steps happened before; for
// each place, the oldest store that may be seen.
struct Known {
  uint32_t clock[kFibres];
  uint32_t view[kPlaces];
  void join_clock(const Known& other) noexcept {
    for (int i = 0; i < kFibres; i++) clock[i] = other.clock[i] > clock[i] ? other.clock[i] : clock[i];
  }
  void join_view(const Known& other) noexcept {
    for (int i = 0; i < kPlaces; i++) view[i] = other.view[i] > view[i] ? other.view[i] : view[i];
  }
  void join(const Known& other) noexcept {
    join_clock(other);
    join_view(other);
  }
};

struct Store {
  uint64_t value;
  Known carried;
};

struct Access {
  int writer = -1;
  uint32_t written = 0;
  uint32_t read[kFibres] = {};
};

// The point at which a fibre goes on: stack, frame and place in the code (__builtin_setjmp). A switch by ucontext costs
// two system calls.
struct Point {
  void* at[5];
};

using Labels = std::bitset<kLabels>;

struct Fibre {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Point begin, now_at;
  State state;
  Known now;         // its knowledge
  Known acquired;    // the knowledge that it would have after an acquiring fence
  Known released;    // the knowledge that its relaxed stores carry: that of its last releasing fence
  Labels edges;      // of the operation that comes next
  uint64_t counted;  // operations since it was armed
  uint64_t stop_at;  // before which of these it is suspended; 0: none
  bool armed;
  const void* word;  // the futex word that it sleeps on
  int64_t deadline;
  int woken;  // the result of futex_wait
};

struct Machine {
  bool running = false;
  int fibres = 0;
  int me = -1;
  Verdict verdict = kFine;
  int what = 0;  // number of the check of the scenario that failed
  uint64_t random = 1;
  uint64_t steps = 0, most = 0;
  int64_t clock = 0;  // grows with each step, and to the deadline of a fibre that its deadline wakes
  uint64_t stay = 0;  // of 8
  int frozen = -1;
  uint64_t thaw = 0;
  Labels mutated;
  MemoryOrder weakened[kLabels] = {};  // by label: the order that the edge has instead of its own
  int stopped = 0;                     // fibres that are suspended
  Labels stopped_before;               // the labels of the operations before which any was
  Known shared;                        // of seq_cst operations
  ucontext_t main;
  Point main_at;
  Fibre fibre[kFibres];
  int place_count = 0;
  std::vector<Store> places[kPlaces];
  std::unordered_map<const void*, int> place_of;
  std::unordered_map<const void*, Access> accesses;
  void (*entry)(void*, int) = nullptr;
  void* context = nullptr;
};

inline Machine machine;

inline uint64_t random(uint64_t below) noexcept {
  uint64_t& s = machine.random;
  s ^= s << 13;
  s ^= s >> 7;
  s ^= s << 17;
  return (s >> 11) % below;
}

// Returns the fibre that goes on; -1: none can.
inline int pick() noexcept {
  Machine& m = machine;
  if (m.frozen >= 0 && m.steps >= m.thaw) m.frozen = -1;
  if (m.frozen < 0 && random(32) == 0) {  // one fibre stops for a while
    m.frozen = int(random(m.fibres));
    m.thaw = m.steps + random(100);
  }
  int ready[kFibres], n = 0;
  for (int i = 0; i < m.fibres; i++)
    if (m.fibre[i].state == kReady && i != m.frozen) ready[n++] = i;
  if (n == 0 || random(64) == 0)
    for (int i = 0; i < m.fibres; i++)
      if (m.fibre[i].state == kAsleep && m.fibre[i].deadline >= 0 && n < kFibres) ready[n++] = i;
  if (n == 0 && m.frozen >= 0 && m.fibre[m.frozen].state == kReady) ready[n++] = m.frozen;
  if (n == 0) return -1;
  Fibre& f = m.fibre[ready[random(n) % n]];
  if (f.state == kAsleep) {
    f.state = kReady;
    f.woken = ETIMEDOUT;
    if (m.clock < f.deadline) m.clock = f.deadline;
  }
  return int(&f - m.fibre);
}

[[gnu::noinline]] inline void go(Point& to) noexcept { __builtin_longjmp(to.at, 1); }

[[gnu::noinline]] inline void change(Point& from, Point& to) noexcept {
  if (__builtin_setjmp(from.at) == 0) go(to);
}

// Lets a fibre go on, or run() if none can.
inline void leave() noexcept {
  Machine& m = machine;
  int from = m.me, to = m.running ? pick() : -1;
  if (to == from) return;
  m.me = to;
  change(m.fibre[from].now_at, to < 0 ? m.main_at : m.fibre[to].now_at);
}

// Ends the run. Nothing on a fibre's stack has a destructor, so the fibres are left as they are.
inline void finish(Verdict verdict, int what) noexcept {
  if (!machine.running) return;
  machine.verdict = verdict;
  machine.what = what;
  machine.running = false;
  leave();
}

// For scenarios: reports a check that failed.
inline void wrong(int what) noexcept { finish(kWrong, what); }

// For scenarios: from here on the fibre may be suspended before an operation.
inline void arm(bool on) noexcept { machine.fibre[machine.me].armed = on; }

inline void step(bool away = false) noexcept {
  Machine& m = machine;
  if (!m.running) return;
  Fibre& f = m.fibre[m.me];
  m.clock++;
  if (++m.steps > m.most) finish(kEndless, 0);
  if (f.armed && ++f.counted == f.stop_at) {
    m.stopped++;
    m.stopped_before |= f.edges;
    f.state = kSuspended;
    leave();
  } else if (away || random(8) >= m.stay) {
    leave();
  }
  f.edges.reset();
}

inline void pause() noexcept { step(true); }

// After a store: another fibre may go on before the next step, also if that step only uses plain memory.
inline void stored() noexcept {
  if (machine.running && random(8) == 0) leave();
}

inline bool acquires(MemoryOrder o) noexcept { return o == kAcquire || o == kAcqRel || o == kSeqCst; }
inline bool releases(MemoryOrder o) noexcept { return o == kRelease || o == kAcqRel || o == kSeqCst; }

inline int place(const void* address, uint64_t value) {
  auto [at, is_new] = machine.place_of.try_emplace(address, machine.place_count);
  if (is_new) {
    if (machine.place_count == kPlaces) finish(kEndless, -1);
    machine.places[machine.place_count++].push_back(Store{value, Known{}});
  }
  return at->second;
}

inline uint64_t read(int p, uint32_t i, MemoryOrder o) {
  Fibre& f = machine.fibre[machine.me];
  const Store& store = machine.places[p][i];
  f.now.view[p] = i;
  f.acquired.join(f.now);
  f.acquired.join(store.carried);
  if (acquires(o)) f.now.join(store.carried);
  if (o == kSeqCst && machine.shared.view[p] < i) machine.shared.view[p] = i;
  return store.value;
}

inline uint32_t oldest(int p, MemoryOrder o) {
  uint32_t i = machine.fibre[machine.me].now.view[p];
  if (o == kSeqCst && machine.shared.view[p] > i) i = machine.shared.view[p];
  return i;
}

inline uint32_t any_from(int p, uint32_t first) {
  uint32_t last = uint32_t(machine.places[p].size()) - 1;
  return first == last || random(2) ? last : first + uint32_t(random(last - first + 1));
}

inline void write(int p, uint64_t value, MemoryOrder o, const Known* passed_on) {
  Fibre& f = machine.fibre[machine.me];
  auto i = uint32_t(machine.places[p].size());
  f.now.view[p] = i;
  Store store{value, releases(o) ? f.now : f.released};
  store.carried.view[p] = i;
  if (passed_on != nullptr) store.carried.join(*passed_on);
  if (o == kSeqCst) machine.shared.view[p] = i;
  machine.places[p].push_back(store);
  f.now.clock[machine.me]++;  // later steps have not happened before a thread that acquires this store
}

inline void fence(MemoryOrder o) noexcept {
  step();
  if (!machine.running || o != kSeqCst) return;  // the core has no other fences; a weakened fence has no effect
  Fibre& f = machine.fibre[machine.me];
  f.now.join(f.acquired);
  f.now.join_view(machine.shared);
  machine.shared.join_view(f.now);
  f.acquired.join(f.now);
  f.released = f.now;
  f.now.clock[machine.me]++;
}

// A fence in every thread, at its current step. It has no order to weaken: weakening its label leaves the fence out.
constexpr int kMembarrier = kLabels - 1;
inline void membarrier() noexcept {
  step();
  if (!machine.running || machine.mutated[kMembarrier]) return;
  for (int i = 0; i < machine.fibres; i++) machine.shared.join_view(machine.fibre[i].now);
  for (int i = 0; i < machine.fibres; i++) machine.fibre[i].now.join_view(machine.shared);
}

inline void access(const void* address, bool writes) {
  if (!machine.running) return;
  Access& a = machine.accesses[address];
  const uint32_t* clock = machine.fibre[machine.me].now.clock;
  if (a.writer >= 0 && a.written > clock[a.writer]) finish(kRace, 0);
  if (writes) {
    for (int i = 0; i < machine.fibres; i++)
      if (a.read[i] > clock[i]) finish(kRace, 0);
    a.writer = machine.me;
    a.written = clock[machine.me];
  } else {
    a.read[machine.me] = clock[machine.me];
  }
}

inline int futex_wait(const void* word, uint32_t expected, int64_t deadline_ns) noexcept {
  step();
  uint32_t value;
  std::memcpy(&value, word, sizeof value);
  if (value != expected) return EAGAIN;
  if (random(16) == 0) return EINTR;
  Fibre& f = machine.fibre[machine.me];
  f.state = kAsleep;
  f.word = word;
  f.deadline = deadline_ns;
  leave();
  return f.woken;
}

inline void futex_wake(const void* word, uint32_t n) noexcept {
  step();
  if (!machine.running) return;
  auto first = int(random(kFibres));
  for (int k = 0; k < machine.fibres && n > 0; k++) {
    Fibre& f = machine.fibre[(first + k) % machine.fibres];
    if (f.state != kAsleep || f.word != word) continue;
    f.state = kReady;
    f.woken = 0;
    n--;
  }
}

inline int64_t monotonic_ns() noexcept { return machine.clock; }

// Each run begins at `begin` again, regardless of the stack that the last run left.
inline void fibre_main() {
  if (__builtin_setjmp(machine.fibre[machine.me].begin.at) == 0)
    swapcontext(&machine.fibre[machine.me].context, &machine.main);
  machine.entry(machine.context, machine.me);
  machine.fibre[machine.me].state = kEnded;
  for (;;) leave();
}

inline void make(Fibre& f) {
  f.stack.reset(new char[kStack]);
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.get();
  f.context.uc_stack.ss_size = kStack;
  f.context.uc_link = nullptr;
  makecontext(&f.context, fibre_main, 0);
  swapcontext(&machine.main, &f.context);
}

// Runs entry(context, i) in `fibres` fibres under one schedule.
inline int run(uint64_t seed, int fibres, void (*entry)(void*, int), void* context, uint64_t most) {
  Machine& m = machine;
  m.random = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  for (int i = 0; i < 4; i++) random(2);
  m.stay = random(8);
  for (int i = 0; i < m.place_count; i++) m.places[i].clear();
  m.place_count = 0;
  m.place_of.clear();
  m.accesses.clear();
  m.shared = Known{};
  m.verdict = kFine;
  m.what = 0;
  m.steps = m.clock = 0;
  m.most = most;
  m.stopped = 0;
  m.stopped_before.reset();
  m.frozen = -1;
  m.fibres = fibres;
  m.entry = entry;
  m.context = context;
  for (int i = 0; i < fibres; i++) {
    Fibre& f = m.fibre[i];
    if (!f.stack) {
      m.me = i;
      make(f);
    }
    f.now_at = f.begin;
    f.now = f.acquired = f.released = Known{};
    f.now.clock[i] = 1;
    f.state = kReady;
    f.edges.reset();
    f.counted = 0;
    f.armed = false;
  }
  m.running = true;
  m.me = pick();
  change(m.main_at, m.fibre[m.me].now_at);
  if (m.running) {
    m.running = false;
    for (int i = 0; i < fibres; i++)
      if (m.fibre[i].state == kAsleep) m.verdict = kAllAsleep;
  }
  return m.verdict;
}

// In all runs from now on that edge has a weaker order; 0: all have their own again.
inline void mutate(int edge, MemoryOrder weakened) noexcept {
  edge == 0 ? machine.mutated.reset() : machine.mutated.set(edge);
  machine.weakened[edge] = weakened;
}

// In all runs from now on that fibre stops before its nth operation while it is armed; 0: nowhere.
inline void suspend(int fibre, uint64_t at) noexcept { machine.fibre[fibre].stop_at = at; }

// The number of fibres that are stopped now; whether one stopped before an operation with that label.
inline int suspended() noexcept { return machine.stopped; }
inline bool suspended_before(int edge) noexcept { return machine.stopped_before[edge]; }

// Lets the stopped fibres go on.
inline void resume() noexcept {
  machine.stopped = 0;
  for (int i = 0; i < machine.fibres; i++)
    if (machine.fibre[i].state == kSuspended) machine.fibre[i].state = kReady;
}

inline int what() noexcept { return machine.what; }

}  // namespace schedule

inline MemoryOrder order(int edge, MemoryOrder wanted) noexcept {
  if (!schedule::machine.running) return wanted;
  schedule::machine.fibre[schedule::machine.me].edges.set(edge);
  return schedule::machine.mutated[edge] ? schedule::machine.weakened[edge] : wanted;
}

inline void fence(MemoryOrder o) noexcept { schedule::fence(o); }
inline void compiler_fence() noexcept {}

// Its bytes are the newest value; outside a run there is no other value.
template <class T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = true;

  // Not within a run: the stores seen at this address stay.
  Atomic() = default;
  constexpr Atomic(T value) noexcept : value_(value) {}

  T load(MemoryOrder o) const noexcept {
    schedule::step();
    if (!schedule::machine.running) return value_;
    int p = place();
    return T(schedule::read(p, schedule::any_from(p, schedule::oldest(p, o)), o));
  }

  void store(T next, MemoryOrder o) noexcept {
    schedule::step();
    if (schedule::machine.running) schedule::write(place(), bits(next), o, nullptr);
    value_ = next;
    schedule::stored();
  }

  T exchange(T next, MemoryOrder o) noexcept {
    return update(o, [next](T) { return next; });
  }
  T fetch_add(T n, MemoryOrder o) noexcept {
    return update(o, [n](T x) { return T(x + n); });
  }
  T fetch_sub(T n, MemoryOrder o) noexcept {
    return update(o, [n](T x) { return T(x - n); });
  }
  T fetch_or(T n, MemoryOrder o) noexcept {
    return update(o, [n](T x) { return T(x | n); });
  }

  bool compare_exchange_strong(T& expected, T next, MemoryOrder good, MemoryOrder bad) noexcept {
    schedule::step();
    if (!schedule::machine.running) {
      bool same = value_ == expected;
      same ? value_ = next : expected = value_;
      return same;
    }
    // A failure is a load, and may be of an old store.
    int p = place();
    uint32_t i = schedule::any_from(p, schedule::oldest(p, bad));
    if (T(schedule::machine.places[p][i].value) == expected) i = uint32_t(schedule::machine.places[p].size()) - 1;
    if (T(schedule::machine.places[p][i].value) != expected) {
      expected = T(schedule::read(p, i, bad));
      return false;
    }
    i = uint32_t(schedule::machine.places[p].size()) - 1;
    schedule::read(p, i, good);
    schedule::Known passed_on = schedule::machine.places[p][i].carried;
    schedule::write(p, bits(next), good, &passed_on);
    value_ = next;
    schedule::stored();
    return true;
  }

  bool compare_exchange_weak(T& expected, T next, MemoryOrder good, MemoryOrder bad) noexcept {
    if (schedule::machine.running && schedule::random(8) == 0) {
      T found = load(bad);
      if (found != expected) expected = found;
      return false;
    }
    return compare_exchange_strong(expected, next, good, bad);
  }

 private:
  static uint64_t bits(T x) noexcept { return uint64_t(x); }
  int place() const { return schedule::place(this, bits(value_)); }

  template <class F>
  T update(MemoryOrder o, F f) noexcept {
    schedule::step();
    T old = value_;
    if (schedule::machine.running) {
      int p = place();
      auto i = uint32_t(schedule::machine.places[p].size()) - 1;
      old = T(schedule::read(p, i, o));
      schedule::Known passed_on = schedule::machine.places[p][i].carried;
      schedule::write(p, bits(f(old)), o, &passed_on);
    }
    value_ = f(old);
    schedule::stored();
    return old;
  }

  T value_;
};

template <class T>
struct Plain {
  T get() const noexcept {
    schedule::access(this, false);
    return value;
  }
  void set(T next) noexcept {
    schedule::access(this, true);
    value = next;
  }
  T value;
};

}  // namespace queuecore
