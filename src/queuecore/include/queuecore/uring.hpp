// Reads by io_uring: a thread hands many in with one call of the kernel's, and takes their results as they come.
//
// A ring is one thread's alone, which makes it; once none of its reads is in flight, any thread may close it. The kernel
// and the thread share two rings: of entries, which the thread writes, and of results, which the kernel writes.
//   R1  The kernel looks at entries within ring_enter alone, and those that it has taken are free when that returns.
//   R2  A result is taken after its tail was read (acquire), and its place is given back (release) after that.
//   R3  At most kRingReads reads are in the ring or in flight, so neither ring runs over.
//   R4  The kernel may write to a read's memory from ring_enter on, until its result is taken.
// No flag asks the kernel to do less on its own: results come after any call of the thread's, so that those in flight
// come also where ring_enter fails for good.
//
// The kernel's types and numbers stand here in our words: headers of systems on which wheels are built lack some.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define QUEUECORE_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define QUEUECORE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUEUECORE_TSAN 1
#elif __has_feature(address_sanitizer)
#define QUEUECORE_ASAN 1
#endif
#endif
#if defined(QUEUECORE_TSAN)
extern "C" void __tsan_write_range(void*, unsigned long);
#elif defined(QUEUECORE_ASAN)
extern "C" void* __asan_region_is_poisoned(void*, std::size_t);
extern "C" void __asan_report_store_n(void*, std::size_t);
#endif

