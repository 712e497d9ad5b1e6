// A CUDA driver for tests, without a device: the functions of libcuda that queuecore calls, and what tests steer and
// read them by. It is built by tests/helpers/device/fake_cuda.py, which has the same interface for Python.
//
// What it is
// ----------
// Streams are threads that do one operation after the other, each after a delay. Events, contexts, handles and errors
// behave as the driver's documentation says, or more strictly: what happens to work on a real device, but may not be
// relied upon, is a fault here. It finds mistakes in order and lifetime by itself, without being asked:
//   - A copy from the host hashes its source when it is called for, and again what it really read, late, as a device
//     does. Device memory is new memory filled with 0xCD; its address can't be read by the host (that is a SIGSEGV),
//     the bytes are elsewhere (fake_translate).
//   - Nothing that was destroyed is ever reused: a handle or an address used too late is found, always.
// Under the thread sanitizer (-fsanitize=thread) all that the fake does for itself is hidden from the sanitizer, and it
// is told of just those orders that the driver promises: from a call to its operation, from one operation of a stream
// to the next, from the operation before a record to whoever waits for that event or finds it complete, from all of a
// context to its end (and from fake_go_on to what was held, from what was done to the end of fake_drain). So it reports
// a host that writes what a copy may still read, and a kernel that reads what a copy may still write, also in runs where
// every byte happened to be right. With -DFAKE_CUDA_VISIBLE nothing is hidden: that build checks the fake itself.
// With -DNO_BATCH there is no cuMemcpyBatchAsync_v2, as in drivers before 13.0, and no cuDeviceGetPCIBusId.
//
// What it can't show: speed, a real driver's locks, stream capture, kernels. Kernels are functions of the host.
//
// Steering: all in C, all return at once unless it says otherwise
// -------------------------------------------------------------
//   int fake_set(name, value), long fake_get(name)
//     Settings (-1: no such name; times are in microseconds):
//       devices          1   0: cuInit gives 100
//       init_result      0   what cuInit gives, if not 0: 34 (the toolkit's stub), 3, ...
//       driver_version   13000
//       total_memory     2^30 bytes a device; beyond: 2
//       register_limit   bytes of host memory that can be registered at a time (-1: no limit); beyond: 2
//       register_result  0   what every registration gives, if not 0
//       copy_before, copy_during, kernel_before, kernel_during, event_before   delays; "before" an operation reads or
//                        writes anything, "during": between its two halves
//       jitter           0   1: a delay is a random part of what is set
//       protect          0   1: page-protect mode, see below
//       seed             1   of the delays of streams that are made from now on
//   int fake_schedule(name, seed)   the delays by one name: "none", "equal", "slow_copy", "slow_consumer", "jitter".
//                                   Consumers and kernels are "kernel". -1: no such name.
//   int fake_attribute(attribute, value)   what cuDeviceGetAttribute gives; attribute: its number in the driver
//   int fake_fail(function, nth, error, how)   the nth call from now on (1: the next) of a function goes wrong.
//       function: its exported name, or "*": any but cuGetErrorName and cuGetErrorString. -1: no such function.
//       how: 0: this call gives the error and does nothing
//            1: this one and all later ones of the function
//            2: an asynchronous error: the call succeeds, but what it put on the stream fails when it is its turn; from
//               then on nothing of this context runs, and all that needs the context gives the error. A call that puts
//               nothing on a stream breaks the context at once, but itself succeeds.
//       In a broken context, what destroys, frees or unregisters still does so, and gives the error.
//   void fake_hold(stream), void fake_go_on(stream)   an operation that stays at the head of the stream, with all that
//       comes behind it, until fake_go_on. For tests that need "not yet": no sleeps.
//   int fake_drain(milliseconds)   waits until no stream has anything to do. 0: the time ran out.
//   int fake_settle(milliseconds)   waits until no stream can go on: it has nothing to do, or its head waits for
//       fake_go_on or for an operation of another stream that isn't done. 0: the time ran out.
//   void fake_clear()   counts, settings, planned failures and messages as when loaded; broken contexts are whole
//       again. Contexts, streams and memory stay.
//   void fake_reset()   all as when loaded: contexts and what is in them are gone, whatever was running (waits for the
//       operations that run). Handles from before are dead.
//
// The consumer's side
// -------------------
//   int fake_consume(stream, devptr, nbytes, expected, delay)   puts a "kernel" on a stream that reads the memory when
//       it begins and when it ends. Not `expected` (fake_hash; 0: don't compare) at the beginning: `consumed_wrong`;
//       another at the end: `changed_while_read`. delay: between the two, in microseconds; -1: as the schedule says; -2:
//       until fake_go_on. It is counted (`consumers`) when it has read once. Any stream handle, also 0, 1, 2; needs no
//       current context. Gives 0 or the driver's error.
//   uint64_t fake_hash(pointer, nbytes)   of host memory
//   uint64_t fake_registered(n)           where the n-th registration begins, by address, from 0 on; 0: there are fewer
//   void* fake_translate(devptr)          where the bytes at that device address are; null: at none, or freed (counted)
//   void* fake_kernel(function, count, sizes)   makes a handle for cuLaunchKernel out of a host function
//       `void f(void** params)` with `count` parameters of those sizes. As the driver does, the launch copies them.
//       A function's address itself is a handle too, but then the parameters are not copied: what they point to must
//       stay until the kernel has run. The function runs on the stream's thread, and calls fake_translate for each
//       device address, and fake_dims() for {grid x, y, z, block x, y, z, shared bytes} of its launch.
//
// What it counts
// --------------
//   long fake_count(name)          -1: no such name. Names are
//     each driver function by its exported name: calls of it, also those that failed; `calls`: all of them
//     faults, each of which a correct program never has, whatever the schedule:
//       source_changed       a copy read other bytes than were there when it was called for
//       consumed_wrong       a consumer read other bytes than it should
//       changed_while_read   bytes changed under a consumer
//       pageable_copies      from host memory that is not registered (or in another context, and not portable): staged
//                            at once, and the call waits for the stream
//       straddling_copies    from memory that is registered in part, or by several calls: error 1, as the driver
//       no_context           a call without a current context: error 201
//       default_stream       handle 0 for a stream (the legacy default stream; 1 names it without being counted)
//       dead_handle, bad_handle   used after it was destroyed; never was a handle: error 400 (a context: 201 or 709)
//       wrong_context        an object of one context used under another. Allowed are only to wait for and to query
//                            events of another context
//       use_after_free       freed device memory: error 1 at the call; when the operation runs: 700, and the context is
//                            broken
//       bad_address          no device memory, or beyond its end: error 1
//       freed_in_use, unregistered_in_use   device memory freed, host memory unregistered while operations need it
//       pending_at_end, leaked   operations not done, objects not destroyed when the last holder released the context
//       over_release         a context released that nobody holds: error 201
//       bad_argument         any call that gave 1 (invalid value) for another reason
//       not_initialized      a call before cuInit: error 3
//       after_fork           a call in a child of the process that called cuInit: error 3
//     what happened: copies, copied_bytes, kernels, consumers, waited (streams told to wait for an event that was not
//       complete), overlaps (a copy that began while a kernel or consumer ran, or the other way round), injected
//       (failures that fake_fail planned), blocking_streams (made without the non-blocking flag)
//     what is alive: contexts, retained (by how many holders), streams, events, allocations, allocated_bytes,
//       registrations, registered_bytes, threads (of streams). Not set to 0 by fake_clear.
//   const char* fake_counter(i, &kind)   the i-th name, null at the end; kind: 0 function, 1 fault, 2 happened, 3 alive
//   long fake_story(out, n)              the first hundred faults in words, a line each; gives the length
//
// Page-protect mode
// -----------------
// From the call of a copy to the end of its operation those pages of the source that lie in it as a whole are made
// read-only, so the writer faults at once (a system call that writes there gives EFAULT). The first and the last page,
// where they are only in part the source's, stay as they are: a neighbour may be written. Then they are made readable
// and writable again. So it sees nothing of a source within two pages, and all but the ends of a larger one.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// ---- what is counted, and what can be set

#define FUNCTIONS(X)              \
  X(cuInit)                       \
  X(cuDriverGetVersion)           \
  X(cuDeviceGet)                  \
  X(cuDeviceGetCount)             \
  X(cuDeviceGetName)              \
  X(cuDeviceGetPCIBusId)          \
  X(cuDeviceGetAttribute)         \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuCtxSetCurrent)              \
  X(cuCtxGetCurrent)              \
  X(cuStreamCreateWithPriority)   \
  X(cuStreamDestroy_v2)           \
  X(cuStreamSynchronize)          \
  X(cuStreamWaitEvent)            \
  X(cuEventCreate)                \
  X(cuEventDestroy_v2)            \
  X(cuEventRecord)                \
  X(cuEventQuery)                 \
  X(cuEventSynchronize)           \
  X(cuMemHostRegister_v2)         \
  X(cuMemHostUnregister)          \
  X(cuMemAlloc_v2)                \
  X(cuMemFree_v2)                 \
  X(cuMemcpyHtoDAsync_v2)         \
  X(cuMemcpyDtoDAsync_v2)         \
  X(cuMemcpyBatchAsync_v2)        \
  X(cuLaunchKernel)               \
  X(cuPointerGetAttribute)        \
  X(cuGetErrorName)               \
  X(cuGetErrorString)

