"""The command `domkl`: parsing, and errors as one line with exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..base.errors import Error


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; argparse would print the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    from . import agent, bench, certs, compare, data, graph, inspect, reproduce, run, up

    top = _Parser(prog="domkl", description="Decentralised online learning with multiple kernels.")
    top.add_argument("--version", action="version", version=f"domkl {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (run, agent, up, graph, certs, reproduce, data, bench, compare, inspect):
        module.add_to(commands)
    return top


def _spare_threads(argv: Sequence[str]) -> None:
    """Give NumPy, not imported yet, one thread: its matrices are small here, and waiting threads cost more.

    `bench` measures NumPy as it is.
    """
    if list(argv[:1]) != ["bench"]:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it went well, 2 if what was given cannot be used."""
    _spare_threads(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # σ² and ° on a terminal that does not know them
    try:
        args = parser().parse_args(argv)
        args.act(args)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except Error as error:
        print(f"domkl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("domkl: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _silence()  # the reader has closed the pipe, as `head` does: no error
    except OSError as error:
        place = error.filename or "standard output"
        _silence()
        print(
            f"domkl: {place} cannot be used: {error.strerror or error}; "
            "expected a place to read from or write to; choose another",
            file=sys.stderr,
        )
        return 2
    return 0


def _silence() -> None:
    """Discard what is left in the buffer, so that Python prints no error at exit."""
    with contextlib.suppress(OSError, AttributeError):  # no real file, or none at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
