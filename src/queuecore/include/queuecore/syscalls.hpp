// The system calls that readers make, behind one table of function pointers, so that fault tests can put others there.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace queuecore {

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

inline int real_fstat(int fd, FileStat* out) noexcept {
  struct stat st;
  if (::fstat(fd, &st) != 0) return -1;
  out->size = st.st_size;
  out->mtime_ns = int64_t(st.st_mtim.tv_sec) * 1000000000 + st.st_mtim.tv_nsec;
  out->dev = st.st_dev;
  out->ino = st.st_ino;
  out->mode = st.st_mode;
  return 0;
}

// flags: 0 or RWF_NOWAIT ("only what the page cache holds": EAGAIN when it doesn't, EOPNOTSUPP where unknown).
// offset -1: where the last read ended, also of what has no places, as a pipe.
inline int64_t real_preadv(int fd, const struct iovec* iov, int count, int64_t offset, int flags) noexcept {
  if (flags == 0 && offset >= 0) return ::preadv(fd, iov, count, offset);
  return ::preadv2(fd, iov, count, offset, flags);
}

struct Syscalls {
  int (*open)(const char*);
  int (*close)(int);
  int (*fstat)(int, FileStat*);
  int64_t (*preadv)(int, const struct iovec*, int, int64_t, int);
};

constexpr Syscalls kRealSyscalls = {real_open, real_close, real_fstat, real_preadv};

inline bool is_regular(uint32_t mode) noexcept { return S_ISREG(mode); }
inline bool is_directory(uint32_t mode) noexcept { return S_ISDIR(mode); }

}  // namespace queuecore