#define FAULTS(X)        \
  X(source_changed)      \
  X(consumed_wrong)      \
  X(changed_while_read)  \
  X(pageable_copies)     \
  X(straddling_copies)   \
  X(no_context)          \
  X(default_stream)      \
  X(dead_handle)         \
  X(bad_handle)          \
  X(wrong_context)       \
  X(use_after_free)      \
  X(bad_address)         \
  X(freed_in_use)        \
  X(unregistered_in_use) \
  X(pending_at_end)      \
  X(leaked)              \
  X(over_release)        \
  X(bad_argument)        \
  X(not_initialized)     \
  X(after_fork)

#define HAPPENED(X) \
  X(calls)          \
  X(copies)         \
  X(copied_bytes)   \
  X(kernels)        \
  X(consumers)      \
  X(waited)         \
  X(overlaps)       \
  X(injected)       \
  X(blocking_streams)

#define ALIVE(X)      \
  X(contexts)         \
  X(retained)         \
  X(streams)          \
  X(events)           \
  X(allocations)      \
  X(allocated_bytes)  \
  X(registrations)    \
  X(registered_bytes) \
  X(threads)

#define SETTINGS(X)         \
  X(devices, 1)             \
  X(init_result, 0)         \
  X(driver_version, 13000)  \
  X(total_memory, 1L << 30) \
  X(register_limit, -1)     \
  X(register_result, 0)     \
  X(copy_before, 0)         \
  X(copy_during, 0)         \
  X(kernel_before, 0)       \
  X(kernel_during, 0)       \
  X(event_before, 0)        \
  X(jitter, 0)              \
  X(protect, 0)             \
  X(seed, 1)

enum Counter {
#define X(name) c_##name,
  FUNCTIONS(X) FAULTS(X) HAPPENED(X) ALIVE(X)
#undef X
      kCounters
};

struct Name {
  const char* name;
  int kind;
};

const Name kNames[] = {
#define X(name) {#name, 0},
    FUNCTIONS(X)
#undef X
#define X(name) {#name, 1},
        FAULTS(X)
#undef X
#define X(name) {#name, 2},
            HAPPENED(X)
#undef X
#define X(name) {#name, 3},
                ALIVE(X)
#undef X
};

enum Setting {
#define X(name, value) s_##name,
  SETTINGS(X)
#undef X
      kSettings
};

const char* const kSettingNames[] = {
#define X(name, value) #name,
    SETTINGS(X)
#undef X
};

const long kDefaults[] = {
#define X(name, value) value,
    SETTINGS(X)
#undef X
};

// Statistics, read at any time: relaxed everywhere, nothing is ordered by them.
std::atomic<long> counters[kCounters];
std::atomic<long> settings[kSettings] = {
#define X(name, value) {value},
    SETTINGS(X)
#undef X
};

void count(Counter c, long n = 1) { counters[c].fetch_add(n, std::memory_order_relaxed); }
long setting(Setting s) { return settings[s].load(std::memory_order_relaxed); }

int find_counter(const char* name) {
  for (int i = 0; i < kCounters; i++) {
    if (std::strcmp(kNames[i].name, name) == 0) return i;
  }
  return -1;
}

int find_setting(const char* name) {
  for (int i = 0; i < kSettings; i++) {
    if (std::strcmp(kSettingNames[i], name) == 0) return i;
  }
  return -1;
}

// ---- results, by the driver's numbers

#define RESULTS(X)                                                                              \
  X(kSuccess, 0, "CUDA_SUCCESS", "no error")                                                    \
  X(kInvalidValue, 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument")                           \
  X(kOutOfMemory, 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")                               \
  X(kNotInitialized, 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error")                   \
  X(kDeinitialized, 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down")                      \
  X(kStubLibrary, 34, "CUDA_ERROR_STUB_LIBRARY", "a stub library, no driver")                   \
  X(kNoDevice, 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected")               \
  X(kInvalidDevice, 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")                 \
  X(kInvalidContext, 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context")               \
  X(kEccUncorrectable, 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error")          \
  X(kOperatingSystem, 304, "CUDA_ERROR_OPERATING_SYSTEM", "the operating system failed")        \
  X(kInvalidHandle, 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle")                \
  X(kNotReady, 600, "CUDA_ERROR_NOT_READY", "device not ready")                                 \
  X(kIllegalAddress, 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access")             \
  X(kContextIsDestroyed, 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed")        \
  X(kAlreadyRegistered, 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "already registered") \
  X(kNotRegistered, 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "not registered")             \
  X(kLaunchFailed, 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure")               \
  X(kNotPermitted, 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted")                  \
  X(kNotSupported, 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported")                  \
  X(kUnknown, 999, "CUDA_ERROR_UNKNOWN", "unknown error")

enum Result : int {
#define X(code, number, name, text) code = number,
  RESULTS(X)
#undef X
};

struct ResultName {
  int number;
  const char* name;
  const char* text;
};

const ResultName kResults[] = {
#define X(code, number, name, text) {number, name, text},
    RESULTS(X)
#undef X
};

// ---- what the thread sanitizer is told

#if defined(__SANITIZE_THREAD__)
#define FAKE_CUDA_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FAKE_CUDA_TSAN
#endif
#endif

#if defined(FAKE_CUDA_TSAN) && !defined(FAKE_CUDA_VISIBLE)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

void hide() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

