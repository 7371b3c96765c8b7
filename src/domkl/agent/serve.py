"""An agent as a service: signals, a status line in the log, and what it tells others over HTTP.

These are /healthz, /readyz, /metrics, the live page and answers to questions. Requests are answered in
threads of their own, so the agent's loop never waits for one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..base.extras import need
from ..base.types import Array
from ..datasets.columns import CellError
from ..faces.saved import About
from ..learner import Learner
from ..learning import explain
from ..learning.explain import Function
from ..watch import Answer, Feed, FeedLike, Request, Server
from ..watch.access import Rate
from . import logs
from .config import AgentConfig
from .logs import Limited, tell
from .loop import READING, Agent, Status
from .output import Predictions
from .rows import JsonRows, RowRefused, fault_of
from .streams import Scaling, encoding_of

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
    "backlog": Metric("gauge", "Readings that have arrived and wait."),
    "backlog_age_seconds": Metric("gauge", "Time since the oldest of them arrived; 0 for a file that ends."),
    "dead_letters_lost": Metric("counter", "Refused rows that could not be written to the dead-letter file."),
    "rmse_rolling": Metric(
        "gauge", "Root mean squared error of the last 200 predictions, in the target's unit."
    ),
    "rmse_alone_rolling": Metric("gauge", "The same of predictions from own samples only."),
    "neighbour_up": Metric("gauge", "1 if the neighbour's messages arrive in time.", "neighbour"),
    "neighbour_trust": Metric("gauge", "Part of the neighbour's recent messages that was used.", "neighbour"),
    "neighbours_used": Metric("gauge", "Neighbours that are up and whose messages are mostly used."),
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


class Service(Server):
    """The page's server with health and metrics; needs prometheus-client.

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
        about = "Time from a reading's arrival to its prediction."
        #: The same of each prediction.
        self.prediction_seconds = client.Histogram(
            "domkl_prediction_seconds", about, buckets=BOUNDS, registry=registry
        )

        def metrics(_: Request) -> Answer:
            return Answer(HTTPStatus.OK, client.generate_latest(registry), client.CONTENT_TYPE_LATEST)

        routes = {
            "/healthz": lambda _: _health(status, patience),
            "/readyz": lambda _: _readiness(status),
            "/metrics": metrics,
        }
        super().__init__(address, feed, routes=routes, note=Limited(LOG).warn, **more)


def _health(status: Status, patience: float) -> Answer:
    if time.monotonic() - status.alive_at <= patience:
        return Answer(HTTPStatus.OK, b"ok\n")
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no progress\n")


#: All that /readyz ever says of what is wrong; where, and why, is in the log and on the page.
WORDS = (
    *("waiting for neighbours", "another agent runs under this name", "no connection to the broker"),
    *("state cannot be saved", "readings cannot be written to the journal", "readings cannot be read"),
    *("predictions cannot be written", "predictions cannot be sent"),
)


def _readiness(status: Status) -> Answer:
    faults = status.faults if status.ready else (WORDS[0], *status.faults)
    if not faults:
        return Answer(HTTPStatus.OK, b"ready\n")
    known = {fault.partition(":")[0] for fault in faults} & {*WORDS}
    said = "; ".join(word for word in WORDS if word in known) or "not ready"
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{said}\n".encode())


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


#: Seconds until the first look, and between two of them at least; if one takes long, so many times as long.
FIRST_LOOK, EXPLAIN_EVERY, REST = 5.0, 60.0, 100.0
#: The most inputs of a model of which single predictions are explained, and how many of those a second.
MOST_ASKED, A_SECOND = 100, 1.0


