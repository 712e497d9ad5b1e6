"""Framings: their words, and their functions. See framing.pxd."""
from libc.stdint cimport int32_t
from queuecore._core.atoms.platform cimport layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.tar cimport tar_kind
from queuecore._core.io.tfrecord cimport tfrecord_kind
from queuecore._core.io.walk cimport WalkKind

check_layout(layout_hash())

# By number.
cdef tuple WORDS = ("whole", None, "lines", "fixed", "tfrecord", "csv", "tar")


cdef int32_t framing_of(str word) except -1:
    if word is None or word not in WORDS:
        raise ValueError(f"{word!r} is no framing of a stream")
    return WORDS.index(word)


cdef const WalkKind* framing_walk(int32_t framing) noexcept nogil:
    if framing == FRAME_TFRECORD:
        return tfrecord_kind()
    if framing == FRAME_TAR:
        return tar_kind()
    return NULL