void show() {
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void order_before(void* at) { __tsan_release(at); }
void order_after(void* at) { __tsan_acquire(at); }
#else
void hide() {}
void show() {}
void order_before(void*) {}
void order_after(void*) {}
#endif

// What the fake does for itself.
struct Hidden {
  Hidden() { hide(); }
  ~Hidden() { show(); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};

// Within a Hidden: what the driver promises, or does to the caller's memory.
struct Shown {
  Shown() { show(); }
  ~Shown() { hide(); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
};

// ---- objects. None is ever freed but operations, bytes of device memory and registrations, so that no handle is used
// twice.

struct Context;
struct Stream;

struct Registration {
  uintptr_t begin;
  size_t nbytes;
  Context* context;
  bool portable;
  long pending = 0;  // operations that read it
};

struct Block {
  Context* context;
  uint64_t address;
  size_t nbytes;
  void* mapping;  // not readable; reserved until fake_reset, so that nothing else gets the address
  size_t mapped;
  std::shared_ptr<char> bytes;
  long pending = 0;  // operations that use it
  bool dead = false;
};

enum Kind { kCopy, kKernel, kEvent };

// One piece of work on a stream.
struct Operation {
  Kind kind = kEvent;
  int fails = 0;  // the asynchronous error that it meets
  bool done = false;
  std::vector<std::shared_ptr<Operation>> after;  // of other streams
  std::vector<Block*> blocks;
  std::vector<std::shared_ptr<Registration>> sources;
  std::vector<std::pair<uintptr_t, uintptr_t>> pages;  // protected until it ends
  long before = 0, during = 0;                         // delays
  std::function<void(const Operation&)> work;
};

using Work = std::shared_ptr<Operation>;

struct Stream {
  Context* context;
  uint64_t number;
  bool blocking;         // in order with the legacy default stream
  bool dead = false;     // as a handle; work that is queued is still done
  bool closing = false;  // the thread ends when nothing is left
  bool running = true;   // its thread
  std::deque<Work> queue;
  Work last;
  std::condition_variable work;
  uint64_t random;
  long held = 0, let_go = 0;
  long waits = 0;  // how far fake_go_on must let go until its head, which waits for that, goes on
};

struct Event {
  Context* context;
  bool dead = false;
  Work latest;  // null: never recorded
};

struct Context {
  int device;
  int retained = 0;
  bool dead = false;
  int error = 0;  // asynchronous; all calls give it
  Stream* legacy = nullptr;
  std::map<pthread_t, Stream*> of_threads;
  size_t used = 0;
};

struct Kernel {
  void (*function)(void**);
  std::vector<size_t> sizes;
};

struct Plan {
  int function;  // -1: any
  long nth;
  int error;
  int how;
};

struct Driver {
  std::mutex mutex;                 // of all below
  std::condition_variable changed;  // an operation or a thread ended, a stream may go on, a context broke
  bool initialized = false;
  std::map<int, Context*> primary;
  std::unordered_set<Context*> contexts;
  std::unordered_set<Stream*> streams;
  std::unordered_set<Event*> events;
  std::unordered_set<Kernel*> kernels;
  std::map<uint64_t, Block*> blocks;
  std::map<uintptr_t, std::shared_ptr<Registration>> registrations;
  std::map<uintptr_t, long> protected_pages;
  std::map<int, int> attributes;
  std::vector<Plan> plans;
  uint64_t stream_number = 0;
  long running[3] = {0, 0, 0};  // operations, by kind
  std::mutex story_mutex;       // of the story alone, taken last
  std::vector<std::string> story;
};

// Never destroyed: its threads outlive everything.
Driver& driver = *new Driver;
std::atomic<pid_t> process{0};  // that called cuInit
std::atomic<bool> exiting{false};
thread_local Context* current = nullptr;
thread_local unsigned dims[7];
const uintptr_t kPage = uintptr_t(sysconf(_SC_PAGESIZE));

bool in_child() {
  pid_t first = process.load(std::memory_order_relaxed);
  return first != 0 && first != getpid();
}

__attribute__((format(printf, 2, 3))) void fault(Counter c, const char* format, ...) {
  count(c);
  // There another thread may have held the mutex at the fork.
  if (in_child()) return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::lock_guard<std::mutex> guard(driver.story_mutex);
  if (driver.story.size() < 100) driver.story.push_back(std::string(kNames[c].name) + ": " + text);
}

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void nap(long microseconds) {
  if (microseconds <= 0) return;
  timespec t{time_t(microseconds / 1000000), long(microseconds % 1000000 * 1000)};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

// ---- streams

// What is on the streams of this context won't be done any more.
bool stopped(const Context* context) {
  return context->dead || context->error != 0 || exiting.load(std::memory_order_relaxed);
}

long delay(Stream* s, Setting which) {
  long full = setting(which);
  if (full <= 0 || setting(s_jitter) == 0) return full;
  s->random = mixed(s->random);
  return long(s->random % uint64_t(full + 1));
}

void unprotect(const Operation& op) {
  for (auto [begin, end] : op.pages) {
    for (uintptr_t page = begin; page < end; page += kPage) {
      auto at = driver.protected_pages.find(page);
      if (--at->second > 0) continue;
      driver.protected_pages.erase(at);
      mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
    }
  }
}

void finish(const Work& op) {
  for (Block* block : op->blocks) {
    if (--block->pending == 0 && block->dead) block->bytes.reset();
  }
  for (auto& source : op->sources) source->pending--;
  unprotect(*op);
  op->after.clear();
  op->blocks.clear();
  op->sources.clear();
  op->pages.clear();
  op->work = nullptr;
  op->done = true;
  driver.changed.notify_all();
}

void execute(Stream* s, const Work& op, std::unique_lock<std::mutex>& lock) {
  for (Block* block : op->blocks) {
    if (!block->dead) continue;
    fault(c_use_after_free, "an operation on stream %lu runs on memory that was freed", (unsigned long)s->number);
    s->context->error = kIllegalAddress;
    return;
  }
  op->before = delay(s, op->kind == kCopy ? s_copy_before : op->kind == kKernel ? s_kernel_before : s_event_before);
  op->during = op->kind == kEvent ? 0 : delay(s, op->kind == kCopy ? s_copy_during : s_kernel_during);
  if (op->kind != kEvent && driver.running[op->kind == kCopy ? kKernel : kCopy] > 0) count(c_overlaps);
  driver.running[op->kind]++;
  lock.unlock();
  nap(op->before);
  {
    Shown shown;
    order_after(op.get());
    for (auto& one : op->after) order_after(one.get());
    if (op->work) op->work(*op);
    order_before(op.get());
  }
  lock.lock();
  driver.running[op->kind]--;
}

void run(Stream* s) {
  std::unique_lock<std::mutex> lock(driver.mutex);
  for (;;) {
    s->work.wait(lock, [&] { return !s->queue.empty() || s->closing; });
    if (s->queue.empty()) break;
    Work op = s->queue.front();
    for (auto& one : op->after) {
      driver.changed.wait(lock, [&] { return one->done || stopped(s->context); });
    }
    if (!stopped(s->context)) {
      if (op->fails != 0) {
        s->context->error = op->fails;
      } else {
        execute(s, op, lock);
      }
    }
    s->queue.pop_front();
    finish(op);
  }
  {
    Shown shown;
    order_before(s);
  }
  s->last.reset();
  s->running = false;
  count(c_threads, -1);
  driver.changed.notify_all();
}

void* stream_main(void* stream) {
  pthread_setname_np(pthread_self(), "fake-cuda");
  prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);  // else a short delay is one of 50 microseconds
  Hidden hidden;
  run(static_cast<Stream*>(stream));
  return nullptr;
}

Stream* new_stream(Context* context, bool blocking) {
  auto* s = new Stream;
  s->context = context;
  s->number = ++driver.stream_number;
  s->blocking = blocking;
  s->random = mixed(uint64_t(setting(s_seed)) * 1000003 + s->number);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals are the program's
  pthread_t id;
  int failed = pthread_create(&id, &attributes, stream_main, s);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    delete s;
    return nullptr;
  }
  count(c_threads);
  driver.streams.insert(s);
  return s;
}

// ---- calls

enum Needs {
  kNothing,
  kInitialized,
  kContext,
  kContextEvenBroken,  // what gives something back
};

// A call of the driver, which has its mutex.
struct Call {
  std::unique_lock<std::mutex> lock;
  Context* context = nullptr;
  int later = 0;         // the error that what it puts on a stream will meet
  bool counted = false;  // the reason why it fails

  // For a fault, and as the result of a call that has it.
  template <class... Arguments>
  int refuse(int result, Counter c, const char* format, Arguments... arguments) {
    counted = true;
    fault(c, format, arguments...);
    return result;
  }

  int refuse(int result, Counter c, const char* reason) { return refuse(result, c, "%s", reason); }

  int invalid(const char* reason) { return refuse(kInvalidValue, c_bad_argument, reason); }

  void wait(const Work& op) {
    driver.changed.wait(lock, [&] { return op->done; });
  }

  // The caller knows that it is done.
  void saw(const Work& op) {
    Shown shown;
    order_after(op.get());
  }

  // Streams by their handle, also the default ones. Null: `result` says why not.
  Stream* stream(Stream* handle, int* result) {
    auto which = reinterpret_cast<uintptr_t>(handle);
    if (which <= 2) {
      if (which == 0) fault(c_default_stream, "stream 0");
      Stream*& s = which == 2 ? context->of_threads[pthread_self()] : context->legacy;
      if (s == nullptr) s = new_stream(context, true);
      if (s == nullptr) *result = kOutOfMemory;
      return s;
    }
    if (driver.streams.count(handle) == 0) {
      *result = refuse(kInvalidHandle, c_bad_handle, "no stream: %p", (void*)handle);
    } else if (handle->dead) {
      *result = refuse(kInvalidHandle, c_dead_handle, "stream %lu is destroyed", (unsigned long)handle->number);
    } else if (handle->context != context) {
      *result =
          refuse(kInvalidHandle, c_wrong_context, "stream %lu is of another context", (unsigned long)handle->number);
    } else {
      return handle;
    }
    return nullptr;
  }

  // `anywhere`: also one of another context.
  Event* event(Event* handle, int* result, bool anywhere = false) {
    if (driver.events.count(handle) == 0) {
      *result = refuse(kInvalidHandle, c_bad_handle, "no event: %p", (void*)handle);
    } else if (handle->dead) {
      *result = refuse(kInvalidHandle, c_dead_handle, "event %p is destroyed", (void*)handle);
    } else if (handle->context != context && !anywhere) {
      *result = refuse(kInvalidHandle, c_wrong_context, "event %p is of another context", (void*)handle);
    } else {
      return handle;
    }
    return nullptr;
  }

  // The device memory that has these bytes.
  Block* block(uint64_t address, size_t nbytes, int* result) {
    auto at = driver.blocks.upper_bound(address);
    Block* found = at == driver.blocks.begin() ? nullptr : std::prev(at)->second;
    if (found == nullptr || address - found->address >= found->nbytes ||
        nbytes > found->nbytes - (address - found->address)) {
      *result =
          refuse(kInvalidValue, c_bad_address, "%zu bytes at %#lx: no device memory", nbytes, (unsigned long)address);
    } else if (found->dead) {
      *result = refuse(kInvalidValue, c_use_after_free, "%zu bytes at %#lx: freed", nbytes, (unsigned long)address);
    } else if (found->context != context) {
      *result = refuse(kInvalidValue, c_wrong_context, "memory at %#lx is of another context", (unsigned long)address);
    } else {
      return found;
    }
    return nullptr;
  }

  void put(Stream* s, const Work& op) {
    if (later != 0) op->fails = later;
    later = 0;
    if (s == s->context->legacy) {
      for (Stream* other : driver.streams) {
        if (other->context == s->context && other->blocking && other != s && other->last)
          op->after.push_back(other->last);
      }
    } else if (s->blocking && s->context->legacy != nullptr && s->context->legacy->last) {
      op->after.push_back(s->context->legacy->last);
    }
    for (Block* one : op->blocks) one->pending++;
    for (auto& source : op->sources) source->pending++;
    {
      Shown shown;
      order_before(op.get());
    }
    s->queue.push_back(op);
    s->last = op;
    s->work.notify_one();
  }
};

// What all driver functions have in common. `body` does what is special, under the mutex.
template <class Body>
int call(Counter function, Needs needs, Body body) {
  Hidden hidden;
  count(function);
  count(c_calls);
  if (needs != kNothing) {
    // Before any lock: in a child another thread may have had it at the fork.
    if (in_child()) {
      fault(c_after_fork, "%s", kNames[function].name);
      return kNotInitialized;
    }
    if (exiting.load(std::memory_order_relaxed)) return kDeinitialized;
  } else if (in_child()) {
    Call nothing;
    return body(nothing);
  }
  Call c;
  c.lock = std::unique_lock<std::mutex>(driver.mutex);
  if (needs != kNothing && function != c_cuInit && !driver.initialized) {
    return c.refuse(kNotInitialized, c_not_initialized, "%s", kNames[function].name);
  }
  bool with_context = needs == kContext || needs == kContextEvenBroken;
  if (with_context) {
    c.context = current;
    if (current == nullptr) return c.refuse(kInvalidContext, c_no_context, "%s", kNames[function].name);
    if (current->dead)
      return c.refuse(kContextIsDestroyed, c_dead_handle, "%s: context is gone", kNames[function].name);
  }
  int planned = 0;
  bool names = function == c_cuGetErrorName || function == c_cuGetErrorString;
  for (size_t i = 0; i < driver.plans.size(); i++) {
    Plan& plan = driver.plans[i];
    if (plan.function != function && (plan.function != -1 || names)) continue;
    if (plan.nth > 1) {
      plan.nth--;
      continue;
    }
    count(c_injected);
    (plan.how == 2 ? c.later : planned) = plan.error;
    if (plan.how != 1) driver.plans.erase(driver.plans.begin() + long(i--));
  }
  if (planned != 0) return planned;
  if (with_context && c.context->error != 0 && needs != kContextEvenBroken) return c.context->error;
  int result = body(c);
  if (result == kInvalidValue && !c.counted) fault(c_bad_argument, "%s", kNames[function].name);
  if (c.later != 0) {
    for (Context* one : driver.contexts) {
      if (one == c.context || !with_context) one->error = c.later;
    }
    driver.changed.notify_all();
  } else if (result == kSuccess && needs == kContextEvenBroken) {
    result = c.context->error;
  }
  return result;
}

// At exit the real driver takes its device away: what runs ends, what waits is dropped.
void at_exit() {
  Hidden hidden;
  if (in_child()) return;
  std::unique_lock<std::mutex> lock(driver.mutex);
  exiting.store(true, std::memory_order_relaxed);
  driver.changed.notify_all();
  // Not for ever: a kernel in Python needs the GIL, which nobody gets any more.
  driver.changed.wait_until(lock, std::chrono::system_clock::now() + std::chrono::seconds(1), [] {
    return driver.running[kCopy] + driver.running[kKernel] + driver.running[kEvent] == 0;
  });
}

// The streams of a context do nothing more, and their threads have ended.
void stop_streams(Context* context, std::unique_lock<std::mutex>& lock) {
  for (Stream* s : driver.streams) {
    if (s->context != context) continue;
    s->closing = true;
    s->work.notify_all();
  }
  driver.changed.notify_all();
  driver.changed.wait(lock, [&] {
    for (Stream* s : driver.streams) {
      if (s->context == context && s->running) return false;
    }
    return true;
  });
  Shown shown;
  for (Stream* s : driver.streams) {
    if (s->context == context) order_after(s);
  }
}

void free_block(Block* block) {
  block->dead = true;
  block->context->used -= block->nbytes;
  if (block->pending == 0) block->bytes.reset();
  count(c_allocations, -1);
  count(c_allocated_bytes, -long(block->nbytes));
}

// Destroys what is left in a context, which may be what its owner forgot.
void end_context(Context* context, std::unique_lock<std::mutex>& lock) {
  context->dead = true;
  count(c_contexts, -1);
  count(c_retained, -context->retained);
  context->retained = 0;
  for (Stream* s : driver.streams) {
    if (s->context != context) continue;
    for (auto& op : s->queue) {
      if (op->work) fault(c_pending_at_end, "an operation on stream %lu", (unsigned long)s->number);
    }
    // The default ones are nobody's to destroy.
    if (s->dead || s == context->legacy) continue;
    bool of_thread = false;
    for (auto& one : context->of_threads) of_thread |= one.second == s;
    s->dead = true;
    if (of_thread) continue;
    count(c_streams, -1);
    fault(c_leaked, "stream %lu", (unsigned long)s->number);
  }
  stop_streams(context, lock);
  for (Event* e : driver.events) {
    if (e->context != context || e->dead) continue;
    e->dead = true;
    e->latest.reset();
    count(c_events, -1);
    fault(c_leaked, "event %p", (void*)e);
  }
  for (auto& one : driver.blocks) {
    if (one.second->context != context || one.second->dead) continue;
    fault(c_leaked, "%zu bytes of device memory", one.second->nbytes);
    free_block(one.second);
  }
  for (auto at = driver.registrations.begin(); at != driver.registrations.end();) {
    if (at->second->context != context) {
      ++at;
      continue;
    }
    fault(c_leaked, "a registration of %zu bytes", at->second->nbytes);
    count(c_registrations, -1);
    count(c_registered_bytes, -long(at->second->nbytes));
    at = driver.registrations.erase(at);
  }
}

// ---- copies

// One copy out of a batch; the pointers are good until its operation is over.
struct Piece {
  std::shared_ptr<char> to_bytes;
  char* to;
  std::shared_ptr<char> from_bytes;  // of a device, or staged
  const char* from;
  size_t nbytes;
  bool checked;  // the source is the caller's own memory
  uint64_t hash;
};

enum Sources { kHost, kDevice, kEither };

void do_copy(const Operation& op, const Piece& piece) {
  size_t half = (piece.nbytes / 2) & ~size_t(63);
  std::memmove(piece.to, piece.from, half);
  nap(op.during);
  std::memmove(piece.to + half, piece.from + half, piece.nbytes - half);
}

}  // namespace

// Eight bytes at a time, because it is called for every byte that is copied or consumed. Not seen by the sanitizer:
// reading for a hash is nothing that a device does.
EXPORT __attribute__((no_sanitize("thread"))) uint64_t fake_hash(const void* pointer, size_t nbytes) {
  auto* p = static_cast<const unsigned char*>(pointer);
  uint64_t h = 0x9e3779b97f4a7c15 ^ nbytes;
  for (; nbytes >= 8; p += 8, nbytes -= 8) {
    uint64_t word;
    __builtin_memcpy(&word, p, 8);
    h = (h ^ word) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  }
  for (; nbytes > 0; p++, nbytes--) h = (h ^ *p) * 0x100000001b3;
  h ^= h >> 29;
  return h == 0 ? 1 : h;  // 0 is "don't compare"
}

namespace {

// Where a copy from the host finds its source: 0 is pinned memory, which `op` then holds.
enum Found { kPinned, kPageable, kStraddling };

Found find_source(Call& c, uintptr_t begin, size_t nbytes, Operation& op) {
  bool any = false;
  for (auto& [start, one] : driver.registrations) {
    if (start >= begin + nbytes || start + one->nbytes <= begin) continue;
    if (!one->portable && one->context != c.context) continue;
    if (start <= begin && begin + nbytes <= start + one->nbytes) {
      op.sources.push_back(one);
      return kPinned;
    }
    any = true;
  }
  return any ? kStraddling : kPageable;
}

void protect(uintptr_t begin, size_t nbytes, Operation& op) {
  uintptr_t first = (begin + kPage - 1) / kPage * kPage, end = (begin + nbytes) / kPage * kPage;
  if (first >= end) return;
  op.pages.emplace_back(first, end);
  for (uintptr_t page = first; page < end; page += kPage) {
    if (driver.protected_pages[page]++ == 0) mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ);
  }
}

struct Request {
  uint64_t to, from;
  size_t nbytes;
  bool at_once;  // the source is only good during the call
};

// All requests are one operation.
int copy(Call& c, Stream* handle, const std::vector<Request>& requests, Sources sources) {
  int result = kSuccess;
  Stream* s = c.stream(handle, &result);
  if (s == nullptr) return result;
  auto op = std::make_shared<Operation>();
  op->kind = kCopy;
  std::vector<Piece> pieces;
  std::vector<size_t> staged;
  bool pageable = false;
  long total = 0;
  for (const Request& r : requests) {
    Piece piece{};
    Block* to = c.block(r.to, r.nbytes, &result);
    if (to == nullptr) return result;
    op->blocks.push_back(to);
    piece.to_bytes = to->bytes;
    piece.to = to->bytes.get() + (r.to - to->address);
    piece.nbytes = r.nbytes;
    total += long(r.nbytes);
    auto at = driver.blocks.upper_bound(r.from);
    bool device = at != driver.blocks.begin() && r.from - std::prev(at)->first < std::prev(at)->second->nbytes;
    if (sources == kHost && device) {
      return c.refuse(kInvalidValue, c_bad_address, "%#lx: device memory as a host's", (unsigned long)r.from);
    }
    if (sources == kDevice || device) {
      Block* from = c.block(r.from, r.nbytes, &result);
      if (from == nullptr) return result;
      op->blocks.push_back(from);
      piece.from_bytes = from->bytes;
      piece.from = from->bytes.get() + (r.from - from->address);
    } else {
      if (r.from == 0) return c.invalid("a copy from null");
      piece.from = reinterpret_cast<const char*>(r.from);
      Found found = find_source(c, uintptr_t(r.from), r.nbytes, *op);
      if (found == kStraddling) {
        return c.refuse(kInvalidValue, c_straddling_copies, "%zu bytes at %p", r.nbytes, (const void*)piece.from);
      }
      if (found == kPageable) {
        fault(c_pageable_copies, "%zu bytes at %p", r.nbytes, (const void*)piece.from);
        pageable = true;
      }
      if (found == kPageable || r.at_once) {
        staged.push_back(pieces.size());
      } else {
        piece.checked = true;
        piece.hash = fake_hash(piece.from, r.nbytes);
      }
    }
    pieces.push_back(std::move(piece));
  }
  // The driver waits for the stream before it copies pageable memory into its own.
  Work last = s->last;
  if (pageable && last) c.wait(last);
  for (size_t i : staged) {
    Piece& piece = pieces[i];
    std::shared_ptr<char> own(new char[piece.nbytes], std::default_delete<char[]>());
    {
      Shown shown;
      std::memcpy(own.get(), piece.from, piece.nbytes);
    }
    piece.from_bytes = own;
    piece.from = own.get();
  }
  for (const Piece& piece : pieces) {
    if (piece.checked && setting(s_protect) != 0) protect(reinterpret_cast<uintptr_t>(piece.from), piece.nbytes, *op);
  }
  op->work = [pieces, s, total](const Operation& self) {
    for (const Piece& piece : pieces) {
      do_copy(self, piece);
      if (piece.checked && fake_hash(piece.to, piece.nbytes) != piece.hash) {
        Hidden hidden;
        fault(c_source_changed, "%zu bytes at %p, on stream %lu", piece.nbytes, (const void*)piece.from,
              (unsigned long)s->number);
      }
    }
    count(c_copies, long(pieces.size()));
    count(c_copied_bytes, total);
  };
  c.put(s, op);
  if (pageable) {
    c.wait(op);
    c.saw(op);
    result = c.context->error;
  }
  return result;
}

int wait_for(Call& c, Event* e) {
  Work latest = e->latest;  // the record of now
  if (latest) {
    c.wait(latest);
    c.saw(latest);
  }
  return e->context->error != 0 ? e->context->error : c.context->error;
}

}  // namespace

