"""Scale: one way of measuring inputs and targets that all devices of a network come to share.

What a device knows of others is a map device -> newest summary of samples, joined by taking the newer one: in
any order, twice or late, the result is the same. No round, size or shape of the network is in it. Between
devices whose scales have unequal numbers an edge rests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.types import Array
from ..fields import LARGEST, Concept, field

#: Numbers below this are exact in the float64 of a message.
EXACT = 2**53
#: No value counts as farther away than so many widths, ranges or deviations: false news may make a scale
#: narrow, and models stay finite in any.
FARTHEST = 1e9
#: Quantiles in a summary, the lowest and the highest value included.
QUANTILES = 17
#: Parts of a span, in which a summary has all between the lowest and the highest value.
UNIT = float(np.iinfo(np.uint16).max)
#: The number of a scale, and its means, deviations, lowest and highest values and quantiles. (4 + Q, c)
Numbered = tuple[int, Array]


class Summary(NamedTuple):
    """One device's samples in short; column by column, the inputs and then the targets.

    A column without a value has its low above its high, and tells others nothing.
    """

    samples: int  # that it is of
    low: Array  # (c,)
    high: Array  # (c,)
    shape: npt.NDArray[np.uint16]  # (QUANTILES, c) mean, deviation, inner quantiles, in parts of the span

    @classmethod
    def of(cls, values: Array, count: int = 1) -> Summary:
        """Of samples (n, c), NaN where a value is missing; `count` is what it says of their number."""
        found = np.sort(np.clip(values, -LARGEST, LARGEST), axis=0)  # NaN last
        n = np.maximum((~np.isnan(found)).sum(0), 1)
        is_empty = np.isnan(found[0])
        found[:, is_empty] = 0.0
        at = np.linspace(0, 1, QUANTILES)[:, None] * (n - 1)
        below = at.astype(int)
        lower, upper = (np.take_along_axis(found, np.minimum(k, n - 1), 0) for k in (below, below + 1))
        q = lower + (at - below) * (upper - lower)
        low, high = np.where(is_empty, LARGEST, q[0]), np.where(is_empty, -LARGEST, q[-1])
        span = np.where(high > low, high - low, 1.0)
        parts = np.clip((found - low) / span, 0, 1)
        mean = np.nansum(parts, 0) / n
        deviation = np.sqrt(np.nansum((parts - mean) ** 2, 0) / n)
        shape = np.vstack([mean, deviation, (q[1:-1] - low) / span])
        return cls(count, low, high, np.rint(np.clip(shape, 0, 1) * UNIT).astype(np.uint16))

    def widened(self, more: int) -> Summary:
        """With columns more, in which all samples are 0."""
        low, high = (np.pad(bound, (0, more)) for bound in (self.low, self.high))
        return Summary(self.samples, low, high, np.pad(self.shape, ((0, 0), (0, more))))

    @property
    def nbytes(self) -> int:
        """In a message."""
        return self.low.itemsize + self.low.nbytes + self.high.nbytes + self.shape.nbytes

    def key(self) -> bytes:
        """Equal for equal summaries."""
        return b"".join([str(self.samples).encode(), *(part.tobytes() for part in self[1:])])

    @classmethod
    def check(cls, parts: Sequence[Any], columns: int, most: int) -> Summary:
        """A neighbour's summary, or an `InputError` if it cannot be one."""
        count, *arrays = parts
        low, high, shape = map(np.asarray, arrays)
        fits = (
            low.shape == high.shape == (columns,)
            and shape.shape == (QUANTILES, columns)
            and low.dtype == high.dtype == np.float64
            and shape.dtype == np.uint16
        )
        if not fits or not 1 <= count <= most:
            raise InputError(f"a summary of {count} samples is odd; expected {columns} columns; drop it")
        most_value = np.maximum(np.abs(low), np.abs(high))
        is_empty = (low == LARGEST) & (high == -LARGEST)
        if not bool((most_value <= LARGEST).all() and ((low <= high) | is_empty).all()):
            raise InputError("a summary has bounds that are not finite or not in order; drop it")
        return cls(int(count), low, high, shape)

    def table(self) -> Array:
        """Mean, mean square deviation from it, and all quantiles, as numbers; NaN without a value.
        (2 + QUANTILES, c)"""
        span = self.high - self.low
        parts = self.shape / UNIT
        mean, deviation = self.low + parts[0] * span, parts[1] * span
        table = np.vstack([mean, deviation**2, self.low, self.low + parts[2:] * span, self.high])
        return np.where(span < 0, np.nan, table)


