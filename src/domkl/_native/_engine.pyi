from typing import Any

from numpy.typing import NDArray

from .._types import Array

def best() -> str: ...
def runs(isa: str) -> bool: ...

class Engine64:
    def __init__(
        self,
        V: Array,
        first: NDArray[Any],
        near: NDArray[Any],
        reverse: NDArray[Any],
        *,
        rho: float,
        eta: float,
        eta_g: float,
        mu: float,
        loss: str,
        delta: float,
        reg: float,
        rule: str,
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

class Engine32(Engine64): ...