// ---- the driver's functions

using CUdeviceptr = unsigned long long;

EXPORT int cuInit(unsigned flags) {
  return call(c_cuInit, kInitialized, [&](Call&) -> int {
    if (flags != 0) return kInvalidValue;
    if (setting(s_init_result) != 0) return int(setting(s_init_result));
    if (setting(s_devices) == 0) return kNoDevice;
    if (process.load(std::memory_order_relaxed) == 0) {
      process.store(getpid(), std::memory_order_relaxed);
      std::atexit(at_exit);
    }
    driver.initialized = true;
    return kSuccess;
  });
}

EXPORT int cuDriverGetVersion(int* version) {
  return call(c_cuDriverGetVersion, kNothing, [&](Call&) -> int {
    if (version == nullptr) return kInvalidValue;
    *version = int(setting(s_driver_version));
    return kSuccess;
  });
}

EXPORT int cuDeviceGetCount(int* number) {
  return call(c_cuDeviceGetCount, kInitialized, [&](Call&) -> int {
    if (number == nullptr) return kInvalidValue;
    *number = int(setting(s_devices));
    return kSuccess;
  });
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  return call(c_cuDeviceGet, kInitialized, [&](Call&) -> int {
    if (device == nullptr) return kInvalidValue;
    if (ordinal < 0 || ordinal >= setting(s_devices)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

EXPORT int cuDeviceGetName(char* name, int size, int device) {
  return call(c_cuDeviceGetName, kInitialized, [&](Call&) -> int {
    if (name == nullptr || size <= 0) return kInvalidValue;
    if (device < 0 || device >= setting(s_devices)) return kInvalidDevice;
    std::snprintf(name, size_t(size), "Fake CUDA device %d", device);
    return kSuccess;
  });
}

const int kPciBus = 33, kPciDevice = 34, kPciDomain = 50;
const std::pair<int, int> kAttributes[] = {
    {1, 1024},                                  // threads in a block
    {8, 48 << 10},                              // shared memory of a block
    {10, 32},                                   // threads in a warp
    {16, 4},                                    // multiprocessors
    {18, 0},                                    // one with the host
    {20, 0},                                    // compute mode: default
    {31, 1},                                    // concurrent kernels
    {kPciBus, 0},                               // and PCI device, domain
    {kPciDevice, 0}, {kPciDomain, 0}, {40, 2},  // copy engines
    {41, 1},                                    // unified addresses
    {75, 9},         {76, 0},                   // compute capability
    {78, 1},                                    // priorities
    {88, 0},                                    // access to pageable memory
    {99, 1},                                    // memory can be registered
    {134, -1},                                  // NUMA node: unknown
};

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return call(c_cuDeviceGetAttribute, kInitialized, [&](Call&) -> int {
    if (value == nullptr) return kInvalidValue;
    if (device < 0 || device >= setting(s_devices)) return kInvalidDevice;
    auto set = driver.attributes.find(attribute);
    if (set != driver.attributes.end()) {
      *value = set->second;
      return kSuccess;
    }
    for (auto [number, usual] : kAttributes) {
      if (number != attribute) continue;
      *value = attribute == kPciBus ? device + 1 : usual;
      return kSuccess;
    }
    return kInvalidValue;
  });
}

#ifndef NO_BATCH
EXPORT int cuDeviceGetPCIBusId(char* id, int size, int device) {
  return call(c_cuDeviceGetPCIBusId, kInitialized, [&](Call&) -> int {
    if (id == nullptr || size <= 0) return kInvalidValue;
    if (device < 0 || device >= setting(s_devices)) return kInvalidDevice;
    auto of = [](int attribute, int usual) {
      auto set = driver.attributes.find(attribute);
      return unsigned(set == driver.attributes.end() ? usual : set->second);
    };
    std::snprintf(id, size_t(size), "%04X:%02X:%02X.0", of(kPciDomain, 0), of(kPciBus, device + 1), of(kPciDevice, 0));
    return kSuccess;
  });
}
#endif

EXPORT int cuDevicePrimaryCtxRetain(Context** context, int device) {
  return call(c_cuDevicePrimaryCtxRetain, kInitialized, [&](Call&) -> int {
    if (context == nullptr) return kInvalidValue;
    if (device < 0 || device >= setting(s_devices)) return kInvalidDevice;
    Context*& primary = driver.primary[device];
    if (primary == nullptr || primary->dead) {
      primary = new Context;
      primary->device = device;
      driver.contexts.insert(primary);
      count(c_contexts);
    }
    primary->retained++;
    count(c_retained);
    *context = primary;
    return kSuccess;
  });
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  return call(c_cuDevicePrimaryCtxRelease_v2, kInitialized, [&](Call& c) -> int {
    if (device < 0 || device >= setting(s_devices)) return kInvalidDevice;
    Context* primary = driver.primary[device];
    if (primary == nullptr || primary->dead) return c.refuse(kInvalidContext, c_over_release, "device %d", device);
    if (primary->retained > 1) {
      primary->retained--;
      count(c_retained, -1);
    } else {
      end_context(primary, c.lock);
    }
    return kSuccess;
  });
}

EXPORT int cuCtxSetCurrent(Context* context) {
  return call(c_cuCtxSetCurrent, kInitialized, [&](Call& c) -> int {
    if (context != nullptr) {
      if (driver.contexts.count(context) == 0) return c.refuse(kInvalidContext, c_bad_handle, "no context");
      if (context->dead) return c.refuse(kInvalidContext, c_dead_handle, "context is gone");
    }
    current = context;
    return kSuccess;
  });
}

EXPORT int cuCtxGetCurrent(Context** context) {
  return call(c_cuCtxGetCurrent, kInitialized, [&](Call&) -> int {
    if (context == nullptr) return kInvalidValue;
    *context = current;
    return kSuccess;
  });
}

EXPORT int cuStreamCreateWithPriority(Stream** stream, unsigned flags, int) {
  return call(c_cuStreamCreateWithPriority, kContext, [&](Call& c) -> int {
    if (stream == nullptr || flags > 1) return kInvalidValue;
    Stream* s = new_stream(c.context, flags == 0);
    if (s == nullptr) return kOutOfMemory;
    if (flags == 0) count(c_blocking_streams);
    count(c_streams);
    *stream = s;
    return kSuccess;
  });
}

EXPORT int cuStreamDestroy_v2(Stream* stream) {
  return call(c_cuStreamDestroy_v2, kContextEvenBroken, [&](Call& c) -> int {
    if (reinterpret_cast<uintptr_t>(stream) <= 2) {
      return c.refuse(kInvalidHandle, c_bad_handle, "a default stream is not to be destroyed");
    }
    int result = kSuccess;
    Stream* s = c.stream(stream, &result);
    if (s == nullptr) return result;
    s->dead = s->closing = true;
    s->work.notify_one();
    count(c_streams, -1);
    return kSuccess;
  });
}

EXPORT int cuStreamSynchronize(Stream* stream) {
  return call(c_cuStreamSynchronize, kContext, [&](Call& c) -> int {
    int result = kSuccess;
    Stream* s = c.stream(stream, &result);
    if (s == nullptr) return result;
    Work last = s->last;
    if (last) {
      c.wait(last);
      c.saw(last);
    }
    return c.context->error;
  });
}

EXPORT int cuStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
  return call(c_cuStreamWaitEvent, kContext, [&](Call& c) -> int {
    if (flags > 1) return kInvalidValue;
    int result = kSuccess;
    Stream* s = c.stream(stream, &result);
    Event* e = s == nullptr ? nullptr : c.event(event, &result, true);
    if (e == nullptr) return result;
    // Never recorded: nothing to wait for. What is recorded later is not waited for either.
    auto op = std::make_shared<Operation>();
    if (e->latest) {
      if (!e->latest->done) count(c_waited);
      op->after.push_back(e->latest);
    }
    c.put(s, op);
    return kSuccess;
  });
}

EXPORT int cuEventCreate(Event** event, unsigned flags) {
  return call(c_cuEventCreate, kContext, [&](Call& c) -> int {
    // Between processes: without times only.
    if (event == nullptr || flags > 7 || (flags & 6) == 4) return kInvalidValue;
    auto* e = new Event;
    e->context = c.context;
    driver.events.insert(e);
    count(c_events);
    *event = e;
    return kSuccess;
  });
}

EXPORT int cuEventDestroy_v2(Event* event) {
  return call(c_cuEventDestroy_v2, kContextEvenBroken, [&](Call& c) -> int {
    int result = kSuccess;
    Event* e = c.event(event, &result);
    if (e == nullptr) return result;
    e->dead = true;
    e->latest.reset();  // who waits for it already goes on waiting
    count(c_events, -1);
    return kSuccess;
  });
}

EXPORT int cuEventRecord(Event* event, Stream* stream) {
  return call(c_cuEventRecord, kContext, [&](Call& c) -> int {
    int result = kSuccess;
    Stream* s = c.stream(stream, &result);
    Event* e = s == nullptr ? nullptr : c.event(event, &result);
    if (e == nullptr) return result;
    auto op = std::make_shared<Operation>();
    c.put(s, op);
    e->latest = op;
    return kSuccess;
  });
}

EXPORT int cuEventQuery(Event* event) {
  return call(c_cuEventQuery, kContext, [&](Call& c) -> int {
    int result = kSuccess;
    Event* e = c.event(event, &result, true);
    if (e == nullptr) return result;
    if (e->context->error != 0) return e->context->error;
    if (!e->latest) return kSuccess;
    if (!e->latest->done) return kNotReady;
    c.saw(e->latest);
    return kSuccess;
  });
}

EXPORT int cuEventSynchronize(Event* event) {
  return call(c_cuEventSynchronize, kContext, [&](Call& c) -> int {
    int result = kSuccess;
    Event* e = c.event(event, &result, true);
    return e == nullptr ? result : wait_for(c, e);
  });
}

EXPORT int cuMemHostRegister_v2(void* pointer, size_t nbytes, unsigned flags) {
  return call(c_cuMemHostRegister_v2, kContext, [&](Call& c) -> int {
    if (pointer == nullptr || nbytes == 0 || flags > 15) return kInvalidValue;
    if (setting(s_register_result) != 0) return int(setting(s_register_result));
    auto begin = reinterpret_cast<uintptr_t>(pointer);
    // Whole pages are locked, and each only once.
    uintptr_t first = begin / kPage, last = (begin + nbytes - 1) / kPage;
    for (auto& [start, one] : driver.registrations) {
      if (first <= (start + one->nbytes - 1) / kPage && start / kPage <= last) return kAlreadyRegistered;
    }
    long limit = setting(s_register_limit), used = counters[c_registered_bytes].load(std::memory_order_relaxed);
    if (limit >= 0 && (used > limit || nbytes > size_t(limit - used))) return kOutOfMemory;
    auto one = std::make_shared<Registration>();
    one->begin = begin;
    one->nbytes = nbytes;
    one->context = c.context;
    one->portable = (flags & 1) != 0;
    driver.registrations[begin] = one;
    count(c_registrations);
    count(c_registered_bytes, long(nbytes));
    return kSuccess;
  });
}

EXPORT int cuMemHostUnregister(void* pointer) {
  return call(c_cuMemHostUnregister, kContextEvenBroken, [&](Call& c) -> int {
    auto begin = reinterpret_cast<uintptr_t>(pointer);
    auto at = driver.registrations.find(begin);
    if (at == driver.registrations.end()) {
      for (auto& [start, one] : driver.registrations) {
        if (start < begin && begin < start + one->nbytes) return c.invalid("not where a registration begins");
      }
      return kNotRegistered;
    }
    auto one = at->second;
    if (one->context != c.context && !one->portable) {
      return c.refuse(kInvalidValue, c_wrong_context, "registered in another context");
    }
    if (one->pending > 0) fault(c_unregistered_in_use, "%zu bytes, %ld operations", one->nbytes, one->pending);
    driver.registrations.erase(at);
    count(c_registrations, -1);
    count(c_registered_bytes, -long(one->nbytes));
    return kSuccess;
  });
}

EXPORT int cuMemAlloc_v2(CUdeviceptr* address, size_t nbytes) {
  return call(c_cuMemAlloc_v2, kContext, [&](Call& c) -> int {
    if (address == nullptr || nbytes == 0) return kInvalidValue;
    size_t total = size_t(setting(s_total_memory)), used = 0;
    for (Context* one : driver.contexts) used += one->device == c.context->device ? one->used : 0;
    if (nbytes > total || used > total - nbytes) return kOutOfMemory;
    auto* block = new Block;
    block->context = c.context;
    block->nbytes = nbytes;
    // The driver promises addresses that are multiples of 256, no more.
    block->mapped = (nbytes + 256 + kPage - 1) / kPage * kPage;
    block->mapping = mmap(nullptr, block->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    auto* bytes = block->mapping == MAP_FAILED ? nullptr : static_cast<char*>(std::malloc(nbytes));
    if (bytes == nullptr) {
      if (block->mapping != MAP_FAILED) munmap(block->mapping, block->mapped);
      delete block;
      return kOutOfMemory;
    }
    std::memset(bytes, 0xCD, nbytes);
    block->bytes = std::shared_ptr<char>(bytes, [](char* p) { std::free(p); });
    block->address = uint64_t(reinterpret_cast<uintptr_t>(block->mapping)) + 256;
    driver.blocks[block->address] = block;
    c.context->used += nbytes;
    count(c_allocations);
    count(c_allocated_bytes, long(nbytes));
    *address = block->address;
    return kSuccess;
  });
}

EXPORT int cuMemFree_v2(CUdeviceptr address) {
  return call(c_cuMemFree_v2, kContextEvenBroken, [&](Call& c) -> int {
    int result = kSuccess;
    Block* block = c.block(address, 1, &result);
    if (block == nullptr) return result;
    if (block->address != address) return c.refuse(kInvalidValue, c_bad_address, "not where memory begins");
    if (block->pending > 0) fault(c_freed_in_use, "%zu bytes, %ld operations", block->nbytes, block->pending);
    free_block(block);
    return kSuccess;
  });
}

EXPORT int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t nbytes, Stream* stream) {
  return call(c_cuMemcpyHtoDAsync_v2, kContext, [&](Call& c) -> int {
    if (nbytes == 0) return kSuccess;
    return copy(c, stream, {{to, uint64_t(reinterpret_cast<uintptr_t>(from)), nbytes, false}}, kHost);
  });
}

EXPORT int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t nbytes, Stream* stream) {
  return call(c_cuMemcpyDtoDAsync_v2, kContext, [&](Call& c) -> int {
    if (nbytes == 0) return kSuccess;
    return copy(c, stream, {{to, from, nbytes, false}}, kDevice);
  });
}

#ifndef NO_BATCH
// What a batch says of a range of its copies.
struct BatchAttributes {
  int order;  // of access to the source: 1 the stream's, 2 during the call, 3 any
  struct {
    int type, id;
  } from, to;  // hints
  unsigned flags;
};
static_assert(sizeof(BatchAttributes) == 24, "the driver's layout");

EXPORT int cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* nbytes, size_t number,
                                 BatchAttributes* attributes, size_t* begins, size_t attribute_count, Stream* stream) {
  return call(c_cuMemcpyBatchAsync_v2, kContext, [&](Call& c) -> int {
    if (to == nullptr || from == nullptr || nbytes == nullptr || number == 0) return c.invalid("an empty batch");
    if (attributes == nullptr || begins == nullptr || attribute_count == 0 || attribute_count > number ||
        begins[0] != 0) {
      return c.invalid("a batch whose copies have no attributes");
    }
    if (reinterpret_cast<uintptr_t>(stream) == 0) {
      return c.refuse(kInvalidValue, c_default_stream, "a batch on stream 0");
    }
    if (reinterpret_cast<uintptr_t>(stream) == 1) return c.invalid("a batch on the legacy default stream");
    for (size_t i = 0; i < attribute_count; i++) {
      if (i > 0 && (begins[i] <= begins[i - 1] || begins[i] >= number)) return c.invalid("attributes out of order");
      if (attributes[i].order < 1 || attributes[i].order > 3 || attributes[i].flags > 1) {
        return c.invalid("an attribute of a batch");
      }
    }
    std::vector<Request> requests;
    size_t which = 0;
    for (size_t i = 0; i < number; i++) {
      if (nbytes[i] == 0) return c.invalid("a copy of no bytes in a batch");
      while (which + 1 < attribute_count && begins[which + 1] <= i) which++;
      requests.push_back({to[i], from[i], nbytes[i], attributes[which].order == 2});
    }
    return copy(c, stream, requests, kEither);
  });
}
#endif

