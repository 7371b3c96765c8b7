"""Write docs/images/stations.png: the error over time of `domkl run`, as its report draws it."""

from __future__ import annotations

from pathlib import Path

from domkl.lab import experiment, trial
from domkl.lab.report import figures

TARGET = Path(__file__).parent.parent / "docs" / "images" / "stations.png"


def main() -> None:
    chosen = experiment.load("three-stations")
    outcome = trial.carry_out(chosen, trial.prepare(chosen))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(figures.picture("error", outcome).png)


if __name__ == "__main__":
    main()
