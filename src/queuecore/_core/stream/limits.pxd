# Limits: the numbers that decide how large the parts of a stream are, each defined once.
cdef enum:
    UNIT_BYTES = 512 << 10       # most bytes of a unit: more makes the first batch late, less costs more for claiming
    FIRST_ROWS = 4               # of a unit, before it is known how large a step makes elements
    MADE_BYTES = 2 << 20         # of a unit's values of such elements: more would leave the cache until they are taken
    SMALL_UNIT_BYTES = 256 << 10  # most bytes of a unit of several batches
    CHUNK_BYTES = 64 << 10       # most bytes and rows of a chunk, when elements are records
    CHUNK_ROWS = 4096
    UNIT_BATCHES = 64            # most batches of a unit
    VARYING_BYTES = 64           # how many bytes a value of varying length counts as before any is known
    TOGETHER_BYTES = 128 << 10   # bytes of rows that a step makes in one pass, with the rows that they are made of
    TOGETHER_ROWS = 8            # of longer rows so many, up to
    TOGETHER_MOST = 256 << 10    # so many bytes
    # most rows of a unit if each may take a read of its own; otherwise a stop request is noticed late
    LONE_ROWS = 2048
    STORE_BYTES = 256 << 20      # most bytes of a shuffle's store
    STORE_RECORD_BYTES = 32 << 10  # from this size on, a read for each record costs less than a second copy
    LOAD_SCATTER_BYTES = 512     # from this size on, the kernel scatters records into the store
    IOVECS = 1024                # most iovecs of a read
    DISCOVER_AHEAD = 6           # files that are opened before they are needed
    IDLE_FILES = 128             # files kept open for a shuffle that jumps between files
    ASKING = 32                  # units kept for what the engine reads
    ASKING_LOADS = 8             # of these, such as load a store
    # units that go to the engine, after one whose bytes were not in the page cache, before one looks there again
    COLD_UNITS = 16
    DISCOVER_ASKED = 64          # files that the engine opens before they are needed
    DISCOVER_REMOTE = 64 << 20   # bytes of remote files that are open before they are needed
    HELPERS = 4                  # units kept for consumers that help
    SPIN_NS = 80000              # ns; a few times the duration of a futex wake across cores
    LANES = 64                   # files interleaved with pieces of full size
    LANE_BYTES = 16 << 10        # least bytes of a piece, where more files are interleaved
    RUN_AHEAD = 80 << 20         # for each thread but one: most bytes of blocks with later, compressed files
    RUN_AHEAD_FILES = 256        # most files of which such blocks are
    WIDTH_MOST = 1 << 16         # most batches made ahead
    # batches ahead, and later files, take at most 1 / AHEAD_PART of the memory that the process may have, each
    AHEAD_PART = 4
