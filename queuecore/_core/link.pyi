from queuecore._core.feed import Feed
from queuecore._core.stream import Stream

def choose(feed: Feed, pass_: int, child: Stream, mask: int, skip: int = 0) -> bool: ...