class Inputs(NamedTuple):
    """Inputs as a scale measures them, 0 where they are missing. (..., d) each"""

    ranges: Array  # from the mean, in ranges
    deviations: Array  # in standard deviations
    ranks: Array  # in [-0.5, 0.5]


class Scale(Concept):
    """What J devices know of each other's samples, and the scale that each has taken from it.

    A device publishes a summary after 1, 2, 4 .. `early` samples and after `last`. A scale pools summaries,
    which all count the same, whatever they claim: the median of means, trimmed means of variances and
    quantiles, and the range of all that is left. Where the joint scale does not suit the own samples, a
    device pools only the summaries that do: others' words can cost it the network, and no more. While it and
    a neighbour have one sample each, nothing can be judged, and only neighbours count.

    Examples
    --------
    Two devices that saw different values measure them alike once they have heard of each other.

    >>> import numpy as np
    >>> from domkl.learning.auto.scale import Scale
    >>> scale = Scale(names=["a", "b"], d=1, m=1, linked=[True, True])
    >>> X, Y = np.array([[[0.0], [8.0]], [[2.0], [4.0]]]), np.zeros((2, 2, 1))
    >>> scale.publish(np.array([2, 2]), X, Y)
    >>> for j, news in enumerate(scale.outgoing()):
    ...     _ = scale.hear(1 - j, news)
    >>> scale.take(np.array([3, 3]), X, Y, begins=np.zeros(2, bool)).tolist()
    [True, True]
    >>> bool(scale.number[0] == scale.number[1]), scale.span[:, 0].tolist()
    (True, [8.0, 8.0])
    """

    last: int = 512  # samples after which a device publishes for the last time; as many are kept
    early: int = 64  # it publishes after 1, 2, 4 .. samples up to this, without links up to `last`
    spread: int = 16  # samples that news is given to spread; who lags more behind the median does not count
    trim: int = 4  # one in so many of the lowest, and of the highest, values of each number is left out
    fits: float = 0.25  # part that the middle half of values must fill of another's, both ways, to suit
    few: int = 2  # own samples of which the middle half may fill `fits` times less than that
    limit: int = 1024  # devices that are remembered

    usable: npt.NDArray[Any] = field("J d", "bool", low=0, high=1)  # inputs that vary
    mean: Array = field("J d")
    deviation: Array = field("J d", first=1.0, low=1e-200)
    span: Array = field("J d", first=1.0, low=1e-200)
    quantiles: Array = field("J q d")
    center: Array = field("J m")  # of the targets
    width: Array = field("J m", first=1.0, low=1e-200)
    bottom: Array = field("J m")  # the range of the targets that the scale is of
    top: Array = field("J m")
    least: Array = field("J m", first=LARGEST)  # the range of the own targets
    most: Array = field("J m", first=-LARGEST)
    number: Array = field("J", low=0, high=EXACT)  # 0: no scale yet; equal numbers are equal scales
    # Rounds in which a neighbour had another scale, since all were alike.
    rounds_unlike: npt.NDArray[Any] = field("J", "int64", low=0)
    withdrawn: npt.NDArray[Any] = field("J", "bool", low=0, high=1)  # own samples are no measure for others
    changed: npt.NDArray[Any] = field("J", "bool", low=0, high=1)  # known is more than the scale is made of

    def __init__(
        self, names: Sequence[Hashable], d: int, m: int, linked: npt.ArrayLike, **chosen: float
    ) -> None:
        self.choose(chosen)
        self.names, self.linked, J = list(names), np.array(linked, bool), len(names)
        self.allocate(np.float64, J=J, d=d, m=m, q=QUANTILES)
        self.known: list[dict[Hashable, Summary]] = [{} for _ in range(J)]
        self.news: list[dict[Hashable, Summary]] = [{} for _ in range(J)]  # since the last message
        self.own: list[Summary | None] = [None] * J  # of the own samples, by which others are judged
        self.near: Sequence[Sequence[Hashable]] = [()] * J  # the names of each one's neighbours

    # Summaries

    def publish(self, counts: npt.NDArray[np.int_], X: Array, Y: Array) -> None:
        """Summarise the last samples (J, n, d), (J, n, m) of devices that have learnt 1, 2, 4 .. (J,)."""
        if counts.min() > self.last:
            return
        often = (counts <= self.early) | (counts == self.last) | ~self.linked
        due = is_power(counts) & (counts <= self.last) & often & ~self.withdrawn
        for j in np.flatnonzero(due).tolist():
            summary = Summary.of(np.concatenate([X[j], Y[j]], -1), int(counts[j]))
            self.own[j] = summary
            self.hear(j, {self.names[j]: summary})

    def hear(self, row: int, news: Mapping[Hashable, Summary]) -> None:
        """Join what is new to a row; of the row itself a neighbour may have news from an earlier life."""
        known = self.known[row]
        for name, new in news.items():
            old = known.get(name)
            if old is new:
                continue
            is_newer = old is not None and self._rank(row, new) > self._rank(row, old)
            if is_newer or (old is None and len(known) < self.limit):
                known[name] = self.news[row][name] = new
                self.changed[row] = True

    def _rank(self, row: int, one: Summary) -> tuple[int, bool, bytes]:
        """Of two summaries of one device the higher is kept: the newer, and of two of as many samples, one of
        which is a lie, the one that suits the own samples."""
        own = self.own[row]
        return one.samples, own is None or self._suits(one.table(), own), one.key()

    def outgoing(self) -> list[dict[Hashable, Summary]]:
        """What each row passes on in its next message, each piece once."""
        sent, self.news = self.news, [{} for _ in self.names]
        return sent

    def repeat(self) -> None:
        """Pass on everything known once more, to a neighbour that is new."""
        self.news = [dict(known) for known in self.known]

    def connect(self, names: Sequence[Hashable], near: Sequence[Sequence[Hashable]]) -> None:
        """These are the devices (J,) and the neighbours of each; a new one needs to hear all we know."""
        is_new = any({*now} - {*before} for now, before in zip(near, self.near, strict=True))
        self.names, self.near = list(names), [tuple(some) for some in near]
        if is_new:
            self.repeat()

    def link(self, linked: npt.NDArray[np.bool_]) -> None:
        """Which devices (J,) have neighbours."""
        self.linked[:] = linked

    def withdraw(self, rows: npt.NDArray[np.bool_]) -> None:
        """The samples of these rows (J,) are no measure for others any more."""
        self.withdrawn |= rows

    def keep(self) -> None:
        """Keep the scale for good, and nothing that it was made of."""
        self.known = [{} for _ in self.names]
        self.withdrawn[:], self.changed[:] = True, False

    def compare(self, heard: npt.NDArray[np.bool_], unlike: npt.NDArray[np.bool_]) -> None:
        """Note which rows (J,) had a message in this round, and which of them one with another scale.

        News may have been lost there: in the first, second, fourth, eighth .. such round, until all are
        alike, a row passes on everything again, and takes another scale if there was news.
        """
        rounds = self.rounds_unlike
        rounds[:] = np.where(unlike, rounds + 1, np.where(heard, 0, rounds))
        for j in np.flatnonzero(unlike & is_power(rounds)):
            self.news[j] = dict(self.known[j])

    # The scale

    def take(
        self, counts: npt.NDArray[np.int_], X: Array, Y: Array, begins: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Let devices take the scale of what they know, when it is time; which of them (J,) have another now.

        counts (J,) are the samples that each can learn again, X (J, n, d) and Y (J, n, m) hold them last;
        `begins` (J,): it has given up its past, so it is time.
        """
        young = counts <= self.last + self.spread  # its own samples may tell what suits it, without news
        if not (young | self.changed | begins).any():
            return begins
        power = 1 << np.maximum(np.frexp(counts.astype(float))[1] - 1, 0)
        lag = np.where(self.linked, np.minimum(power // 2, self.spread), 0)
        later = (counts > self.spread) & is_power(self.rounds_unlike)
        due = counts == power + lag
        at_once = later | (self.number == 0) | ~self.linked  # nobody else has to take the same
        rows = (due & (young | self.changed)) | (self.changed & at_once) | begins
        rows &= np.array([len(known) > 0 for known in self.known])
        made: dict[bytes, Numbered] = {}
        for j in np.flatnonzero(rows).tolist():
            count = int(counts[j])
            own = Summary.of(np.concatenate([X[j], Y[j]], -1)[-count:], count) if count else None
            number, table = self._joint(j, own, made)
            rows[j], self.changed[j] = number != self.number[j], False
            if rows[j]:
                self._set(j, number, table)
        return np.asarray(rows)

    def _joint(self, row: int, own: Summary | None, made: dict[bytes, Numbered]) -> Numbered:
        """The scale of the devices known to a row, or of those that suit its own samples, if it has any."""
        known = self.known[row]
        if own is None:
            return self._pooled(known, made)
        near = {name: known[name] for name in self.near[row] if name in known}
        if own.samples == 1 and min((one.samples for one in near.values()), default=1) == 1:
            known = {self.names[row]: known.get(self.names[row], own), **near}
        number, table = self._pooled(known, made)
        if not self._suits(table[2:], own):
            known = {name: one for name, one in known.items() if self._suits(one.table(), own)}
            number, table = self._pooled(known or {self.names[row]: own}, made)
        return number, table

    def _pooled(self, known: Mapping[Hashable, Summary], made: dict[bytes, Numbered]) -> Numbered:
        """The scale that these summaries make; `made` has those of other rows.

        Those with fewer samples than most do not count yet, unless news of more may be on its way.
        """
        typical = np.median([one.samples for one in known.values()])
        least = typical - min(typical / 2, self.spread)
        order = sorted((name for name, one in known.items() if one.samples >= least), key=repr)
        key = repr(order).encode() + b"".join(known[name].key() for name in order)
        if key not in made:
            made[key] = self._mean([known[name].table() for name in order])
        return made[key]

    def _mean(self, of: list[Array]) -> Numbered:
        """The scale of N devices' tables; each column's of those that have values in it."""
        tables = np.stack(of)  # (N, 2 + Q, c)
        known = ~np.isnan(tables[:, 0])
        pooled = np.zeros((tables.shape[1] + 2, tables.shape[2]))
        for each in np.unique(known, axis=1).T[:, :, None]:  # columns that the same devices have
            columns = (known == each).all(0)
            if each.any():
                pooled[:, columns] = self._middle(tables[each[:, 0]][:, :, columns])
        number = int.from_bytes(hashlib.sha256(pooled.tobytes()).digest()[:6], "big") + 1
        return number, pooled

    def _middle(self, tables: Array) -> Array:
        """The columns of a scale, made of N devices' tables (N, 2 + Q, c). (4 + Q, c)"""
        few = len(tables) // self.trim
        middle = np.median(tables[:, 0], axis=0)
        tables = np.sort(tables, axis=0)[few : len(tables) - few]
        variance = average(tables[:, 1]) + average((tables[:, 0] - average(tables[:, 0])) ** 2)
        low, high = tables[:, 2].min(0), tables[:, -1].max(0)
        return np.vstack([middle, np.sqrt(variance), low, high, average(tables[:, 2:])])

    def _suits(self, joint: Array, own: Summary) -> bool:
        """Whether the middle half of own values meets others' range, by the table of these (2 + Q, c), and
        neither half fills less than `fits` of the other, or they are constant or missing: in all targets and
        half of the inputs. That of few own values may well be narrow."""
        joint, mine = joint[2:], own.table()[2:]
        a = len(joint) // 4
        b = -1 - a
        wide, own_wide = joint[b] - joint[a], mine[b] - mine[a]
        meets = (mine[a] <= joint[-1]) & (mine[b] >= joint[0])
        least = self.fits ** (1 + self.few / own.samples)
        alike = (own_wide >= least * wide) & (wide >= self.fits * own_wide)
        good = (meets & alike) | ~(own_wide > 0) | np.isnan(wide)
        d = self.sizes["d"]
        return bool(good[d:].all() and 2 * good[:d].sum() >= d)

    def _set(self, j: int, number: int, table: Array) -> None:
        mean, deviation, low, high = table[:4]
        d, tiny = self.sizes["d"], 1e-200
        varies = (high - low > tiny) & (deviation > tiny)
        deviation, span = np.where(varies, [deviation, high - low], 1)
        self.number[j], self.usable[j], self.quantiles[j] = number, varies[:d], table[4:, :d]
        self.mean[j], self.deviation[j], self.span[j] = mean[:d], deviation[:d], span[:d]
        self.center[j], self.width[j], self.bottom[j], self.top[j] = mean[d:], span[d:], low[d:], high[d:]

    def widen_targets(self, m: int) -> None:
        """Have m targets from now on; the new ones were 0 so far, in all that is known."""
        more = m - self.sizes["m"]
        super().widen_targets(m)
        self.least[:, m - more :] = self.most[:, m - more :] = 0
        self.known = [{name: one.widened(more) for name, one in row.items()} for row in self.known]
        self.own = [None if own is None else own.widened(more) for own in self.own]
        self.repeat()

    def as_signs(self) -> None:
        """Targets were 0 or 1, and are -1 or 1 from now on."""
        self.width *= 2
        for name in ("center", "bottom", "top", "least", "most"):
            setattr(self, name, 2 * getattr(self, name) - 1)

    def note_targets(self, y: Array) -> None:
        """Widen the range of targets by new ones (J, m), NaN where one is missing."""
        np.fmin(self.least, y, out=self.least)
        np.fmax(self.most, y, out=self.most)

    # Use

    def inputs(self, x: Array, rows: Any = slice(None)) -> Inputs:
        """Inputs (R, ..., d) of these rows, measured."""
        fields = self.usable, self.mean, self.deviation, self.span, self.quantiles
        usable, mean, deviation, span, q = (at_rows(field[rows], x) for field in fields)
        usable = usable & ~np.isnan(x)
        away = np.where(usable, x, mean) - mean
        a, wide = q[..., :-1, :], q[..., 1:, :] - q[..., :-1, :]
        inner = (away + mean)[..., None, :] - a
        flat = wide <= 0
        part = np.minimum(np.maximum(inner / np.where(flat, 1, wide), 0), 1)
        if flat.any():
            part = np.where(flat, (1 + np.sign(inner)) / 2, part)
        rank = np.where(usable, np.add.reduce(part, -2) / part.shape[-2] - 0.5, 0)
        return Inputs(within(away / span), within(away / deviation), rank)

    def scaled(self, y: Array, rows: Any = slice(None)) -> Array:
        """Targets (R, ..., m) in widths around the centre."""
        return within((y - at_rows(self.center[rows], y)) / at_rows(self.width[rows], y))

    def bounds(self) -> tuple[Array, Array]:
        """The range of the targets of the scale and of the own ones, in widths, which predictions keep to."""
        low, high = np.minimum(self.least, self.bottom), np.maximum(self.most, self.top)
        return self.scaled(low), self.scaled(high)

    def unscaled(self, f: Array) -> Array:
        """Inverse of `scaled`. (J, ..., m)"""
        return at_rows(self.center, f) + at_rows(self.width, f) * f

    # State

    def state(self) -> dict[str, Any]:
        """Arrays, and the summaries of each row as lists."""
        known = [[[name, *one] for name, one in row.items()] for row in self.known]
        return {**super().state(), "known": known}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`; everything known is passed on once more."""
        super().restore(state)
        if not (self.number == np.floor(self.number)).all():
            raise InputError("Scale.number is no whole number; take another file")
        columns = self.sizes["d"] + self.sizes["m"]
        known = state["known"]
        if len(known) != len(self.names) or any(len(row) > self.limit for row in known):
            raise InputError(f"known has {len(known)} rows; expected {len(self.names)}; take another file")
        self.known = [{name: Summary.check(one, columns, self.last) for name, *one in row} for row in known]
        self.own = [row.get(name) for row, name in zip(self.known, self.names, strict=True)]
        self.repeat()


def average(values: Array) -> Array:
    """Mean over the first axis, added one after another.

    Numbers of scales rest on the last bit, and the order of NumPy's sums on how an array lies in memory.
    """
    return np.asarray(reduce(np.add, values) / len(values))


def is_power(counts: npt.NDArray[np.int_]) -> npt.NDArray[np.bool_]:
    """Which are 1, 2, 4, 8 .."""
    return np.asarray((counts > 0) & (counts & (counts - 1) == 0))


def within(values: Array) -> Array:
    """Values in widths, none of which is too far away."""
    return np.asarray(np.minimum(np.maximum(values, -FARTHEST), FARTHEST))


def at_rows(values: Array, like: Array) -> Array:
    """Values (R, ..) of each row, shaped to meet (R, ..., d)."""
    more = like.ndim - 2
    return values.reshape(len(values), *(1,) * more, *values.shape[1:]) if more else values