EXPORT int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared, Stream* stream, void** params,
                          void** extra) {
  return call(c_cuLaunchKernel, kContext, [&](Call& c) -> int {
    if (function == nullptr) return c.refuse(kInvalidHandle, c_bad_handle, "no kernel");
    if (extra != nullptr) return kNotSupported;
    uint64_t threads = uint64_t(block_x) * block_y * block_z;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || threads > 1024) return kInvalidValue;
    if (grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535 || block_z > 64) return kInvalidValue;
    int result = kSuccess;
    Stream* s = c.stream(stream, &result);
    if (s == nullptr) return result;
    auto op = std::make_shared<Operation>();
    op->kind = kKernel;
    std::vector<unsigned> size = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared};
    auto* f = reinterpret_cast<void (*)(void**)>(function);
    std::vector<std::vector<char>> values;
    auto* kernel = static_cast<Kernel*>(function);
    if (driver.kernels.count(kernel) != 0) {
      f = kernel->function;
      if (params == nullptr && !kernel->sizes.empty()) return kInvalidValue;
      for (size_t i = 0; i < kernel->sizes.size(); i++) {
        auto* value = static_cast<const char*>(params[i]);
        values.emplace_back(value, value + kernel->sizes[i]);
      }
      params = nullptr;
    }
    op->work = [f, params, values, size](const Operation& self) mutable {
      nap(self.during);
      std::memcpy(dims, size.data(), sizeof dims);
      std::vector<void*> pointers;
      for (auto& value : values) pointers.push_back(value.data());
      f(params != nullptr ? params : pointers.data());
      count(c_kernels);
    };
    c.put(s, op);
    return kSuccess;
  });
}

