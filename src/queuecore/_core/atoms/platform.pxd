# Declarations for the small headers. Nothing here runs.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stddef cimport size_t

cdef extern from "queuecore/atomic.hpp" namespace "queuecore" nogil:
    ctypedef int MemoryOrder
    const MemoryOrder kRelaxed
    const MemoryOrder kAcquire
    const MemoryOrder kRelease
    const MemoryOrder kAcqRel
    const MemoryOrder kSeqCst
    void fence(MemoryOrder) noexcept
    void compiler_fence() noexcept
    MemoryOrder order(int edge, MemoryOrder wanted) noexcept

    cppclass Plain[T]:
        T get() noexcept
        void set(T) noexcept

    cppclass Atomic[T]:
        T load(MemoryOrder) noexcept
        void store(T, MemoryOrder) noexcept
        T exchange(T, MemoryOrder) noexcept
        T fetch_add(T, MemoryOrder) noexcept
        T fetch_sub(T, MemoryOrder) noexcept
        T fetch_or(T, MemoryOrder) noexcept
        bint compare_exchange_weak(T&, T, MemoryOrder, MemoryOrder) noexcept
        bint compare_exchange_strong(T&, T, MemoryOrder, MemoryOrder) noexcept

cdef extern from "queuecore/sizes.hpp" namespace "queuecore" nogil:
    const size_t kNoSize
    const int64_t kMostBytes
    size_t size_product(size_t a, size_t b) noexcept
    size_t size_sum(size_t a, size_t b) noexcept

cdef extern from "queuecore/platform.hpp" namespace "queuecore" nogil:
    const size_t kLine
    ctypedef void (*ThreadMain)(void*) noexcept
    void cpu_pause() noexcept
    int64_t cpu_ticks() noexcept
    int64_t monotonic_ns() noexcept
    int futex_wait(void* word, uint32_t expected, int64_t deadline_ns) noexcept
    void futex_wake(void* word, uint32_t n) noexcept
    void membarrier() noexcept
    bint membarrier_register() noexcept
    int usable_cpus() noexcept
    int thread_start(ThreadMain main, void* arg, const char* name) noexcept
    void* alloc_lines(size_t nbytes) noexcept
    void* map_pages(size_t nbytes) noexcept
    void unmap_pages(void* p, size_t nbytes) noexcept
    void disown_pages(void* p, size_t nbytes) noexcept

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "queuecore/syscalls.hpp" nogil:
    const int RWF_NOWAIT

cdef extern from "queuecore/syscalls.hpp" namespace "queuecore" nogil:
    cppclass FileStat:
        int64_t size
        int64_t mtime_ns
        uint64_t dev
        uint64_t ino
        uint32_t mode

    ctypedef int (*PinFn)(void* p, size_t nbytes, unsigned flags) noexcept
    ctypedef int (*UnpinFn)(void* p) noexcept

    cppclass Syscalls:
        int (*open)(const char*) noexcept
        int (*close)(int) noexcept
        int (*stat)(const char*, FileStat*) noexcept
        int (*fstat)(int, FileStat*) noexcept
        int (*storage)(int) noexcept
        int64_t (*preadv)(int, const iovec*, int, int64_t, int) noexcept
        int (*forget)(int fd, int64_t offset, int64_t nbytes) noexcept
        int (*expect)(int fd, int64_t offset, int64_t nbytes) noexcept
        int (*direct)(int fd, int on) noexcept
        int (*poll)(int fd, int milliseconds) noexcept
        int (*ring_open)(Uring*) noexcept
        int (*ring_enter)(Uring*, int64_t wait_ns) noexcept
        int (*ring_reap)(Uring*, void** whose, int32_t* result) noexcept
        void (*ring_close)(Uring*) noexcept
        int (*advise)(void* p, size_t nbytes, int what) noexcept
        int (*prefer_node)(void* p, size_t nbytes, int node) noexcept
        int (*pin)(PinFn, void* p, size_t nbytes, unsigned flags) noexcept
        int (*unpin)(UnpinFn, void* p) noexcept
        void (*sleep)(int64_t ns) noexcept
        void* (*library)(const char* name) noexcept
        int (*library_close)(void*) noexcept

    const int kStorageMemory, kStorageElsewhere

    # uring.hpp
    cppclass Uring:
        char* rings
        unsigned held
    const unsigned kRingReads
    void ring_read(Uring*, int fd, void* to, size_t nbytes, int64_t offset, void* whose) noexcept
    void* ring_unread(Uring*) noexcept
    void kernel_wrote(void* to, size_t nbytes) noexcept

    const Syscalls* syscalls() noexcept
    void share_syscalls(Syscalls*) noexcept
    bint is_regular(uint32_t mode) noexcept
    bint is_directory(uint32_t mode) noexcept

