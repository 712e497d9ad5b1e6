// A transfer loop in miniature, and mistakes that can be planted in it: what the fake driver must find.
//
//   transfer BUG COPIES SEED SCHEDULE...   prints one line for each schedule: its name, then faults as name=count
//
// One thread fills host slots, one copies them into device slots and hands those on, the main thread consumes. Three
// events: `copied` (the host slot may be filled again), `ready` (the consumer may read), `consumed` (the next copy may
// overwrite). BUG leaves out one thing, or is "none".
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void*);
int cuStreamCreateWithPriority(void**, unsigned, int);
int cuStreamDestroy_v2(void*);
int cuStreamSynchronize(void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void*);
int cuEventQuery(void*);
int cuEventSynchronize(void*);
int cuMemHostRegister_v2(void*, size_t, unsigned);
int cuMemHostUnregister(void*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, size_t, void*);
int fake_schedule(const char*, long);
int fake_set(const char*, long);
int fake_consume(void*, unsigned long long, size_t, uint64_t, long);
uint64_t fake_hash(const void*, size_t);
long fake_count(const char*);
const char* fake_counter(int, int*);
void fake_reset();
}

namespace {

constexpr size_t kBytes = 4 * 4096;
constexpr int kHostSlots = 4, kDeviceSlots = 3;

// Made before all else, so it ends after the driver's own end, where nothing but 4 (deinitialized) may come.
struct AtTheEnd {
  ~AtTheEnd() {
    if (cuInit(0) != 4) _exit(5);
  }
} at_the_end;

std::string bug;
bool has(const char* name) { return bug == name; }

template <class T>
class Queue {
 public:
  void put(T x) {
    std::lock_guard<std::mutex> guard(mutex_);
    all_.push_back(x);
    there_.notify_one();
  }

  T get() {
    std::unique_lock<std::mutex> lock(mutex_);
    there_.wait(lock, [&] { return !all_.empty(); });
    return take();
  }

  bool try_get(T* x) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (all_.empty()) return false;
    *x = take();
    return true;
  }

 private:
  T take() {
    T x = all_.front();
    all_.pop_front();
    return x;
  }

  std::mutex mutex_;
  std::condition_variable there_;
  std::deque<T> all_;
};

struct Batch {
  int slot;
  uint64_t hash;
};

// A function of its own, so that a report of the sanitizer names it.
__attribute__((noinline)) void fill(char* slot, int number) { std::memset(slot, number * 7 + 1, kBytes); }

void check(int result) {
  if (result == 0) return;
  std::fprintf(stderr, "error %d\n", result);
  std::exit(3);
}

void transfer(int copies) {
  cuInit(0);
  void* context;
  check(cuDevicePrimaryCtxRetain(&context, 0));
  check(cuCtxSetCurrent(context));

  void *arena = mmap(nullptr, kHostSlots * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *stream;
  auto host = [&](int slot) { return static_cast<char*>(arena) + size_t(slot) * kBytes; };
  size_t registered = has("unregistered") ? 0 : has("half_registered") ? kHostSlots / 2 : kHostSlots;
  if (registered > 0) check(cuMemHostRegister_v2(arena, registered * kBytes, 1));
  unsigned long long device[kDeviceSlots];
  void *copied[kHostSlots], *ready[kDeviceSlots], *consumed[kDeviceSlots], *copy_stream;
  for (auto& one : device) check(cuMemAlloc_v2(&one, kBytes));
  for (auto& one : copied) check(cuEventCreate(&one, 2));
  for (auto& one : ready) check(cuEventCreate(&one, 2));
  for (auto& one : consumed) check(cuEventCreate(&one, 2));
  check(cuStreamCreateWithPriority(&copy_stream, 1, -1));
  check(cuStreamCreateWithPriority(&stream, 1, 0));

  Queue<int> free_host, free_device;
  Queue<Batch> filled, arrived;
  for (int i = 0; i < kHostSlots; i++) free_host.put(i);
  for (int i = 0; i < kDeviceSlots; i++) free_device.put(i);

  std::thread producer([&] {
    for (int k = 0; k < copies; k++) {
      int slot = free_host.get();
      fill(host(slot), k);
      filled.put({slot, fake_hash(host(slot), kBytes)});
    }
  });

  std::thread copier([&] {
    if (!has("no_context")) check(cuCtxSetCurrent(context));
    std::deque<int> underway;
    for (int k = 0; k < copies; k++) {
      Batch batch;
      while (!filled.try_get(&batch)) {
        if (underway.empty()) {
          batch = filled.get();
          break;
        }
        cuEventSynchronize(copied[underway.front()]);
        free_host.put(underway.front());
        underway.pop_front();
      }
      int slot = free_device.get();
      if (!has("no_consumed")) cuStreamWaitEvent(copy_stream, consumed[slot], 0);
      cuMemcpyHtoDAsync_v2(device[slot], host(batch.slot), kBytes, copy_stream);
      cuEventRecord(copied[batch.slot], copy_stream);
      cuEventRecord(ready[slot], copy_stream);
      arrived.put({slot, batch.hash});
      if (has("no_copied")) {
        free_host.put(batch.slot);
        continue;
      }
      underway.push_back(batch.slot);
      while (!underway.empty() && cuEventQuery(copied[underway.front()]) == 0) {
        free_host.put(underway.front());
        underway.pop_front();
      }
    }
  });

  for (int k = 0; k < copies; k++) {
    Batch batch = arrived.get();
    if (!has("no_ready")) check(cuStreamWaitEvent(stream, ready[batch.slot], 0));
    check(fake_consume(stream, device[batch.slot], kBytes, batch.hash, -1));
    check(cuEventRecord(consumed[batch.slot], stream));
    free_device.put(batch.slot);
  }
  producer.join();
  copier.join();
  check(cuStreamSynchronize(stream));
  check(cuStreamSynchronize(copy_stream));
  check(cuStreamDestroy_v2(stream));
  check(cuStreamDestroy_v2(copy_stream));
  for (auto one : copied) check(cuEventDestroy_v2(one));
  for (auto one : ready) check(cuEventDestroy_v2(one));
  for (auto one : consumed) check(cuEventDestroy_v2(one));
  for (auto one : device) check(cuMemFree_v2(one));
  if (registered > 0) check(cuMemHostUnregister(arena));
  check(cuDevicePrimaryCtxRelease_v2(0));
  munmap(arena, kHostSlots * kBytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  bug = argv[1];
  for (int i = 4; i < argc; i++) {
    fake_reset();
    if (fake_schedule(argv[i], std::atol(argv[3])) != 0) return 2;
    fake_set("protect", std::getenv("PROTECT") != nullptr);
    transfer(std::atoi(argv[2]));
    std::printf("%s", argv[i]);
    int kind;
    const char* name;
    for (int k = 0; (name = fake_counter(k, &kind)) != nullptr; k++) {
      if (kind > 0 && fake_count(name) > 0) std::printf(" %s=%ld", name, fake_count(name));
    }
    std::printf("\n");
  }
}
