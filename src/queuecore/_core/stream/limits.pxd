# Limits: the numbers that decide how large the parts of a stream are, each said once.
cdef enum:
    UNIT_BYTES = 512 << 10       # of one unit, at most: more makes the first batch late, less pays more for claiming
    SMALL_UNIT_BYTES = 256 << 10  # when several batches make a unit
    CHUNK_BYTES = 64 << 10       # when elements are records
    CHUNK_ROWS = 4096
    UNIT_BATCHES = 64            # of one unit, at most
    TOGETHER_BYTES = 32 << 10    # of rows that a step makes in one pass, and of what they are made of
    LONE_ROWS = 2048             # of one unit, at most, if each may be a read of its own: or else a stop is heard late
    STORE_BYTES = 256 << 20      # a shuffle store is never larger
    STORE_RECORD_BYTES = 32 << 10  # from here one read a record costs less than a second copy
    LOAD_SCATTER_BYTES = 512     # from here the kernel scatters records into the store
    IOVECS = 1024
    DISCOVER_AHEAD = 6           # files that are opened before they are needed
    IDLE_FILES = 128             # kept open for a shuffle that jumps between files
    HELPERS = 4                  # units kept for consumers that help
    SPIN_NS = 80000              # a few times what a futex wake across cores takes
    LANES = 64                   # files interleaved with pieces of full size
    LANE_BYTES = 16 << 10        # of a piece, where there are many more
    WIDTH_MOST = 1 << 16         # batches made ahead
    AHEAD_PART = 4               # of the memory that the process may have: they take no more than this part of it
