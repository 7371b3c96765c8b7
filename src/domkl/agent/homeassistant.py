"""Home Assistant's MQTT discovery: an agent's prediction, bounds and alarm as entities of one device.

Home Assistant reads retained messages on `<prefix>/<component>/<id>/config`, one for each entity; an empty
one removes it. Their values come from the topic that predictions are published on, and whether they are
available from the learner's state, which the broker changes when the learner is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: What Home Assistant listens to unless it was told otherwise.
PREFIX = "homeassistant"
#: A number with five digits that count; "None" where there is none.
NUMBER = "{%% set v = value_json.get('%s') %%}{{ None if v is none else '%%.5g' | format(v) | float }}"
#: Each entity's component, and how its value is found in a prediction: there "None" is unknown, "" no change.
ENTITIES = {
    "predicted": ("sensor", NUMBER % "y_hat"),
    "low": ("sensor", NUMBER % "low"),
    "high": ("sensor", NUMBER % "high"),
    "alarm": ("binary_sensor", "{{ {true: 'ON', false: 'OFF'}.get(value_json.get('alarm'), '') }}"),
}
#: The forecasts as attributes: with times and bounds for charts, and the numbers alone, as emhass takes them.
CURVE = (
    "{{ {'lead': value_json.lead, 'forecast': value_json.forecast, "
    "'values': value_json.forecast | map(attribute='y_hat') | list} | tojson }}"
)
#: The learner's state is JSON while it runs, and plain "lost" when the broker found it gone.
AVAILABLE = "{{ 'online' if value_json is defined and value_json.state in ['init', 'ready'] else 'offline' }}"


@dataclass(frozen=True)
class Device:
    """What Home Assistant is told about an agent."""

    network: str
    name: str
    target: str
    predictions: str  # the topic of predictions
    state: str  # the topic that says whether the learner is there
    is_plain: bool = False  # it says "online" or "offline" there, which is not the learner's state
    unit: str = ""
    device_class: str = ""
    prefix: str = PREFIX
    has_curve: bool = False  # there is a horizon: its forecasts are an attribute

    @property
    def id(self) -> str:
        """Its identifier, from names that may have dots, which Home Assistant's ids may not."""
        return f"domkl_{_safe(self.network)}_{_safe(self.name)}"

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are written for Home Assistant alone."""
        return (*self.messages({}), *([self.state] if self.is_plain else []))

    def messages(self, wanted: Mapping[str, bool]) -> dict[str, bytes]:
        """Topics and retained payloads that announce the wanted entities and remove the others."""
        return {
            f"{self.prefix}/{component}/{self.id}_{entity}/config": (
                json.dumps(self._config(entity), ensure_ascii=False).encode() if wanted.get(entity) else b""
            )
            for entity, (component, _) in ENTITIES.items()
        }

    def _config(self, entity: str) -> dict[str, Any]:
        component, template = ENTITIES[entity]
        config: dict[str, Any] = {
            "name": f"{self.target} {entity}",
            "unique_id": f"{self.id}_{entity}",
            "state_topic": self.predictions,
            "value_template": template,
            "availability_topic": self.state,
            **({} if self.is_plain else {"availability_template": AVAILABLE}),
            "device": {
                "identifiers": [self.id],
                "name": f"{self.name} ({self.network})",
                "manufacturer": "domkl",
                "model": "learner",
            },
            "origin": {"name": "domkl"},
        }
        if component == "binary_sensor":
            return {**config, "device_class": "problem"}
        if entity == "predicted" and self.has_curve:
            config |= {"json_attributes_topic": self.predictions, "json_attributes_template": CURVE}
        given = {"unit_of_measurement": self.unit, "device_class": self.device_class}
        return {**config, "state_class": "measurement"} | {k: v for k, v in given.items() if v}


def _safe(name: str) -> str:
    """A name with signs that are allowed in an id; different names stay different.

    >>> _safe("station-3.b")
    'station-3_2eb'
    """
    return "".join(c if c.isalnum() or c == "-" else f"_{ord(c):02x}" for c in name)