class Explaining:
    """Answers in the target's unit; inputs that were made from one column are one."""

    def __init__(self, config: AgentConfig) -> None:
        columns, encoder = encoding_of(config.columns, config.takes_missing)
        about = About() if encoder is None else About(encoder.inputs, columns=columns)
        self.is_possible = 0 < config.inputs <= explain.MOST_INPUTS and config.horizon is None
        self._answers, self._rate = 0 < config.inputs <= MOST_ASKED, Rate(A_SECOND, burst=3)
        self._named = about.groups(config.inputs)
        self._span = Scaling.of(config.stream, config.inputs).target_span

    def may_answer(self) -> bool:
        """Whether a prediction can be explained now; TimeoutError if too many are asked for."""
        if self._answers and not self._rate.take():
            raise TimeoutError
        return self._answers

    def overall(self, model: tuple[Function, Array]) -> list[list[Any]]:
        """Name, part, effect and direction of the inputs that matter most."""
        return explain.effects(*model, *self._named).listed(self._span)

    def of(self, model: tuple[Function, Array], x: Array) -> list[list[Any]]:
        """Name and contribution to the prediction of x, as it is learnt (d,); the largest first."""
        rows = explain.contributions(*model, x, *self._named).rows()[: explain.MOST]
        return [[row["input"], self._span * row["contribution"]] for row in rows]


@contextlib.asynccontextmanager
async def explained(agent: Agent) -> AsyncIterator[None]:
    """Meanwhile a page that shows readings shows which inputs matter, and a log that is asked to tells it."""
    task = asyncio.create_task(_show_inputs(agent, Explaining(agent.config)))
    try:
        yield
    finally:
        task.cancel()


async def _show_inputs(agent: Agent, explaining: Explaining) -> None:
    pause, every = FIRST_LOOK, _explain_every(agent)
    while every and explaining.is_possible:
        await asyncio.sleep(pause)
        model = agent.learner.as_function()
        if model is None:
            continue
        start, round = time.monotonic(), agent.learner.round
        try:
            found = await asyncio.to_thread(explaining.overall, model)
        except Exception as error:  # nothing that is only shown may cost more than that
            tell(LOG, logging.WARNING, "inputs cannot be explained", reason=repr(error))
            return
        if found:
            _tell_inputs(agent, round, found)
        pause = max(every, REST * (time.monotonic() - start))


def _explain_every(agent: Agent) -> float:
    """Seconds between two looks; 0 where nobody wants any."""
    asked, is_shown = agent.config.log.inputs, agent.predictions.feed is not None
    wanted = [EXPLAIN_EVERY] if is_shown and agent.config.http.publish == "full" else []
    return min([*wanted, *([asked] if asked else [])], default=0.0)


def _tell_inputs(agent: Agent, round: int, found: list[list[Any]]) -> None:
    if agent.predictions.feed is not None:
        agent.predictions.feed.explain(agent.config.name, round, found)
    if agent.config.log.inputs:
        tell(LOG, logging.INFO, "inputs", round=round, inputs=found)


#: Seconds to wait for the agent's loop.
PATIENCE = 2.0


class Asking:
    """Answers in the agent's own loop, between two of its steps; called from any other thread."""

    def __init__(self, config: AgentConfig, learner: Learner, predictions: Predictions) -> None:
        self._loop = asyncio.get_running_loop()
        self._learner, self._predictions, self._name = learner, predictions, config.name
        self._scaling = Scaling.of(config.stream, config.inputs, config.takes_missing)
        _, encoder = encoding_of(config.columns, config.takes_missing)
        self._parse, self._explaining = JsonRows(encoder, config.name), Explaining(config)

    def __call__(self, question: dict[str, Any]) -> dict[str, Any]:
        """A prediction for {"x": [..] or {"name": ..}}; TimeoutError if the loop is busy.

        With "explain": true also what each input adds to it, where the model can tell.
        """
        explains = question.get("explain", False)
        if not {*question} <= {"x", "explain"} or question.get("x") is None or not isinstance(explains, bool):
            raise InputError(
                f"the question has {checks.short(list(question))}; expected x, and perhaps explain, a truth "
                'value; send {"x": [1.5, 2]}'
            )
        x = self._inputs(question)
        answer, model = self._in_loop(x, explains and self._explaining.may_answer())
        return answer if model is None else {**answer, "inputs": self._explaining.of(model, x)}

    def _in_loop(self, x: Any, explains: bool) -> tuple[dict[str, Any], Any]:
        asked = asyncio.run_coroutine_threadsafe(self._answer(x, explains), self._loop)
        try:
            return asked.result(PATIENCE)
        except concurrent.futures.TimeoutError:
            asked.cancel()
            raise TimeoutError from None

    async def _answer(self, x: Any, explains: bool) -> tuple[dict[str, Any], Any]:
        y_hat = self._learner.ask(x)
        model = self._learner.as_function() if explains else None
        about = {"learner": self._name, "round": self._learner.round}
        return {**about, **self._predictions.described(y_hat)}, model

    def _inputs(self, question: dict[str, Any]) -> Any:
        try:
            row = self._parse(json.dumps({"x": question["x"]}, allow_nan=False).encode())
            x = np.array([self._scaling.checked(row).x], dtype=np.float64)
        except (RowRefused, CellError) as error:
            fault = fault_of(error)
            raise InputError(f"{fault.reason}; {fault.remedy}") from None
        except ValueError:
            raise InputError("x has a number that is not finite; expected finite ones; fix it") from None
        return self._scaling.x(x)[0]