namespace queuecore {

constexpr unsigned kRingReads = 32;
// From three entries on the kernel keeps them back from the disk until it has seen all; the disk has nothing to do
// meanwhile, and ends all at about the same time.
constexpr unsigned kTogether = 2;

// ---- the kernel's ---------------------------------------------------------------------------------------------------

struct RingEntry {
  uint8_t op, flags;
  uint16_t priority;
  int32_t fd;
  uint64_t offset, to;
  uint32_t nbytes, how;
  uint64_t whose;
  uint64_t rest[3];
};

struct RingResult {
  uint64_t whose;
  int32_t result;  // bytes; below 0: the errno is its opposite
  uint32_t flags;
};

struct RingOffsets {
  uint32_t head, tail, mask, entries, more[4];
  uint64_t address;
};

struct RingParams {
  uint32_t entries, results, flags, cpu, idle, features, workers, rest[3];
  RingOffsets of_entries, of_results;
};

struct RingWait {
  uint64_t signals;
  uint32_t signal_bytes, least_ns;
  const void* limit;
};

static_assert(sizeof(RingEntry) == 64 && sizeof(RingResult) == 16 && sizeof(RingParams) == 120 &&
                  sizeof(RingWait) == 24,
              "as the kernel has them");

constexpr long kRingSetup = 425, kRingEnter = 426, kRingRegister = 427;
constexpr int64_t kRingsAt = 0, kEntriesAt = 0x10000000;  // of a ring's descriptor
constexpr uint32_t kOneMap = 1, kLimits = 1 << 8;         // features: both rings in one mapping; a limit of waits
constexpr unsigned kGetResults = 1, kWithLimit = 1 << 3;  // flags of ring_enter
constexpr unsigned kMostWorkers = 19;                     // what to register
constexpr uint8_t kRead = 22;                             // operation

// ---- rings ----------------------------------------------------------------------------------------------------------

struct Uring {
  char* rings;  // null: it isn't open
  std::size_t rings_bytes;
  RingEntry* entries;
  std::size_t entries_bytes;
  RingResult* results;
  unsigned *entry_head, *entry_tail, *result_head, *result_tail;
  unsigned entry_mask, result_mask;
  int fd;
  unsigned held;  // reads whose results were not taken yet
};

// -1: errno says why; ENOSYS also where the kernel has rings that can do less.
inline int real_ring_open(Uring* ring) noexcept {
  RingParams p = {};
  int fd = int(::syscall(kRingSetup, kRingReads, &p));
  if (fd < 0) return -1;
  // more[2]: the order of entries, of the ring of entries; the results themselves, of that of results.
  std::size_t rings_bytes = std::max(p.of_entries.more[2] + p.entries * sizeof(unsigned),
                                     p.of_results.more[1] + p.results * sizeof(RingResult));
  std::size_t entries_bytes = p.entries * sizeof(RingEntry);
  void* rings = MAP_FAILED;
  void* entries = MAP_FAILED;
  errno = ENOSYS;
  if ((p.features & kOneMap) && (p.features & kLimits)) {
    rings = ::mmap(nullptr, rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, kRingsAt);
    entries = ::mmap(nullptr, entries_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, kEntriesAt);
  }
  if (rings == MAP_FAILED || entries == MAP_FAILED) {
    int error = errno;
    if (rings != MAP_FAILED) ::munmap(rings, rings_bytes);
    if (entries != MAP_FAILED) ::munmap(entries, entries_bytes);
    ::close(fd);
    errno = error;
    return -1;
  }
  // Where a file system can't start a read without a wait, threads of the kernel's do it: as many as there are reads.
  unsigned workers[2] = {kRingReads, 0};
  ::syscall(kRingRegister, fd, kMostWorkers, workers, 2);
  auto at = [&](uint32_t offset) { return reinterpret_cast<unsigned*>(static_cast<char*>(rings) + offset); };
  for (unsigned i = 0; i < p.entries; i++) at(p.of_entries.more[2])[i] = i;
  *ring = {static_cast<char*>(rings),
           rings_bytes,
           static_cast<RingEntry*>(entries),
           entries_bytes,
           reinterpret_cast<RingResult*>(at(p.of_results.more[1])),
           at(p.of_entries.head),
           at(p.of_entries.tail),
           at(p.of_results.head),
           at(p.of_results.tail),
           *at(p.of_entries.mask),
           *at(p.of_results.mask),
           fd,
           0};
  return 0;
}

inline void real_ring_close(Uring* ring) noexcept {
  ::munmap(ring->rings, ring->rings_bytes);
  ::munmap(ring->entries, ring->entries_bytes);
  ::close(ring->fd);
  ring->rings = nullptr;
}

// Hands in what ring_read has added, and waits until a result is there or so many nanoseconds are over (< 0: without a
// limit); signals may end it early. -1: the kernel refuses, and errno says why; it may have taken some reads.
inline int real_ring_enter(Uring* ring, int64_t wait_ns) noexcept {
  int64_t limit[2] = {wait_ns / 1000000000, wait_ns % 1000000000};
  RingWait wait = {0, 0, 0, wait_ns < 0 ? nullptr : limit};
  unsigned fresh = *ring->entry_tail - __atomic_load_n(ring->entry_head, __ATOMIC_ACQUIRE);
  long rc = 0;
  for (; rc >= 0 && fresh > kTogether; fresh -= kTogether) {
    rc = ::syscall(kRingEnter, ring->fd, kTogether, 0, 0, nullptr, 0);
  }
  if (rc >= 0) rc = ::syscall(kRingEnter, ring->fd, fresh, 1, kGetResults | kWithLimit, &wait, sizeof(wait));
  return rc >= 0 || errno == EINTR || errno == ETIME ? 0 : -1;
}

// Takes a result. 0: none is there.
inline int real_ring_reap(Uring* ring, void** whose, int32_t* result) noexcept {
  unsigned head = *ring->result_head;
  if (head == __atomic_load_n(ring->result_tail, __ATOMIC_ACQUIRE)) return 0;
  const RingResult& one = ring->results[head & ring->result_mask];
  *whose = reinterpret_cast<void*>(one.whose);
  *result = one.result;
  __atomic_store_n(ring->result_head, head + 1, __ATOMIC_RELEASE);
  ring->held--;
  return 1;
}

// Adds a read for the next ring_enter. `whose` comes with its result.
inline void ring_read(Uring* ring, int fd, void* to, std::size_t nbytes, int64_t offset, void* whose) noexcept {
  constexpr std::size_t kMost = std::size_t(1) << 30;
  unsigned tail = *ring->entry_tail;
  RingEntry entry = {};
  entry.op = kRead;
  entry.fd = fd;
  entry.offset = uint64_t(offset);
  entry.to = reinterpret_cast<uint64_t>(to);
  entry.nbytes = uint32_t(std::min(nbytes, kMost));
  entry.whose = reinterpret_cast<uint64_t>(whose);
  ring->entries[tail & ring->entry_mask] = entry;
  __atomic_store_n(ring->entry_tail, tail + 1, __ATOMIC_RELEASE);
  ring->held++;
}

// Takes the last read back that the kernel has not taken; null: there is none.
inline void* ring_unread(Uring* ring) noexcept {
  unsigned tail = *ring->entry_tail;
  if (tail == __atomic_load_n(ring->entry_head, __ATOMIC_ACQUIRE)) return nullptr;
  __atomic_store_n(ring->entry_tail, tail - 1, __ATOMIC_RELEASE);
  ring->held--;
  return reinterpret_cast<void*>(ring->entries[(tail - 1) & ring->entry_mask].whose);
}

// Tells the sanitizers, which see what reads of the C library write, of a result.
inline void kernel_wrote([[maybe_unused]] void* to, [[maybe_unused]] std::size_t nbytes) noexcept {
#if defined(QUEUECORE_TSAN)
  __tsan_write_range(to, nbytes);
#elif defined(QUEUECORE_ASAN)
  if (void* bad = __asan_region_is_poisoned(to, nbytes)) __asan_report_store_n(bad, 1);
#endif
}

}  // namespace queuecore
