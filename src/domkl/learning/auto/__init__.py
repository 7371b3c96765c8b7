"""The learner that needs no settings.

Two joint second-order models (`joint`) of about 850 parameters each are averaged. Each mixes four bandwidths
in one set of frequencies; a third of its rows see the inputs on their range, a third softsigns of the
standardised inputs, a third ranks; of each third a quarter see two, four, eight, all inputs (`features`). The
inputs themselves and a constant join them.

The scale is taken from the stream (`warmup`). After 1, 2, 4, ... samples, until all learners have 320
together, and after 512, a learner takes the statistics of inputs and targets again, builds its features
again, and replays the samples it has kept; after that the scale is fixed and the samples are dropped. From
the first scale that all learners can know (statistics of a round need as many rounds as the network's
diameter to reach everybody) they exchange theta; before it each learns alone, on the scale of its own and
its neighbours' statistics.

On the device, Hedge with fixed share (`experts`) chooses between its own theta, the mean of its neighbours',
what its own samples say alone and together with the common parameters (`own`), additive models of several
memories (`memories`, `additive`), which few samples teach, a blend, and an autoregressive correction
(`residual`). Where errors surge (`change`), the young memory resets; where it is clearly better than the long
one, it takes its place, and joint models reset to the last samples at those whom they mislead: this is how
learners follow a change. Where errors resemble each other, the common ridge is stronger (`dependence`).

All constants are in `constants`, with what they mean and how they were chosen.
"""

from __future__ import annotations

from .constants import VERSION, C, Constants, table
from .experts import NAMES as EXPERT_NAMES
from .rows import AutoRows

__all__ = ["EXPERT_NAMES", "VERSION", "AutoRows", "C", "Constants", "table"]
