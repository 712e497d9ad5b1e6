// What native code wants of the operating system and of the allocator: files, memory, threads, clocks, waits, libraries.
// All of it goes through one table of functions (`.ci/check_calls.py` finds what doesn't), so that tests can put others
// there and let any call fail. In a build with QUEUECORE_TESTING the process has one table, and `check_layout` gives each
// extension module its address. In any other build the table is a constant: calls through it are the calls themselves.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "queuecore/uring.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace queuecore {

// ---- files ----------------------------------------------------------------------------------------------------------

struct FileStat {
  int64_t size;
  int64_t mtime_ns;
  uint64_t dev;
  uint64_t ino;
  uint32_t mode;
};

inline int real_open(const char* path) noexcept {
  // O_NONBLOCK: opening a FIFO must not wait for its writer; it means nothing for a regular file.
  return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

inline int real_close(int fd) noexcept { return ::close(fd); }

inline FileStat file_stat(const struct stat& st) noexcept {
  return {st.st_size, int64_t(st.st_mtim.tv_sec) * 1000000000 + st.st_mtim.tv_nsec, st.st_dev, st.st_ino, st.st_mode};
}

inline int real_stat(const char* path, FileStat* out) noexcept {
  struct stat st;
  if (::stat(path, &st) != 0) return -1;
  *out = file_stat(st);
  return 0;
}

inline int real_fstat(int fd, FileStat* out) noexcept {
  struct stat st;
  if (::fstat(fd, &st) != 0) return -1;
  *out = file_stat(st);
  return 0;
}

// Where the file system keeps its files: in memory, so that no read waits; on a disk of this machine, so that a call
// about an open file doesn't wait; or on another machine, by a program, or nobody knows: any call may take any time.
constexpr int kStorageElsewhere = 0, kStorageMemory = 1, kStorageDisk = 2;

inline int real_storage(int fd) noexcept {
  constexpr int64_t kDisks[] = {
      0xef53 /* ext2 to ext4 */, 0x58465342 /* XFS */,      0x9123683e /* Btrfs */,    0xf2f52010 /* F2FS */,
      0x794c7630 /* overlay */,  0x2fc12fc1 /* ZFS */,      0x3153464a /* JFS */,      0x4d44 /* FAT */,
      0x2011bab0 /* exFAT */,    0x5346544e /* NTFS */,     0x73717368 /* SquashFS */, 0xe0f5e1e2 /* EROFS */,
      0x9660 /* ISO 9660 */,     0xca451a4e /* bcachefs */,
  };
  struct statfs st;
  if (::fstatfs(fd, &st) != 0) return kStorageElsewhere;
  if (st.f_type == TMPFS_MAGIC || st.f_type == RAMFS_MAGIC || st.f_type == HUGETLBFS_MAGIC) return kStorageMemory;
  for (int64_t disk : kDisks) {
    if (int64_t(st.f_type) == disk) return kStorageDisk;
  }
  return kStorageElsewhere;
}

// flags: 0 or RWF_NOWAIT ("only what the page cache holds": EAGAIN when it doesn't, EOPNOTSUPP where unknown).
// offset -1: where the last read ended, also of what has no places, as a pipe.
inline int64_t real_preadv(int fd, const struct iovec* iov, int count, int64_t offset, int flags) noexcept {
  if (flags == 0 && offset >= 0) return ::preadv(fd, iov, count, offset);
  return ::preadv2(fd, iov, count, offset, flags);
}

// Lets the page cache forget these bytes of a file; pages of which others are a part stay.
inline int real_forget(int fd, int64_t offset, int64_t nbytes) noexcept {
  return ::posix_fadvise(fd, offset, nbytes, POSIX_FADV_DONTNEED);
}

// Tells the kernel to read these bytes of a file into the page cache, and doesn't wait for them.
inline int real_expect(int fd, int64_t offset, int64_t nbytes) noexcept {
  return ::posix_fadvise(fd, offset, nbytes, POSIX_FADV_WILLNEED);
}

// Lets reads of an open file pass over the page cache, or no longer. Places in the file and in memory, and sizes, must be
// multiples of the disk's blocks then. -1: the file system doesn't do that.
inline int real_direct(int fd, int on) noexcept {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return -1;
  return ::fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

// Waits until there is something to read, or the end. 0: so many milliseconds are over; -1: errno says why.
inline int real_poll(int fd, int milliseconds) noexcept {
  struct pollfd one = {fd, POLLIN, 0};
  return ::poll(&one, 1, milliseconds);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

inline void* real_malloc(std::size_t nbytes) noexcept { return std::malloc(nbytes); }
inline void* real_calloc(std::size_t count, std::size_t nbytes) noexcept { return std::calloc(count, nbytes); }
inline void* real_realloc(void* p, std::size_t nbytes) noexcept { return std::realloc(p, nbytes); }
inline void real_free(void* p) noexcept { std::free(p); }

// Freed as that of malloc.
inline void* real_memalign(std::size_t alignment, std::size_t nbytes) noexcept {
  void* p = nullptr;
  return ::posix_memalign(&p, alignment, nbytes) == 0 ? p : nullptr;
}

// No reserve: a shuffle's buffer may be far larger than the data, and than memory; what is never touched costs nothing.
inline void* real_map(std::size_t nbytes) noexcept {
  void* p = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

inline void real_unmap(void* p, std::size_t nbytes) noexcept { ::munmap(p, nbytes); }
inline int real_advise(void* p, std::size_t nbytes, int what) noexcept { return ::madvise(p, nbytes, what); }

// Pages that nobody has touched yet come from that node as long as it has some.
inline int real_prefer_node([[maybe_unused]] void* p, [[maybe_unused]] std::size_t nbytes, int node) noexcept {
#ifdef SYS_mbind
  constexpr int kPreferred = 1, kBits = 8 * sizeof(unsigned long), kNodes = 1024;
  unsigned long nodes[kNodes / kBits] = {};
  if (node < 0 || node >= kNodes) return 0;
  nodes[node / kBits] = 1ul << node % kBits;
  // The kernel looks at one bit less than it is told.
  return int(::syscall(SYS_mbind, p, nbytes, kPreferred, nodes, kNodes + 1, 0));
#else
  return node < 0 ? 0 : -1;
#endif
}

// Page-locks memory by the function of a driver, whose result it returns.
using PinFn = int (*)(void* p, std::size_t nbytes, unsigned flags);
using UnpinFn = int (*)(void* p);
inline int real_pin(PinFn pin, void* p, std::size_t nbytes, unsigned flags) noexcept { return pin(p, nbytes, flags); }
inline int real_unpin(UnpinFn unpin, void* p) noexcept { return unpin(p); }

// ---- threads, clocks, waits -----------------------------------------------------------------------------------------

using EntryFn = void* (*)(void*);
inline int real_thread(pthread_t* id, const pthread_attr_t* attributes, EntryFn entry, void* arg) noexcept {
  return ::pthread_create(id, attributes, entry, arg);
}

inline int real_affinity(std::size_t nbytes, cpu_set_t* cpus) noexcept { return ::sched_getaffinity(0, nbytes, cpus); }

inline int64_t real_clock() noexcept {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// Signals may end it early.
inline void real_sleep(int64_t ns) noexcept {
  timespec t;
  t.tv_sec = time_t(ns / 1000000000);
  t.tv_nsec = long(ns % 1000000000);
  ::nanosleep(&t, nullptr);
}

// Sleeps while *word == expected, until woken or until the absolute CLOCK_MONOTONIC deadline (< 0: none).
// Returns 0 when futex says "woken", else the errno: EAGAIN, EINTR, ETIMEDOUT.
inline int real_futex_wait(void* word, uint32_t expected, int64_t deadline_ns) noexcept {
  timespec t;
  timespec* p = nullptr;
  if (deadline_ns >= 0) {
    t.tv_sec = time_t(deadline_ns / 1000000000);
    t.tv_nsec = long(deadline_ns % 1000000000);
    p = &t;
  }
  long rc =
      ::syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, p, nullptr, FUTEX_BITSET_MATCH_ANY);
  return rc == 0 ? 0 : errno;
}

inline void real_futex_wake(void* word, uint32_t n) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n > INT_MAX ? INT_MAX : int(n), nullptr, nullptr, 0);
}

inline int real_membarrier(int command) noexcept { return int(::syscall(SYS_membarrier, command, 0, 0)); }

// ---- libraries ------------------------------------------------------------------------------------------------------

// Null: dlerror() says why. Name null: the program itself.
inline void* real_library(const char* name) noexcept { return ::dlopen(name, RTLD_NOW | RTLD_LOCAL); }
inline int real_library_close(void* library) noexcept { return ::dlclose(library); }

// ---- the table ------------------------------------------------------------------------------------------------------

struct Syscalls {
  int (*open)(const char*);
  int (*close)(int);
  int (*stat)(const char*, FileStat*);
  int (*fstat)(int, FileStat*);
  int (*storage)(int);
  int64_t (*preadv)(int, const struct iovec*, int, int64_t, int);
  int (*forget)(int, int64_t, int64_t);
  int (*expect)(int, int64_t, int64_t);
  int (*direct)(int, int);
  int (*poll)(int, int);
  int (*ring_open)(Uring*);
  int (*ring_enter)(Uring*, int64_t);
  int (*ring_reap)(Uring*, void**, int32_t*);
  void (*ring_close)(Uring*);
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*map)(std::size_t);
  void (*unmap)(void*, std::size_t);
  int (*advise)(void*, std::size_t, int);
  int (*prefer_node)(void*, std::size_t, int);
  int (*pin)(PinFn, void*, std::size_t, unsigned);
  int (*unpin)(UnpinFn, void*);
  int (*thread)(pthread_t*, const pthread_attr_t*, EntryFn, void*);
  int (*affinity)(std::size_t, cpu_set_t*);
  int64_t (*clock)();
  void (*sleep)(int64_t);
  int (*futex_wait)(void*, uint32_t, int64_t);
  void (*futex_wake)(void*, uint32_t);
  int (*membarrier)(int);
  void* (*library)(const char*);
  int (*library_close)(void*);
};

constexpr Syscalls kRealSyscalls = {
    real_open,       real_close,      real_stat,     real_fstat,        real_storage,     real_preadv,
    real_forget,     real_expect,     real_direct,   real_poll,         real_ring_open,   real_ring_enter,
    real_ring_reap,  real_ring_close, real_malloc,   real_calloc,       real_realloc,     real_free,
    real_memalign,   real_map,        real_unmap,    real_advise,       real_prefer_node, real_pin,
    real_unpin,      real_thread,     real_affinity, real_clock,        real_sleep,       real_futex_wait,
    real_futex_wake, real_membarrier, real_library,  real_library_close};

// The seeded scheduler's modules share nothing with the rest of the process.
#if defined(QUEUECORE_TESTING) && !defined(QUEUECORE_SCHEDULE)
#define QUEUECORE_SHARED_TABLE 1
inline Syscalls first_table = kRealSyscalls;  // of this extension module; that of atoms/process becomes everybody's
inline Syscalls* shared_table = &first_table;
inline Syscalls* syscalls() noexcept { return shared_table; }
inline void share_syscalls(Syscalls* table) noexcept { shared_table = table; }
#else
#define QUEUECORE_SHARED_TABLE 0
inline const Syscalls* syscalls() noexcept { return &kRealSyscalls; }
inline void share_syscalls(const Syscalls*) noexcept {}
#endif

// By the names of the C library, whose allocator stands behind them. Any module may free what any other one has taken.
inline void* malloc(std::size_t nbytes) noexcept { return syscalls()->malloc(nbytes); }
inline void* calloc(std::size_t count, std::size_t nbytes) noexcept { return syscalls()->calloc(count, nbytes); }
inline void* realloc(void* p, std::size_t nbytes) noexcept { return syscalls()->realloc(p, nbytes); }
inline void free(void* p) noexcept { syscalls()->free(p); }

// A copy of a text, which is freed as other memory; null: there is no memory.
inline char* strdup(const char* text) noexcept {
  std::size_t nbytes = std::strlen(text) + 1;
  void* made = malloc(nbytes);
  return made == nullptr ? nullptr : static_cast<char*>(std::memcpy(made, text, nbytes));
}

inline bool is_regular(uint32_t mode) noexcept { return S_ISREG(mode); }
inline bool is_directory(uint32_t mode) noexcept { return S_ISDIR(mode); }

}  // namespace queuecore
