# Tar archives as records: samples, as WebDataset has them.
#
# A sample is the files of an archive that follow each other and have one stem: the name up to the first dot behind the
# last slash. The part behind the dot is the file's key. Files without a stem or a key, folders, links and other members
# without data are no part of a sample. A record is the archive's own bytes from the first header of a sample up to that
# of the next one: so nothing is copied until a step takes it apart.
#
# POSIX's ustar and pax headers are read, GNU's long names and numbers of 256, and the archives of old tars. Walking
# looks at headers alone, in the caller's bytes; it is pure.
from queuecore._core.io.walk cimport WalkKind

cdef const WalkKind* tar_kind() noexcept nogil

# Faults of the step: `what`.
cdef enum:
    SAMPLE_LACKS = 1          # a: the number of the output
    SAMPLE_TWICE = 2          # a: the number of the key
    SAMPLE_BROKEN = 3         # the record is no sample
    SAMPLE_NO_MEMORY = 4      # a bytes
