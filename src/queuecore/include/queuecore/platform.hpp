// Services of the operating system and the processor that Cython can't express: futex, monotonic clock, native threads,
// pause and prefetch, byte reversal, and memory that is aligned and zeroed.
#pragma once

#ifndef __linux__
#error "queuecore needs Linux for now (futex, preadv2, sched_getaffinity)"
#endif

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queuecore/syscalls.hpp"

#ifdef QUEUECORE_SCHEDULE
#include "queuecore/schedule.hpp"
#endif

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the epoch of an event count is the low half of its word");

namespace queuecore {

// Two lines: the adjacent-line prefetcher moves pairs, so one line of padding still shares.
constexpr std::size_t kLine = 128;

inline void cpu_pause() noexcept {
#if defined(QUEUECORE_SCHEDULE)
  schedule::pause();
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

#ifdef QUEUECORE_SCHEDULE
using schedule::futex_wait;
using schedule::futex_wake;
using schedule::membarrier;
using schedule::monotonic_ns;
#else
inline int64_t monotonic_ns() noexcept { return syscalls()->clock(); }

// Sleeps while *word == expected, until woken or until the absolute monotonic deadline (< 0: none).
// Returns 0 when futex says "woken", else the errno: EAGAIN, EINTR, ETIMEDOUT.
inline int futex_wait(void* word, uint32_t expected, int64_t deadline_ns) noexcept {
  return syscalls()->futex_wait(word, expected, deadline_ns);
}

inline void futex_wake(void* word, uint32_t n) noexcept { syscalls()->futex_wake(word, n); }

// A full barrier in every thread of this process that runs now; only after membarrier_register() said that there is
// one.
inline void membarrier() noexcept { syscalls()->membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }
#endif

// The processor's own clock, for statistics: one instruction, no call. Its unit is found by a look at the other clock.
inline std::int64_t cpu_ticks() noexcept {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return monotonic_ns();
#endif
}

// Asks the kernel for membarrier(). False: use fences. On x86-64, stores wait in one buffer, which such a barrier
// empties; its use isn't verified on other processors, and the thread sanitizer doesn't know it: false for both.
inline bool membarrier_register() noexcept {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  return syscalls()->membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
#else
  return false;
#endif
}

// Processors this process may run on.
inline int usable_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (syscalls()->affinity(sizeof set, &set) != 0) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? int(n) : 1;
  }
  int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

using ThreadMain = void (*)(void*);

// The signals that a native thread doesn't block. First, those that its own instructions raise: blocked, they would end
// the process without their handlers, and faulthandler and crash reporters would see nothing. Second, unless the thread
// that starts it blocks them, those for the running thread: abort's, and a profiler's clock. A handler may interrupt any
// system call of such a thread, which makes the call again.
constexpr int kOwnSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
constexpr int kSharedSignals[] = {SIGABRT, SIGPROF};

struct ThreadStart {
  ThreadMain main;
  void* arg;
  char name[16];
  sigset_t heard;
};

inline void* thread_entry(void* p) {
  ThreadStart start = *static_cast<ThreadStart*>(p);
  free(p);
  pthread_sigmask(SIG_UNBLOCK, &start.heard, nullptr);
  pthread_setname_np(pthread_self(), start.name);
  start.main(start.arg);
  return nullptr;
}

// Starts a detached thread. All signals but those above are blocked there: they belong to Python's main thread.
// Returns 0 or an errno.
inline int thread_start(ThreadMain main, void* arg, const char* name) noexcept {
  auto* start = static_cast<ThreadStart*>(malloc(sizeof(ThreadStart)));
  if (start == nullptr) return ENOMEM;
  start->main = main;
  start->arg = arg;
  std::strncpy(start->name, name, sizeof start->name - 1);
  start->name[sizeof start->name - 1] = 0;
  pthread_attr_t attr;
  int rc = pthread_attr_init(&attr);
  if (rc != 0) {
    free(start);
    return rc;
  }
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // the new thread inherits the full mask
  sigemptyset(&start->heard);
  for (int own : kOwnSignals) sigaddset(&start->heard, own);
  for (int shared : kSharedSignals)
    if (sigismember(&old, shared) == 0) sigaddset(&start->heard, shared);
  pthread_t id;
  rc = syscalls()->thread(&id, &attr, thread_entry, start);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attr);
  if (rc != 0) free(start);
  return rc;
}

// From this size on, zeroed memory is left to the kernel.
constexpr std::size_t kUntouched = std::size_t(1) << 20;
constexpr std::size_t kPage = 65536;  // a multiple of the page size of every machine

// Zeroed memory, aligned to kLine; null when there is none. Zero bytes are the initial state of every shared struct.
inline void* alloc_lines(std::size_t nbytes) noexcept {
  if (nbytes > PTRDIFF_MAX - kLine) return nullptr;
  std::size_t size = (nbytes + kLine - 1) / kLine * kLine;
  void* p = syscalls()->memalign(kLine, size ? size : kLine);
  if (p == nullptr) return nullptr;
  if (size < kUntouched) {
    std::memset(p, 0, size ? size : kLine);
    return p;
  }
  // Pages that are given back to the kernel come again as zeros, one by one, when they are used.
  auto* begin = static_cast<unsigned char*>(p);
  std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(begin) % kPage) % kPage;
  unsigned char* first = begin + before;
  std::size_t whole = std::size_t(begin + size - first) / kPage * kPage;
  if (syscalls()->advise(first, whole, MADV_DONTNEED) != 0) {  // locked into memory, for one
    std::memset(p, 0, size);
    return p;
  }
  std::memset(begin, 0, before);
  std::memset(first + whole, 0, std::size_t(begin + size - first) - whole);
  return p;
}

// What a short stream uses of a slab: the first slots alone, and little of each. Huge pages would make 2 MiB of each.
constexpr std::size_t kSmallPages = std::size_t(4) << 20;

// Page-aligned zero pages straight from the kernel, touched only when used; null when there are none.
inline void* map_pages(std::size_t nbytes) noexcept {
  void* p = syscalls()->map(nbytes);
  if (p == nullptr) return nullptr;
  if (nbytes > kSmallPages) {  // fewer first-touch faults
    syscalls()->advise(static_cast<unsigned char*>(p) + kSmallPages, nbytes - kSmallPages, MADV_HUGEPAGE);
  }
  return p;
}

inline void unmap_pages(void* p, std::size_t nbytes) noexcept {
  if (p != nullptr) syscalls()->unmap(p, nbytes);
}

// Keeps the range, but the kernel may take its pages, and with them the content, until they are written again.
inline void disown_pages(void* p, std::size_t nbytes) noexcept { syscalls()->advise(p, nbytes, MADV_FREE); }

}  // namespace queuecore