EXPORT int cuPointerGetAttribute(void* out, int attribute, CUdeviceptr pointer) {
  return call(c_cuPointerGetAttribute, kContext, [&](Call& c) -> int {
    if (out == nullptr) return kInvalidValue;
    auto at = driver.blocks.upper_bound(pointer);
    Block* block = at == driver.blocks.begin() ? nullptr : std::prev(at)->second;
    if (block != nullptr && (block->dead || pointer - block->address >= block->nbytes)) block = nullptr;
    Registration* host = nullptr;
    for (auto& [start, one] : driver.registrations) {
      if (start <= pointer && pointer - start < one->nbytes) host = one.get();
    }
    // To ask about memory that the driver doesn't know is no mistake.
    c.counted = true;
    if (block == nullptr && host == nullptr) return kInvalidValue;
    Context* context = block != nullptr ? block->context : host->context;
    switch (attribute) {
      case 1:
        *static_cast<Context**>(out) = context;
        return kSuccess;
      case 2:
        *static_cast<unsigned*>(out) = block != nullptr ? 2 : 1;
        return kSuccess;  // device, host
      case 3:
        *static_cast<CUdeviceptr*>(out) = pointer;
        return kSuccess;
      case 4:
        if (block != nullptr) return kInvalidValue;
        *static_cast<void**>(out) = reinterpret_cast<void*>(uintptr_t(pointer));
        return kSuccess;
      case 9:
        *static_cast<int*>(out) = context->device;
        return kSuccess;
      case 11:
        *static_cast<CUdeviceptr*>(out) = block != nullptr ? block->address : host->begin;
        return kSuccess;
      case 12:
        *static_cast<size_t*>(out) = block != nullptr ? block->nbytes : host->nbytes;
        return kSuccess;
      default:
        return kInvalidValue;
    }
  });
}

