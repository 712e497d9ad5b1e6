// Reads that the page cache can't answer, with so many in flight, and nothing done with the bytes: the floors of cold files.
#pragma once

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace cold {

struct Request {
  int32_t fd;
  int64_t offset;
  int64_t nbytes;
};

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<char, FreeDeleter>;

inline Buffer buffer_of(std::size_t nbytes) {
  void* p = nullptr;
  if (::posix_memalign(&p, 4096, nbytes) != 0) throw std::bad_alloc();
  std::memset(p, 1, nbytes);
  return Buffer(static_cast<char*>(p));
}

// Runs `work(i)` for all i below n, by so many threads. Returns the sum of what it returned; -1: one call failed.
template <class Make>
int64_t by_threads(int64_t n, int threads, Make make) {
  std::atomic<int64_t> next{0}, sum{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; t++) {
    all.emplace_back([&] {
      auto work = make();
      for (int64_t i = next++; i < n && !failed; i = next++) {
        int64_t got = work(i);
        if (got < 0) failed = true;
        sum += got;
      }
    });
  }
  for (auto& one : all) one.join();
  return failed ? -1 : sum.load();
}

inline int64_t most_bytes(const Request* requests, int64_t n) {
  int64_t most = 1;
  for (int64_t i = 0; i < n; i++) most = std::max(most, requests[i].nbytes);
  return most;
}

inline int64_t read_by_threads(const Request* requests, int64_t n, int depth) {
  int64_t most = most_bytes(requests, n);
  return by_threads(n, depth, [&] {
    auto buffer = std::make_shared<Buffer>(buffer_of(std::size_t(most)));
    return [=](int64_t i) -> int64_t {
      return ::pread(requests[i].fd, buffer->get(), std::size_t(requests[i].nbytes), requests[i].offset);
    };
  });
}

// Opens, measures, reads and closes whole files.
inline int64_t files_by_threads(const char* const* names, int64_t n, int depth) {
  return by_threads(n, depth, [&] {
    auto room = std::make_shared<std::vector<char>>(1 << 20);
    return [=](int64_t i) -> int64_t {
      struct stat st;
      int fd = ::open(names[i], O_RDONLY | O_CLOEXEC);
      if (fd < 0) return -1;
      int64_t got = -1;
      if (::fstat(fd, &st) == 0) {
        if (std::size_t(st.st_size) > room->size()) room->resize(std::size_t(st.st_size));
        got = ::pread(fd, room->data(), std::size_t(st.st_size), 0);
      }
      ::close(fd);
      return got;
    };
  });
}

// One thread with a ring of the kernel's. -2: the kernel doesn't give one.
inline int64_t read_by_uring(const Request* requests, int64_t n, int depth) {
  io_uring_params p;
  std::memset(&p, 0, sizeof(p));
  int ring = int(::syscall(SYS_io_uring_setup, depth, &p));
  if (ring < 0) return -2;
  auto map = [&](std::size_t nbytes, int64_t where) {
    void* at = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, where);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
  };
  std::size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
  std::size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe);
  std::size_t entry_bytes = p.sq_entries * sizeof(io_uring_sqe);
  char* sq = map(sq_bytes, IORING_OFF_SQ_RING);
  char* cq = map(cq_bytes, IORING_OFF_CQ_RING);
  auto* entries = reinterpret_cast<io_uring_sqe*>(map(entry_bytes, IORING_OFF_SQES));
  int64_t sum = sq != nullptr && cq != nullptr && entries != nullptr ? 0 : -2;
  if (sum == 0) {
    auto* tail = reinterpret_cast<unsigned*>(sq + p.sq_off.tail);
    auto* order = reinterpret_cast<unsigned*>(sq + p.sq_off.array);
    auto* head = reinterpret_cast<unsigned*>(cq + p.cq_off.head);
    auto* done = reinterpret_cast<unsigned*>(cq + p.cq_off.tail);
    auto* results = reinterpret_cast<io_uring_cqe*>(cq + p.cq_off.cqes);
    std::size_t most = (std::size_t(most_bytes(requests, n)) + 4095) / 4096 * 4096;
    Buffer memory = buffer_of(most * std::size_t(depth));
    std::vector<unsigned> unused;
    for (int i = 0; i < depth; i++) unused.push_back(unsigned(i));
    for (int64_t sent = 0, got = 0; got < n;) {
      unsigned fresh = 0, at = *tail;
      for (; !unused.empty() && sent < n; sent++, fresh++, at++) {
        io_uring_sqe* e = &entries[at & (p.sq_entries - 1)];
        std::memset(e, 0, sizeof(*e));
        e->opcode = IORING_OP_READ;
        e->fd = requests[sent].fd;
        e->off = uint64_t(requests[sent].offset);
        e->len = unsigned(requests[sent].nbytes);
        e->user_data = unused.back();
        e->addr = uint64_t(memory.get() + most * unused.back());
        unused.pop_back();
        order[at & (p.sq_entries - 1)] = at & (p.sq_entries - 1);
      }
      __atomic_store_n(tail, at, __ATOMIC_RELEASE);
      if (::syscall(SYS_io_uring_enter, ring, fresh, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0 && errno != EINTR) {
        sum = -1;
        break;
      }
      unsigned from = *head;
      for (; from != __atomic_load_n(done, __ATOMIC_ACQUIRE); from++, got++) {
        const io_uring_cqe& one = results[from & (p.cq_entries - 1)];
        if (one.res < 0) sum = -1;
        if (sum >= 0) sum += one.res;
        unused.push_back(unsigned(one.user_data));
      }
      __atomic_store_n(head, from, __ATOMIC_RELEASE);
    }
  }
  if (sq != nullptr) ::munmap(sq, sq_bytes);
  if (cq != nullptr) ::munmap(cq, cq_bytes);
  if (entries != nullptr) ::munmap(entries, entry_bytes);
  ::close(ring);
  return sum;
}

// The share of a file's pages that the page cache has; -1: it can't be said.
inline double resident(int fd) {
  struct stat st;
  if (::fstat(fd, &st) != 0) return -1;
  std::size_t nbytes = std::size_t(st.st_size);
  if (nbytes == 0) return 0;
  void* at = ::mmap(nullptr, nbytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return -1;
  std::vector<unsigned char> pages((nbytes + 4095) / 4096);
  double there = -1;
  if (::mincore(at, nbytes, pages.data()) == 0) {
    there = 0;
    for (unsigned char one : pages) there += one & 1;
    there /= double(pages.size());
  }
  ::munmap(at, nbytes);
  return there;
}

}  // namespace cold
