// Services of the operating system and the processor that Cython can't express: futex, monotonic clock, native threads,
// pause and prefetch, byte reversal, and memory that is aligned and zeroed.
#pragma once

#ifndef __linux__
#error "queuecore needs Linux for now (futex, preadv2, sched_getaffinity)"
#endif

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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
inline int64_t monotonic_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// Sleeps while *word == expected, until woken or until the absolute CLOCK_MONOTONIC deadline (< 0: none).
// Returns 0 when futex says "woken", else the errno: EAGAIN, EINTR, ETIMEDOUT.
inline int futex_wait(void* word, uint32_t expected, int64_t deadline_ns) noexcept {
  timespec t;
  timespec* p = nullptr;
  if (deadline_ns >= 0) {
    t.tv_sec = time_t(deadline_ns / 1000000000);
    t.tv_nsec = long(deadline_ns % 1000000000);
    p = &t;
  }
  long rc =
      syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, p, nullptr, FUTEX_BITSET_MATCH_ANY);
  return rc == 0 ? 0 : errno;
}

inline void futex_wake(void* word, uint32_t n) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n > INT_MAX ? INT_MAX : int(n), nullptr, nullptr, 0);
}

// A full barrier in every thread of this process that runs now; only after membarrier_register() said that there is
// one.
inline void membarrier() noexcept { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }
#endif

// Asks the kernel for membarrier(). False: use fences. On x86-64, stores wait in one buffer, which such a barrier
// empties; its use isn't verified on other processors, and the thread sanitizer doesn't know it: false for both.
inline bool membarrier_register() noexcept {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
  return false;
#endif
}

// Processors this process may run on.
inline int usable_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
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
  std::free(p);
  pthread_sigmask(SIG_UNBLOCK, &start.heard, nullptr);
  pthread_setname_np(pthread_self(), start.name);
  start.main(start.arg);
  return nullptr;
}

// Starts a detached thread. All signals but those above are blocked there: they belong to Python's main thread.
// Returns 0 or an errno.
inline int thread_start(ThreadMain main, void* arg, const char* name) noexcept {
  auto* start = static_cast<ThreadStart*>(std::malloc(sizeof(ThreadStart)));
  if (start == nullptr) return ENOMEM;
  start->main = main;
  start->arg = arg;
  std::strncpy(start->name, name, sizeof start->name - 1);
  start->name[sizeof start->name - 1] = 0;
  pthread_attr_t attr;
  int rc = pthread_attr_init(&attr);
  if (rc != 0) {
    std::free(start);
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
  rc = pthread_create(&id, &attr, thread_entry, start);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attr);
  if (rc != 0) std::free(start);
  return rc;
}

// From this size on, zeroed memory is left to the kernel.
constexpr std::size_t kUntouched = std::size_t(1) << 20;
constexpr std::size_t kPage = 65536;  // a multiple of the page size of every machine

// Zeroed memory, aligned to kLine; null when there is none. Zero bytes are the initial state of every shared struct.
inline void* alloc_lines(std::size_t nbytes) noexcept {
  void* p = nullptr;
  if (nbytes > PTRDIFF_MAX - kLine) return nullptr;
  std::size_t size = (nbytes + kLine - 1) / kLine * kLine;
  if (posix_memalign(&p, kLine, size ? size : kLine) != 0) return nullptr;
  if (size < kUntouched) {
    std::memset(p, 0, size ? size : kLine);
    return p;
  }
  // Pages that are given back to the kernel come again as zeros, one by one, when they are used.
  auto* begin = static_cast<unsigned char*>(p);
  std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(begin) % kPage) % kPage;
  unsigned char* first = begin + before;
  std::size_t whole = std::size_t(begin + size - first) / kPage * kPage;
  if (madvise(first, whole, MADV_DONTNEED) != 0) {  // for example, because they are locked into memory
    std::memset(p, 0, size);
    return p;
  }
  std::memset(begin, 0, before);
  std::memset(first + whole, 0, std::size_t(begin + size - first) - whole);
  return p;
}

// Page-aligned zero pages straight from the kernel, touched only when used; null when there are none.
inline void* map_pages(std::size_t nbytes) noexcept {
  // No reserve: a shuffle's buffer may be far larger than the data, and than memory; untouched pages cost nothing.
  void* p = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (nbytes >= (std::size_t(4) << 20)) madvise(p, nbytes, MADV_HUGEPAGE);  // fewer first-touch faults
  return p;
}

inline void unmap_pages(void* p, std::size_t nbytes) noexcept {
  if (p != nullptr) munmap(p, nbytes);
}

// Keeps the range, but the kernel may take its pages, and with them the content, until they are written again.
inline void disown_pages(void* p, std::size_t nbytes) noexcept { madvise(p, nbytes, MADV_FREE); }

}  // namespace queuecore