EXPORT int cuGetErrorName(int error, const char** name) {
  return call(c_cuGetErrorName, kNothing, [&](Call& c) -> int {
    if (name == nullptr) return kInvalidValue;
    *name = nullptr;
    for (auto& one : kResults) {
      if (one.number == error) *name = one.name;
    }
    c.counted = true;
    return *name == nullptr ? kInvalidValue : kSuccess;
  });
}

EXPORT int cuGetErrorString(int error, const char** text) {
  return call(c_cuGetErrorString, kNothing, [&](Call& c) -> int {
    if (text == nullptr) return kInvalidValue;
    *text = nullptr;
    for (auto& one : kResults) {
      if (one.number == error) *text = one.text;
    }
    c.counted = true;
    return *text == nullptr ? kInvalidValue : kSuccess;
  });
}

// ---- steering

EXPORT int fake_set(const char* name, long value) {
  int i = find_setting(name);
  if (i < 0) return -1;
  settings[i].store(value, std::memory_order_relaxed);
  return 0;
}

EXPORT long fake_get(const char* name) {
  int i = find_setting(name);
  return i < 0 ? -1 : setting(Setting(i));
}

EXPORT int fake_schedule(const char* name, long seed) {
  struct Schedule {
    const char* name;
    long copy_before, copy_during, kernel_before, kernel_during, event_before, jitter;
  };
  // So that hundreds of copies take a fraction of a second, and yet are far apart.
  static const Schedule schedules[] = {
      {"none", 0, 0, 0, 0, 0, 0},
      {"equal", 60, 60, 60, 60, 0, 0},
      {"slow_copy", 300, 200, 5, 5, 0, 0},
      {"slow_consumer", 5, 5, 200, 400, 0, 0},
      {"jitter", 400, 300, 400, 300, 100, 1},
  };
  Hidden hidden;
  for (auto& one : schedules) {
    if (std::strcmp(one.name, name) != 0) continue;
    std::lock_guard<std::mutex> guard(driver.mutex);
    const std::pair<Setting, long> values[] = {
        {s_copy_before, one.copy_before},
        {s_copy_during, one.copy_during},
        {s_kernel_before, one.kernel_before},
        {s_kernel_during, one.kernel_during},
        {s_event_before, one.event_before},
        {s_jitter, one.jitter},
        {s_seed, seed},
    };
    for (auto [which, value] : values) settings[which].store(value, std::memory_order_relaxed);
    for (Stream* s : driver.streams) s->random = mixed(uint64_t(seed) * 1000003 + s->number);
    return 0;
  }
  return -1;
}

