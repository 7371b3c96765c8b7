"""The learner that needs no settings: `simulate(..., preset="auto")`, and `Model` for one device.

Two joint second-order models (`domkl.newton`) of about 850 numbers each are averaged. Each mixes four
bandwidths in one set of frequencies; half of its rows see the inputs on their range, half see a softsign of
the standardised inputs, half of either see four inputs only; the inputs themselves and a constant join them.

The scale is taken from the stream. After 1, 2, 4, ... 512 samples a learner takes the statistics of inputs
and targets anew, builds its features anew, and replays the samples it has kept; after that the scale is
fixed and the samples are dropped. From the first scale that all learners can know (the statistics of a round
need as many rounds as the network's diameter to reach everybody) they exchange theta; before it each is
alone.

Edge weights are 1/min(deg_i, deg_j), so that no degree makes a learner slow. On the device, Hedge with fixed
share chooses between its own theta, the average of its neighbourhood's (Metropolis weights), and a ridge
regression on its last samples (`window`). Where that is clearly better at half of the learners, all of
them at once start again from their last samples: this is how they follow a change.
"""

from __future__ import annotations

from .features import MODELS
from .model import Model
from .network import WARM_UP, Network, rounds

__all__ = ["MODELS", "WARM_UP", "Model", "Network", "rounds"]
