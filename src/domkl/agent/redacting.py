"""An agent's settings without their secrets."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..datasets.readers import queries
from ..watch.access import SHORTEST
from .config import AgentConfig

#: In place of a token where settings are shown; as long as one must be.
HIDDEN_TOKEN = "*" * SHORTEST


def redacted(config: AgentConfig) -> AgentConfig:
    """The same without passwords, tokens and what an address may hold of them, for what is shown."""
    hidden: dict[str, Any] = {
        name: dataclasses.replace(section, password="***")
        for name, section in (("stream", config.stream), ("transport", config.transport))
        if section.password is not None
    }
    if str(config.stream.path).startswith(queries.POSTGRES):
        address = f"{queries.POSTGRES[0]}***/{config.stream.shown}"
        hidden["stream"] = dataclasses.replace(config.stream, path=address)
    if config.http.token is not None:
        hidden["http"] = dataclasses.replace(config.http, token=HIDDEN_TOKEN)
    address, mark, _ = config.output.url.partition("?")
    if mark:
        hidden["output"] = dataclasses.replace(config.output, url=f"{address}?***")
    return dataclasses.replace(config, **hidden)
