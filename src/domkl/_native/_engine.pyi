from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array

def best() -> str: ...
def runs(isa: str) -> bool: ...
def limit(
    loop: str,
    isa: str,
    *,
    single: bool = False,
    seconds: float = 0.05,
    threads: int = 1,
    bytes: int = 0,
) -> float: ...

class Rates:
    def __init__(
        self,
        rho: float,
        eta: float,
        eta_g: float,
        mu: float,
        loss: str,
        delta: float,
        reg: float,
        rule: str,
    ) -> None: ...

class Network64:
    def __init__(
        self,
        V: Array,
        first: NDArray[Any],
        near: NDArray[Any],
        reverse: NDArray[Any],
        rates: Rates,
        *,
        keep: bool,
        threads: int,
        isa: str,
    ) -> None: ...
    def advance(
        self,
        x: Array,
        y: Array,
        history: int,
        delay: int,
        start: int,
        y_hat: Array,
        squares: Array,
        gaps: Array,
        kernel_squares: Array,
        kernel_gaps: Array,
        /,
    ) -> None: ...
    def state(self, theta: Array, lam: Array, /) -> None: ...
    def weights(self, L: Array, q: Array, /) -> None: ...

class Network32(Network64): ...

class Device64:
    def __init__(self, V: Array, deg: int, rates: Rates, *, isa: str) -> None: ...
    def predict(self, x: Any, /) -> float: ...
    def observe(self, x: Any, y: float, /) -> tuple[float, Array, Array]: ...
    def alone(self, x: Any, y: float, /) -> tuple[float, Array, Array, Array]: ...
    def columns(self, names: tuple[Any, ...], mean: Array, factor: Array, rows: Array, /) -> None: ...
    def ask(self, x: Any, /) -> float | None: ...
    def tell(self, x: Any, y: float, i: int, /) -> bool: ...
    def hear(self, i: int, theta: Array, /) -> None: ...
    def close(self, heard: NDArray[np.bool_], total: Array, q: Array, /) -> None: ...
    def state(self, theta: Array, lam: Array, theta_sum: Array, L: Array, q: Array, /) -> None: ...
    def keep(self, theta: Array, mu: Array, L: Array, q: Array, /) -> None: ...
    def resume(self, theta: Array, mu: Array, L: Array, q: Array, /) -> None: ...

class Device32(Device64): ...