cdef extern from "queuecore/layout.hpp" namespace "queuecore" nogil:
    cppclass Fault:
        int32_t code
        int32_t err
        int32_t what
        int32_t stage
        int64_t file
        int64_t offset
        int64_t record
        int64_t a
        int64_t b
        int64_t text_bytes
        char[40] text

    cppclass EventCount:
        Atomic[uint64_t] word
        uint32_t light

    cppclass Turn:
        Atomic[uint32_t] word

    cppclass StopFlag:
        Atomic[uint32_t] state
        Fault first

    cppclass FifoRing:
        Atomic[uint64_t]* cells
        uint64_t mask
        uint64_t room
        Plain[int32_t] shift
        Atomic[uint64_t] outside
        Atomic[uint64_t] tail
        Atomic[uint64_t] head_seen
        Atomic[uint64_t] head

    cppclass SlotStack:
        Atomic[uint64_t] head
        Atomic[uint32_t]* next
        uint32_t count
        Atomic[int32_t] free

    cppclass Slab:
        unsigned char* base
        size_t slot_bytes
        size_t mapped_bytes
        uint32_t slots
        SlotStack stack

    cppclass Batch:
        Atomic[uint64_t] ready
        Atomic[int64_t] missing
        Atomic[uint32_t] failed
        uint32_t slot
        int64_t rows
        int64_t subs
        int64_t fault_row
        int64_t fault_pass
        int64_t fault_ordinal
        Fault fault
        int64_t mark_pass
        int64_t mark_end
        int64_t mark_good
        int64_t[5] mark_place
        int64_t mark_files
        int32_t cut
        int64_t[3] seam
        void* parts

    cppclass Window:
        Batch* ring
        uint64_t mask
        uint64_t width
        int64_t* iterations
        Atomic[uint64_t] consumed
        Atomic[uint64_t] end
        EventCount arrived

    ctypedef int (*StepFn)(void*, int32_t) noexcept
    ctypedef void (*LeaveFn)(void*, int32_t) noexcept
    ctypedef void (*ReleaseFn)(void*) noexcept
    int guarded_step(StepFn step, void* context, int32_t worker) noexcept

    cppclass Runner:
        EventCount work
        EventCount apart
        EventCount rings
        EventCount quiet
        StopFlag stop
        Atomic[int32_t] live
        StepFn step
        void* context
        LeaveFn leave
        ReleaseFn release
        Runner* prev
        Runner* next
        int32_t registered
        int32_t spin
        Atomic[int32_t] numbers[128]

    cppclass FileEntry:
        Atomic[uint32_t] state
        int32_t fd
        int32_t pins
        int32_t prev
        int32_t next
        int32_t code
        int32_t err
        int32_t what
        int64_t size
        int64_t mtime_ns
        uint64_t dev
        uint64_t ino
        int64_t count
        int64_t base
        int64_t used
        int64_t passes
        int64_t changed
        uint64_t digest

    cppclass Leaf:
        const int64_t* offsets
        int64_t slot_offset
        int64_t row_bytes
        int64_t piece_bytes
        int32_t pieces
        int32_t swap

    uint64_t layout_hash() noexcept
