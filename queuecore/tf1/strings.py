"""``tf.strings``: joined, split, cut."""

from queuecore.tf1._strings import (
    as_string,
    regex_replace,
    substr,
)
from queuecore.tf1._strings import string_join as join
from queuecore.tf1._strings import string_length as length
from queuecore.tf1._strings import string_lower as lower
from queuecore.tf1._strings import string_strip as strip
from queuecore.tf1._strings import string_to_number as to_number
from queuecore.tf1._strings import string_upper as upper
from queuecore.tf1._strings import strings_split as split

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