#: Seconds between two status lines, and looks in between whether the stream has ended.
EVERY, LOOKS = 1.0, 20


async def serve(config: AgentConfig, warnings: Iterable[str] = ()) -> None:
    """Run an agent until its stream ends or it is asked to stop; `warnings` are written to its log."""
    logs.setup(config.log, config.name)
    for fact in warnings:
        logs.tell(LOG, logging.WARNING, fact)
    agent = Agent(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    async with _watched(agent):
        await agent.run()
    rows, lost = agent.rows, agent.lost_readings()
    reasons = [*rows.top(), *([f"{lost} {READING}, more than could wait"] if lost else [])]
    counts = {"rows": rows.read + lost, "used": rows.used, "refused": rows.total() + lost, "reasons": reasons}
    counts |= {"predictions_lost": agent.predictions.lost} if agent.predictions.lost else {}
    logs.tell(LOG, logging.INFO, "status", state="done", **agent.summary(), **counts)
    rows.refuse_useless(f"none of {rows.read} rows could be used")
    agent.predictions.lines.refuse_lost()


@contextlib.asynccontextmanager
async def _watched(agent: Agent) -> AsyncIterator[None]:
    address = agent.config.http.address
    task = asyncio.create_task(_tell_status(agent))
    try:
        with contextlib.nullcontext() if address is None else service_of(agent, address):
            async with explained(agent):
                yield
    finally:
        task.cancel()


def service_of(agent: Agent, address: tuple[str, int]) -> Service:
    """The live page, health and metrics of an agent, served until closed."""
    config, http = agent.config, agent.config.http
    feed = Feed(
        config.network,
        target=config.target,
        unit=config.output.unit,
        own=config.name,
        inputs=config.columns.features,
        publish=http.publish,
        alarming=config.output.alarm_rate is not None,
        past=agent.store.past,
    )
    answers = http.publish == "full" and config.horizon is None  # forecasts are of the last reading only
    asking = Asking(config, agent.learner, agent.predictions) if answers else None
    who: dict[str, Any]
    who = {"access": http.access(), "tls": http.context(config.transport)} if http.listen else {}
    service = Service(address, agent.status, agent.metrics, feed=feed, predict=asking, **who)
    agent.show_on(feed, service.round_seconds.observe, service.prediction_seconds.observe)
    logs.tell(LOG, logging.INFO, "serving the page, health and metrics", page=service.url)
    return service


async def _tell_status(agent: Agent) -> None:
    while True:
        agent.show_status()
        await _a_while(agent)
        logs.tell(
            LOG, logging.INFO, "status", state="ready" if agent.status.ready else "init", **agent.summary()
        )


async def _a_while(agent: Agent) -> None:
    """Until the next status line; if the stream ends meanwhile, others hear of it before we are gone."""
    for _ in range(LOOKS):
        was_done = agent.neighbourhood.done
        await asyncio.sleep(EVERY / LOOKS)
        if agent.neighbourhood.done and not was_done:
            agent.show_status()
