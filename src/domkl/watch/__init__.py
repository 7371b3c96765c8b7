"""The live page: what learners predict, how they err and how they are connected, in a browser.

    feed = Feed("garden", unit="°C")
    with Server(("127.0.0.1", 8080), feed) as server:
        feed.sample({"learner": "a", "index": 0, "y_hat": 20.5})
        feed.truth("a", 0, 21.0)
        feed.status({"learner": "a", "state": "ready", "round": 1})

It knows nothing of learners: whoever runs them hands records to a feed, and a server shows them. A server
runs in threads of its own, so that no browser can make a learner wait.
"""

from .access import Access, Answer, Request, Route
from .feed import Feed, FeedLike
from .run_feed import RunFeed
from .server import Server

__all__ = ["Access", "Answer", "Feed", "FeedLike", "Request", "Route", "RunFeed", "Server"]
