"""``tf.strings``: joined, split, cut."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.hashes import (
    string_to_hash_bucket as to_hash_bucket,
    string_to_hash_bucket_fast as to_hash_bucket_fast,
    string_to_hash_bucket_strong as to_hash_bucket_strong,
)
from queuecore.tf1._ops.strings import (
    as_string,
    bytes_split,
    reduce_join,
    regex_full_match,
    regex_replace,
    string_join as join,
    string_length as length,
    string_lower as lower,
    string_strip as strip,
    string_to_number as to_number,
    string_upper as upper,
    strings_split as split,
    substr,
)
from queuecore.tf1._ops.unicode import (
    string_format as format,
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_split_with_offsets,
    unicode_transcode,
)

__all__ = [
    "as_string",
    "bytes_split",
    "format",
    "join",
    "length",
    "lower",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_split",
    "unicode_split_with_offsets",
    "unicode_transcode",
    "upper",
]

__getattr__ = _refusing("tf.strings")
