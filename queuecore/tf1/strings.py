"""``tf.strings``: joined, split, cut."""

from queuecore.tf1._ops.strings import (
    as_string,
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

__all__ = [
    "as_string",
    "join",
    "length",
    "lower",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_number",
    "upper",
]
