"""The paper's tables II to IX, run again and set beside the printed figures.

tasks    what there is to run, and one task's figures
store    finished tasks on disk, so that an interrupted run goes on where it stopped
tables   mean and spread over trials, beside the printed value
claims   which of the paper's statements hold
"""

from __future__ import annotations

from .claims import Claim, judge
from .sheets import sheet
from .store import Store
from .tables import TABLES, Figure, summarise, table_of
from .tasks import DATASETS, NETWORKS, Rows, Task, digest_of, perform, plan, run_all

__all__ = [
    "DATASETS",
    "NETWORKS",
    "TABLES",
    "Claim",
    "Figure",
    "Rows",
    "Store",
    "Task",
    "digest_of",
    "judge",
    "perform",
    "plan",
    "run_all",
    "sheet",
    "summarise",
    "table_of",
]
