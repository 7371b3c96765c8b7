"""Times as people and programs read them."""

from __future__ import annotations

from datetime import datetime, timezone


def iso(seconds: float, timespec: str = "auto") -> str | None:
    """Seconds since 1970 in ISO 8601 and UTC; None for what no calendar has.

    >>> iso(1357016400.0), iso(0.5, "milliseconds"), iso(float("nan"))
    ('2013-01-01T05:00:00Z', '1970-01-01T00:00:00.500Z', None)
    """
    try:
        found = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat(timespec=timespec).replace("+00:00", "Z")
