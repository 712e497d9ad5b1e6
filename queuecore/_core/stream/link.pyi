from queuecore._core.stream.feed import Feed
from queuecore._core.stream.stream import Stream

def choose(feed: Feed, pass_: int, child: Stream, mask: int, skip: int = 0) -> bool: ...