EXPORT int fake_attribute(int attribute, int value) {
  Hidden hidden;
  std::lock_guard<std::mutex> guard(driver.mutex);
  driver.attributes[attribute] = value;
  return 0;
}

EXPORT int fake_fail(const char* function, long nth, int error, int how) {
  Hidden hidden;
  int which = std::strcmp(function, "*") == 0 ? -1 : find_counter(function);
  if (which >= c_source_changed || (which < 0 && function[0] != '*')) return -1;
  if (nth < 1 || how < 0 || how > 2) return -1;
  std::lock_guard<std::mutex> guard(driver.mutex);
  driver.plans.push_back({which, nth, error, how});
  return 0;
}

namespace {

// A call of a test that puts something on a stream: under the stream's own context, whatever is current. Default
// streams: of the current context, or of the only one there is.
template <class Body>
int on_stream(Stream* handle, Body body) {
  Hidden hidden;
  Call c;
  c.lock = std::unique_lock<std::mutex>(driver.mutex);
  if (driver.streams.count(handle) != 0) {
    c.context = handle->context;
  } else if (current != nullptr && !current->dead) {
    c.context = current;
  } else {
    for (Context* one : driver.contexts) c.context = one->dead ? c.context : one;
  }
  if (c.context == nullptr) return kInvalidContext;
  if (c.context->error != 0) return c.context->error;
  // That a consumer uses stream 0 is its own affair.
  if (handle == nullptr) handle = reinterpret_cast<Stream*>(uintptr_t(1));
  int result = kSuccess;
  Stream* s = c.stream(handle, &result);
  return s == nullptr ? result : body(c, s);
}

}  // namespace

namespace {

// In an operation: until fake_go_on is called for this one.
void wait_to_go_on(Stream* s, long mine) {
  Hidden hidden;
  std::unique_lock<std::mutex> lock(driver.mutex);
  s->waits = mine;
  driver.changed.notify_all();
  driver.changed.wait(lock, [&] { return s->let_go >= mine || stopped(s->context); });
  s->waits = 0;
  Shown shown;
  order_after(&s->let_go);
}

}  // namespace

EXPORT int fake_hold(Stream* stream) {
  return on_stream(stream, [](Call& c, Stream* s) -> int {
    long mine = ++s->held;
    auto op = std::make_shared<Operation>();
    op->work = [s, mine](const Operation&) { wait_to_go_on(s, mine); };
    c.put(s, op);
    return kSuccess;
  });
}

EXPORT int fake_go_on(Stream* stream) {
  return on_stream(stream, [](Call&, Stream* s) -> int {
    s->let_go = s->held;
    {
      Shown shown;
      order_before(&s->let_go);
    }
    driver.changed.notify_all();
    return kSuccess;
  });
}

EXPORT int fake_consume(Stream* stream, CUdeviceptr address, size_t nbytes, uint64_t expected, long delay) {
  return on_stream(stream, [&](Call& c, Stream* s) -> int {
    int result = kSuccess;
    Block* block = c.block(address, nbytes, &result);
    if (block == nullptr) return result;
    auto op = std::make_shared<Operation>();
    op->kind = kKernel;
    op->blocks.push_back(block);
    auto bytes = block->bytes;
    size_t offset = size_t(address - block->address);
    long mine = delay == -2 ? ++s->held : 0;
    op->work = [s, bytes, offset, nbytes, expected, delay, mine](const Operation& self) {
      // Read as a device reads, which the sanitizer sees; the hash is of what was read.
      std::vector<char> read(nbytes);
      std::memcpy(read.data(), bytes.get() + offset, nbytes);
      uint64_t first = fake_hash(read.data(), nbytes);
      count(c_consumers);
      if (mine > 0) wait_to_go_on(s, mine);
      nap(delay == -1 ? self.during : delay);
      std::memcpy(read.data(), bytes.get() + offset, nbytes);
      uint64_t second = fake_hash(read.data(), nbytes);
      Hidden hidden;
      if (expected != 0 && first != expected)
        fault(c_consumed_wrong, "%zu bytes, on stream %lu", nbytes, (unsigned long)s->number);
      if (second != first) fault(c_changed_while_read, "%zu bytes, on stream %lu", nbytes, (unsigned long)s->number);
    };
    c.put(s, op);
    return kSuccess;
  });
}

EXPORT uint64_t fake_registered(long n) {
  Hidden hidden;
  std::lock_guard<std::mutex> guard(driver.mutex);
  for (auto& one : driver.registrations) {
    if (n-- == 0) return one.first;
  }
  return 0;
}

EXPORT void* fake_translate(CUdeviceptr address) {
  Hidden hidden;
  std::lock_guard<std::mutex> guard(driver.mutex);
  auto at = driver.blocks.upper_bound(address);
  Block* block = at == driver.blocks.begin() ? nullptr : std::prev(at)->second;
  if (block == nullptr || address - block->address >= block->nbytes) {
    fault(c_bad_address, "%#lx: no device memory", (unsigned long)address);
    return nullptr;
  }
  if (block->dead) {
    fault(c_use_after_free, "%#lx", (unsigned long)address);
    return nullptr;
  }
  return block->bytes.get() + (address - block->address);
}

EXPORT void* fake_kernel(void (*function)(void**), size_t number, const size_t* sizes) {
  Hidden hidden;
  std::lock_guard<std::mutex> guard(driver.mutex);
  auto* kernel = new Kernel{function, std::vector<size_t>(sizes, sizes + number)};
  driver.kernels.insert(kernel);
  return kernel;
}

EXPORT const unsigned* fake_dims() { return dims; }

EXPORT int fake_drain(long milliseconds) {
  Hidden hidden;
  std::unique_lock<std::mutex> lock(driver.mutex);
  auto until = std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
  bool idle = driver.changed.wait_until(lock, until, [] {
    for (Stream* s : driver.streams) {
      if (!s->queue.empty()) return false;
    }
    return true;
  });
  Shown shown;
  for (Stream* s : driver.streams) {
    if (s->last && s->last->done) order_after(s->last.get());
  }
  return idle;
}

EXPORT int fake_settle(long milliseconds) {
  Hidden hidden;
  std::unique_lock<std::mutex> lock(driver.mutex);
  auto until = std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds);
  return driver.changed.wait_until(lock, until, [] {
    for (Stream* s : driver.streams) {
      if (s->queue.empty() || s->waits > s->let_go) continue;
      bool can = true;
      for (auto& one : s->queue.front()->after) can = can && one->done;
      if (can) return false;
    }
    return true;
  });
}

EXPORT long fake_count(const char* name) {
  int i = find_counter(name);
  return i < 0 ? -1 : counters[i].load(std::memory_order_relaxed);
}

EXPORT const char* fake_counter(int i, int* kind) {
  if (i < 0 || i >= kCounters) return nullptr;
  *kind = kNames[i].kind;
  return kNames[i].name;
}

EXPORT long fake_story(char* out, long n) {
  Hidden hidden;
  if (in_child()) return 0;
  std::lock_guard<std::mutex> guard(driver.story_mutex);
  std::string all;
  for (auto& line : driver.story) all += line + "\n";
  if (n > 0) std::snprintf(out, size_t(n), "%s", all.c_str());
  return long(all.size());
}

EXPORT void fake_clear() {
  Hidden hidden;
  std::lock_guard<std::mutex> guard(driver.mutex);
  driver.plans.clear();
  driver.attributes.clear();
  for (Context* one : driver.contexts) one->error = 0;
  for (int i = 0; i < kCounters; i++) {
    if (kNames[i].kind != 3) counters[i].store(0, std::memory_order_relaxed);
  }
  for (int i = 0; i < kSettings; i++) settings[i].store(kDefaults[i], std::memory_order_relaxed);
  std::lock_guard<std::mutex> story(driver.story_mutex);
  driver.story.clear();
}

EXPORT void fake_reset() {
  {
    Hidden hidden;
    std::unique_lock<std::mutex> lock(driver.mutex);
    for (Context* one : std::vector<Context*>(driver.contexts.begin(), driver.contexts.end())) {
      if (!one->dead) end_context(one, lock);
    }
    for (auto& one : driver.blocks) munmap(one.second->mapping, one.second->mapped);
    driver.blocks.clear();
    driver.stream_number = 0;  // the same seed, the same delays
    driver.initialized = false;
  }
  fake_clear();
}
