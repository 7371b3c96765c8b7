"""The learner that needs no settings: `simulate(..., preset="auto")`, `AutoLearner` on each device of a
network, and `Model` for one device alone.

Two joint second-order models (`domkl.newton`) of about 850 numbers each are averaged. Each mixes four
bandwidths in one set of frequencies; a third of its rows see the inputs on their range, a third softsigns of
the standardised inputs, a third ranks; of each third a quarter see two, four, eight, all inputs. The inputs
themselves and a constant join them.

The scale is taken from the stream (`warmup`). After 1, 2, 4, ... samples, until all learners have 320
together, and after 512 a learner takes the statistics of inputs and targets anew, builds its features anew,
and replays the samples it has kept; after that the scale is fixed and the samples are dropped. From the
first scale that all learners can know (the statistics of a round need as many rounds as the network's
diameter to reach everybody) they exchange theta; before it each learns alone, on the scale of its own and
its neighbours' statistics.

Edge weights are 1/min(deg_i, deg_j), so that no degree makes a learner slow (`ties`). On the device, Hedge
with fixed share chooses between its own theta, the mean of its neighbours', additive models of several
memories (`additive`), which few samples teach, and a blend. Where errors surge, the young memory begins
anew; where it is clearly better than the long one, it takes its place, and joint models that mislead start
again from the last samples (`watch`): this is how learners follow a change, all at once.
"""

from __future__ import annotations

from .experts import NAMES as EXPERT_NAMES
from .features import MODELS
from .handover import load, save
from .learner import AutoLearner
from .model import Model
from .network import Network, rounds
from .warmup import WARM_UP

__all__ = ["EXPERT_NAMES", "MODELS", "WARM_UP", "AutoLearner", "Model", "Network", "load", "rounds", "save"]
