"""The command `domkl`: parsing, and errors as one line with exit code 2."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..errors import Error


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; argparse would print the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    from . import data, reproduce, run

    top = _Parser(prog="domkl", description="Decentralised online learning with multiple kernels.")
    top.add_argument("--version", action="version", version=f"domkl {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (run, reproduce, data):
        module.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it went well, 2 if what was given cannot be used."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # σ² and ° on a terminal that does not know them
    try:
        args = parser().parse_args(argv)
        args.act(args)
        sys.stdout.flush()
    except Error as error:
        print(f"domkl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("domkl: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone, as `head` does: nothing is wrong, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
