"""The command `domkl`: parsing, and errors as one line with exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .. import __version__
from ..base.errors import Error


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; argparse would print the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        wrong = re.fullmatch(r"argument (.+): invalid (int|float) value: (.+)", message)
        if wrong is not None:
            option, kind, value = wrong.groups()
            message = f"{option} is {value}; expected a {'whole ' if kind == 'int' else ''}number"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Like argparse, with the nearest option for one that there is not."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self._commands().get(getattr(found, "command", None) or "", self)
            known = [text for action in command._actions for text in action.option_strings]
            command.error(f"{unknown[0]!r} is not understood{_meant(unknown[0].split('=')[0], known)}")
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A value that is not among some, with the nearest of them."""
        if action.choices is not None and value not in action.choices:
            name = action.option_strings[-1] if action.option_strings else action.metavar or action.dest
            from ..base import checks  # which imports NumPy, whose threads are chosen before

            meant = checks.hint(value, map(str, action.choices))
            raise argparse.ArgumentError(None, f"{name} is {value!r}; {meant}")

    def _commands(self) -> dict[str, argparse.ArgumentParser]:
        inner = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        return {name: command for action in inner for name, command in action.choices.items()}


def _meant(text: str, known: list[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class _Version(argparse.Action):
    """Prints the version, and what computes here."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        from ..engines import describe

        print(f"domkl {__version__} ({describe()})")
        parser.exit()


#: In the order of the help; each is a module of this package.
OFFLINE = ("run", "predict", "explain", "compare", "inspect")
DEVICES = ("init", "agent", "up", "graph", "certs", "telegraf")
COMMANDS = (*OFFLINE, *DEVICES, "reproduce", "data", "bench", "completion")


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """All commands and their options; of one that there is, only its own, so that it starts sooner."""
    top = _Parser(prog="domkl", description="Decentralised online learning with multiple kernels.")
    top.add_argument("--version", action=_Version, nargs=0, help="version, and the engine that computes here")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for name in (command,) if command in COMMANDS else COMMANDS:
        importlib.import_module(f"{__name__}.{name}").add_to(commands)
    return top


def declare(
    commands: Any,
    name: str,
    text: str,
    act: Callable[[argparse.Namespace], None],
    more: str = "",
    *,
    epilog: str = "",
    json: str | None = "",
) -> Callable[..., Any]:
    """Add a command, with --json unless that is None; what is returned adds its other options."""
    how = {"epilog": epilog, "formatter_class": argparse.RawDescriptionHelpFormatter} if epilog else {}
    told = f"{text[0].upper()}{text[1:]}. {more}".strip()
    command = commands.add_parser(name, help=text, description=told, **how)
    command.set_defaults(act=act)
    if json is not None:
        command.add_argument(
            "--json", action="store_true", help=f"{json}one JSON document on standard output"
        )
    add: Callable[..., Any] = command.add_argument
    return add


def _spare_threads() -> None:
    """Give NumPy, not imported yet, one thread: matrices are small here, and waiting threads cost more."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it went well, 2 if what was given cannot be used."""
    argv = sys.argv[1:] if argv is None else argv
    _spare_threads()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # σ² and ° on a terminal that does not know them
    try:
        if not argv:
            parser().print_help()
            return 0
        args = parser(argv[0]).parse_args(argv)
        args.act(args)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except Error as error:
        from ..base.words import visible

        print(f"domkl: {visible(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("domkl: stopped", file=sys.stderr)
        return 130
    except MemoryError:
        print("domkl: there is too little memory; expected less data or a larger machine", file=sys.stderr)
        return 2
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
