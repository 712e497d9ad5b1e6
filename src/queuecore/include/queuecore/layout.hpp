// The structs that several extension modules share. Zero bytes are a valid start for each of them (see alloc_lines).
//
// Only data and layout claims stand here; the .pxd with the algorithm says which thread may touch which field, and with
// which memory order.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdint>

#include "queuecore/atomic.hpp"
#include "queuecore/platform.hpp"

namespace queuecore {

// An error and its place; numbers only, so that a native thread can record it without allocating.
struct Fault {
  int32_t code;        // a code of errors.pxd; 0: no fault
  int32_t err;         // errno, or 0
  int32_t what;        // the sentence: a WHAT_ number of errors.pxd
  int32_t stage;       // a STAGE_ number of errors.pxd
  int64_t file;        // index into the list of names, or -1
  int64_t offset;      // bytes from the start of the file, or -1
  int64_t record;      // 0-based record of that file, or -1
  int64_t a, b;        // two numbers for the sentence
  int64_t text_bytes;  // of the text that doesn't parse; 0: the sentence shows none
  char text[40];       // its beginning
};

// parking.pxd. Low 32 bits: epoch (the futex word). High 32 bits: number of waiters (may be too high, never too low).
struct alignas(kLine) EventCount {
  Atomic<uint64_t> word;
  uint32_t light;  // waiters use membarrier(), so that notifiers need no fence; written before others know of it
};
static_assert(sizeof(EventCount) == kLine, "an event count has its lines to itself");

// parking.pxd. 0 free, 1 held, 2 held and a thread may sleep.
struct alignas(kLine) Turn {
  Atomic<uint32_t> word;
};

// runtime.pxd. state: 0 running, 1 its fault is being written, 2 set.
struct StopFlag {
  Atomic<uint32_t> state;
  Fault first;
};

// ring.pxd. Words of tail and head count in twos; bit 0: a thread owns the pushes, or the pops.
struct FifoRing {
  Atomic<uint64_t>* cells;   // lap (high 40 bits) and token (low 24 bits)
  uint64_t mask;             // number of cells, a power of two, less one
  uint64_t room;             // capacity, in twos
  Plain<int32_t> shift;      // from a word of tail or head to its lap
  Atomic<uint64_t> outside;  // rows that count and aren't in a cell (low 32 bits); number of changes of it (high 32)
  alignas(kLine) Atomic<uint64_t> tail;
  Atomic<uint64_t> head_seen;  // an earlier value of head, on the line that pushers write anyway
  alignas(kLine) Atomic<uint64_t> head;
};

// slab.pxd. head: tag (high 32 bits) and index + 1 of the top slot (low 32 bits); 0 in the low half: empty.
struct alignas(kLine) SlotStack {
  Atomic<uint64_t> head;
  Atomic<uint32_t>* next;
  uint32_t count;
  alignas(kLine) Atomic<int32_t> free;  // number of slots in it; may lag behind
};

struct Slab {
  unsigned char* base;
  std::size_t slot_bytes;
  std::size_t mapped_bytes;
  uint32_t slots;
  SlotStack stack;
};

// window.pxd. One batch in flight.
struct alignas(kLine) Batch {
  Atomic<uint64_t> ready;   // k + 1 once every row of batch k is in place
  Atomic<int64_t> missing;  // rows not yet in place, plus one until the batch is closed
  Atomic<uint32_t> failed;  // 0, or a BATCH_ number of pipe.pxd
  uint32_t slot;
  int64_t rows;       // of the element; the planner writes it before it closes the batch
  int64_t subs;       // elements that a batch of batches is made of; 0: of records
  int64_t fault_row;  // the first unreadable row; then its record
  int64_t fault_pass;
  int64_t fault_ordinal;
  Fault fault;
  int64_t mark_pass;  // mark: after the last record that the order had used
  int64_t mark_end;
  int64_t mark_good;      // records of the pass until there
  int64_t mark_place[5];  // a Place of blocks.pxd: of the block with that record
  int64_t mark_files;     // files that the order had used; -1: all that were known
  int32_t cut;            // CUT_* of marks.pxd: whether an error has cut the batch short
  int64_t seam[3];        // the pass, the number, and the good records before it, of the record behind that cut
  void* parts;            // Parts of rows.pxd; guarded by the turn
};

struct Window {
  Batch* ring;
  uint64_t mask;
  uint64_t width;
  int64_t* iterations;                       // mark: by descriptor and shuffle, the iterations begun
  alignas(kLine) Atomic<uint64_t> consumed;  // batches handed to the consumer
  alignas(kLine) Atomic<uint64_t> end;       // number of batches in all, once known; otherwise ~0
  alignas(kLine) EventCount arrived;
};

// runtime.pxd
using StepFn = int (*)(void*, int32_t);
using LeaveFn = void (*)(void*, int32_t);
using ReleaseFn = void (*)(void*);

// The top frame of a native thread: nothing in the core throws, but nothing may pass a thread's end either.
// Returns -1 instead. A forced unwind (thread cancellation) must go on.
inline int guarded_step(StepFn step, void* context, int32_t worker) {
  try {
    return step(context, worker);
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return -1;
  }
}

constexpr int kNumbered = 128;

struct Runner {
  EventCount work;   // workers park here
  EventCount apart;  // those of runner_more do here,
  EventCount rings;  // or here
  EventCount quiet;  // joiners park here
  StopFlag stop;
  Atomic<int32_t> live;
  StepFn step;
  void* context;
  LeaveFn leave;  // a worker's last work, before it counts as ended; null: none
  ReleaseFn release;
  Runner* prev;  // in the registry of atoms/process.pyx
  Runner* next;
  int32_t registered;
  int32_t spin;
  Atomic<int32_t> numbers[kNumbered];  // of the first workers' threads, as the system counts them; 0: none runs
};

// sources.pxd
struct FileEntry {
  Atomic<uint32_t> state;  // 0 unknown, 1 known, 2 unknown here, but size to ino are those that an earlier pass found
  int32_t fd;              // -1: closed
  int32_t pins;
  int32_t prev, next;  // idle open files, least recently used first
  int32_t code;        // why the file ends early: a code of errors.pxd; 0: it doesn't
  int32_t err;
  int32_t what;
  int64_t size;
  int64_t mtime_ns;
  uint64_t dev, ino;
  int64_t count;    // whole records
  int64_t base;     // ordinal of the first one
  int64_t used;     // records read since the file was looked at last; guarded by the turn, as the next two
  int64_t passes;   // one more than the last pass that has opened it; 0: none has
  int64_t changed;  // it was written to while it was read: 0 or 1
  uint64_t digest;  // of sizes and times of this file and all before it
};

// decode.pxd. One output array: the pieces that it takes from a record, and the place of its rows in a slot.
struct Leaf {
  const int64_t* offsets;  // of the pieces, in the record
  int64_t slot_offset;
  int64_t row_bytes;
  int64_t piece_bytes;
  int32_t pieces;
  int32_t swap;  // 0, a unit to reverse (2, 4, 8, 16), or -1: bytes become 0 or 1
};

// Changes with the size of any shared struct, and where system calls go: modules compare it at import (Cython checks
// cdef classes only).
constexpr uint64_t layout_hash() {
  const uint64_t sizes[] = {sizeof(Fault),     sizeof(EventCount),    sizeof(Turn),  sizeof(StopFlag),
                            sizeof(SlotStack), sizeof(Slab),          sizeof(Batch), sizeof(Window),
                            sizeof(Runner),    sizeof(FileEntry),     sizeof(Leaf),  sizeof(FifoRing),
                            sizeof(Syscalls),  QUEUECORE_SHARED_TABLE};
  uint64_t h = 1469598103934665603u;
  for (uint64_t s : sizes) h = (h ^ s) * 1099511628211u;
  return h;
}

static_assert(offsetof(FifoRing, tail) >= kLine && offsetof(FifoRing, head) - offsetof(FifoRing, tail) >= kLine,
              "what never changes, what pushers write and what poppers write lie on lines of their own");
static_assert(offsetof(SlotStack, free) >= kLine, "the count of free slots stays off the head's line");
static_assert(offsetof(Window, end) - offsetof(Window, consumed) >= kLine,
              "each side of the window writes its own line");
static_assert(alignof(Batch) == kLine && sizeof(Batch) % kLine == 0, "two workers finishing two batches share no line");

}  // namespace queuecore
