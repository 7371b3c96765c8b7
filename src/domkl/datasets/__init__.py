"""Datasets: the paper's UCI sets, a small set shipped with domkl, and your own tables.

>>> from domkl.datasets import load_stations
>>> load_stations(horizon=6).X.shape  # three airports, hours, features
(3, 8700, 15)
"""

from .columns import CellError, Columns
from .dataset import Dataset, Split, embed
from .encoder import Encoded, Encoder
from .stations import load_stations
from .table import Table, read_table
from .uci import Entry, catalogue, fetch, load

__all__ = [
    "CellError",
    "Columns",
    "Dataset",
    "Encoded",
    "Encoder",
    "Entry",
    "Split",
    "Table",
    "catalogue",
    "embed",
    "fetch",
    "load",
    "load_stations",
    "read_table",
]


def __dir__() -> list[str]:
    return __all__
