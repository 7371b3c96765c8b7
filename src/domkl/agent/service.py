"""What a running agent tells others over HTTP: /healthz, /readyz, /metrics and the live page.

    with Service(("127.0.0.1", 9464), status, snapshot):
        ...

`status` is kept up to date by the agent's loop; `snapshot` is asked at each scrape for the numbers of
`METRICS`. Requests are answered in threads of their own, so the loop never waits for one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from ..base.extras import need
from ..watch import Answer, FeedLike, Request, Server
from .logs import Limited

LOG = logging.getLogger(__name__)
BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # of the histogram, in s

#: Numbers by the names in METRICS; a metric with a label has a mapping from the label's values.
Snapshot: TypeAlias = "Mapping[str, float | Mapping[str, float]]"


class Metric(NamedTuple):
    """How a number of the snapshot is called and explained in /metrics."""

    kind: str  # counter or gauge
    help: str
    label: str = ""


#: What a snapshot may hold. /metrics calls it domkl_<name>, and counters domkl_<name>_total.
METRICS = {
    "rounds": Metric("counter", "Rounds closed."),
    "rounds_incomplete": Metric("counter", "Rounds that ended without the update of a neighbour."),
    "samples": Metric("counter", "Samples learnt."),
    "readings_used": Metric("counter", "Rows of the stream that were used."),
    "readings_refused": Metric("counter", "Rows of the stream that could not be used.", "reason"),
    "dead_letters_lost": Metric("counter", "Refused rows that could not be written to the dead-letter file."),
    "rmse_rolling": Metric(
        "gauge", "Root mean squared error of the last 200 predictions, in the target's unit."
    ),
    "rmse_alone_rolling": Metric("gauge", "The same of predictions from own samples only."),
    "neighbour_up": Metric("gauge", "1 if the neighbour's messages arrive in time.", "neighbour"),
    "neighbour_trust": Metric("gauge", "Part of the neighbour's recent messages that was used.", "neighbour"),
    "neighbour_age_seconds": Metric("gauge", "Time since the neighbour's last message.", "neighbour"),
    "bytes_sent": Metric("counter", "Bytes handed to the transport."),
    "bytes_received": Metric("counter", "Bytes received from the transport."),
    "messages_refused": Metric("counter", "Messages that could not be used.", "reason"),
    "kernel_weight": Metric("gauge", "Weight of each kernel, or of each expert of an auto model.", "kernel"),
    "name_conflict": Metric("gauge", "1 while another agent runs under the same name."),
    "checkpoint_round": Metric("gauge", "Round of the last checkpoint."),
    "checkpoint_age_seconds": Metric("gauge", "Time since the state was last saved, or the start."),
    "saves_failed": Metric("counter", "Attempts to save the state that failed."),
    "readings_unjournalled": Metric("counter", "Readings that could not be written to the journal."),
    "alarms": Metric("counter", "Readings that were not what the learner expected; see alarm_rate."),
    "predictions_lost": Metric("counter", "Predictions that could not be written."),
}


@dataclass
class Status:
    """How the agent's loop is; the loop itself keeps it up to date."""

    alive_at: float = field(default_factory=time.monotonic)
    ready: bool = False  # has its neighbours, or has gone on without them
    faults: tuple[str, ...] = ()  # what keeps it from being ready although it learns

    def beat(self) -> None:
        """Say that the loop makes progress."""
        self.alive_at = time.monotonic()


class Service:
    """Serve until closed; needs prometheus-client.

    Parameters
    ----------
    address : host and port; port 0 takes a free one, see `address`.
    snapshot : called in another thread at each scrape; must not wait for the loop.
    patience : seconds without progress after which the agent counts as unhealthy.
    feed : what the live page shows; without one there is no page.
    more : further settings of `domkl.watch.Server`.
    """

    def __init__(
        self,
        address: tuple[str, int],
        status: Status,
        snapshot: Callable[[], Snapshot],
        patience: float = 30.0,
        feed: FeedLike | None = None,
        **more: Any,
    ) -> None:
        client = need("prometheus_client", "agent")
        registry = client.CollectorRegistry()
        client.ProcessCollector(registry=registry)
        registry.register(_Collector(snapshot))
        about = "Time from a sample to the end of its round."
        #: A histogram: call its `observe` with the seconds of each round.
        self.round_seconds = client.Histogram("domkl_round_seconds", about, buckets=BOUNDS, registry=registry)

        def metrics(_: Request) -> Answer:
            return Answer(HTTPStatus.OK, client.generate_latest(registry), client.CONTENT_TYPE_LATEST)

        routes = {
            "/healthz": lambda _: _health(status, patience),
            "/readyz": lambda _: _readiness(status),
            "/metrics": metrics,
        }
        self.server = Server(address, feed, routes=routes, note=Limited(LOG).warn, **more)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on."""
        return self.server.address

    def close(self) -> None:
        """Take no more requests and free the port; those under way have a moment to end. Twice is fine."""
        self.server.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def _health(status: Status, patience: float) -> Answer:
    age = time.monotonic() - status.alive_at
    if age <= patience:
        return Answer(HTTPStatus.OK, b"ok\n")
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no progress for %d s\n" % age)


def _readiness(status: Status) -> Answer:
    faults = status.faults if status.ready else ("waiting for neighbours", *status.faults)
    if not faults:
        return Answer(HTTPStatus.OK, b"ready\n")
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(faults).encode() + b"\n")


class _Collector:
    """What a snapshot has, for a registry of prometheus-client."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._core = need("prometheus_client.core", "agent")

    def describe(self) -> list[Any]:
        """Nothing: else the registry would take a snapshot before there is one."""
        return []

    def collect(self) -> Iterator[Any]:
        """One family for each metric that the snapshot has."""
        for name, value in self._snapshot().items():
            kind, about, label = METRICS[name]
            family = getattr(self._core, f"{kind.capitalize()}MetricFamily")
            made = family(f"domkl_{name}", about, labels=[label] if label else [])
            for key, number in value.items() if isinstance(value, Mapping) else [("", value)]:
                made.add_metric([key] if label else [], number)
            yield made
