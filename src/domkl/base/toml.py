"""Settings: TOML tables, and environment variables over them, become frozen dataclasses.

A dataclass is its own schema: fields are str, Secret, int, float, bool or tuples of these, each perhaps
"| None", and dataclasses for tables inside. It checks ranges itself. Every error is one line that says where
the value is.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from . import budget, checks, places
from .errors import DataError, InputError
from .secret import Secret

Section = TypeVar("Section")
Toml: TypeAlias = "dict[str, Any]"
#: The keys of a table: what each takes, or the keys of a table inside it.
Keys: TypeAlias = "dict[str, Key | Keys]"

PREFIX = "DOMKL_"
TABLE = "a section in [brackets]"
#: Whole numbers of TOML have 64 bits.
WHOLE = 2**63
#: Dots of a line, other than those in texts and comments: keys of so many parts are still read at once.
MOST_DOTS = 256
_TEXTS = re.compile(r'"""(?:\\[\s\S]|[^\\])*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#.*')


def read(path: Path, what: str, extra: str) -> Toml:
    """The tables of a TOML file; `extra` brings the reader that Python 3.10 lacks."""
    try:
        text = budget.read(path, budget.SETTINGS).decode()
        _refuse_deep(path, text)
        found: Toml = _reader(extra).loads(text)
    except OSError as error:
        remedy = places.near_file(path) or "fix its path or permissions"
        raise DataError(f"{path} cannot be read ({error.strerror}); expected {what}; {remedy}") from None
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read: {reason}; expected {what}; fix the file") from None
    return found


def _refuse_deep(path: Path, text: str) -> None:
    """Refuse keys with so many dots that tables of them take minutes, and gigabytes."""
    without = _TEXTS.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(without.splitlines(), 1):
        if line.count(".") > MOST_DOTS:
            raise DataError(
                f"{path}, line {number}: more than {MOST_DOTS} dots; expected keys of few parts; fix the file"
            )


def _reader(extra: str) -> Any:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    from .extras import need

    return need("tomli", extra)


def tables(table: Toml, known: Iterable[str], where: str) -> dict[str, Toml]:
    """The sections of a file, all of them known."""
    found = {key: value for key, value in table.items() if isinstance(value, dict)}
    for key in found:
        checks.one_of(f"{where} section", key, known)
    return found


def section(kind: type[Section], table: Toml, where: str, /, **parts: Any) -> Section:
    """A dataclass from one table; `parts` are the values that do not come from it."""
    keys = keys_of(kind)
    for key, value in table.items():
        checks.one_of(f"{where} key", key, keys)
        _check(f"{where} {key}", value, keys[key], "fix the file")
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and field.name not in {*table, *parts}:
            raise InputError(f"{where} has no {field.name}; expected {keys[field.name]}; add it")
    values = {key: _of_toml(value, keys[key]) for key, value in table.items()}
    try:
        return kind(**values, **parts)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _of_toml(value: Any, key: Key | Keys) -> Any:
    """A value as a dataclass has it."""
    if isinstance(key, Key) and key.is_secret and isinstance(value, str):
        return Secret(value)
    return tuple(value) if isinstance(value, list) else value


def keys_of(kind: type[Any]) -> Keys:
    """What a table of this dataclass may hold."""
    return _keys_of(kind)  # type: ignore[arg-type]


@functools.lru_cache  # types that are written as text take long to find
def _keys_of(kind: Any) -> Keys:
    hints = typing.get_type_hints(kind)
    return {field.name: _key(_members(hints[field.name]), field) for field in dataclasses.fields(kind)}


def _key(kinds: tuple[Any, ...], field: dataclasses.Field[Any]) -> Key | Keys:
    inner = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if inner:
        return {name: key for kind in inner for name, key in keys_of(kind).items()}  # type: ignore[arg-type]
    return Key(kinds, field.default == ())


def _members(hint: Any) -> tuple[Any, ...]:
    """The types of a union; of anything else, itself."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


class Key(NamedTuple):
    """What one key takes."""

    kinds: tuple[Any, ...]
    may_be_empty: bool = False  # where it is a list

    @property
    def is_secret(self) -> bool:
        """Whether nobody may see its value."""
        return Secret in self.kinds

    @property
    def item(self) -> Key | None:
        """What each item is, where the value is a list."""
        kind = self.kinds[0]
        return Key(typing.get_args(kind)[:1]) if typing.get_origin(kind) is tuple else None

    @property
    def named(self) -> Key | None:
        """What each value is, where the key is a table of any names."""
        kind = self.kinds[0]
        return Key(typing.get_args(kind)[1:]) if typing.get_origin(kind) is Mapping else None

    def takes(self, value: object) -> bool:
        """Whether a value of a TOML file is of the right type."""
        if self.named is not None:
            return isinstance(value, dict) and all(map(self.named.takes, value.values()))
        if self.item is not None:
            is_list = isinstance(value, list) and (bool(value) or self.may_be_empty)
            return is_list and all(map(self.item.takes, value))  # type: ignore[call-overload]
        if type(value) is int:
            return (int in self.kinds or float in self.kinds) and -WHOLE <= value < WHOLE
        return type(value) in self.kinds or (type(value) is str and self.is_secret)

    def parse(self, text: str) -> object:
        """The value of a variable's text: a list has commas; the text itself where it is of no right type."""
        if self.item is not None:
            return [self.item.parse(part.strip()) for part in text.split(",") if part.strip()]
        for read_as in (_truth, int, float):
            try:
                value = read_as(text)
            except ValueError:
                continue
            if self.takes(value):
                return value
        return text

    def __str__(self) -> str:
        if self.named is not None:
            return f"a table whose values are each {self.named}"
        if self.item is not None:
            return f"a list of {self.item}" if self.may_be_empty else f"a list with one {self.item} or more"
        named = [str if kind is Secret else kind for kind in self.kinds]
        known = (kind.__name__ for kind in named if kind in (str, int, float, bool))
        return " or ".join(dict.fromkeys(known))


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _check(where: str, value: object, key: Key | Keys, remedy: str) -> None:
    if isinstance(key, dict) or not key.takes(value):
        expected = TABLE if isinstance(key, dict) else f"{key}"
        expected += " of 64 bits" if type(value) is int and not -WHOLE <= value < WHOLE else ""
        is_secret = isinstance(key, Key) and key.is_secret
        shown = "hidden" if is_secret else checks.short(value)
        raise InputError(f"{where} is {shown}; expected {expected}; {remedy}")
    if isinstance(value, str) and "\0" in value:  # in a path, which nothing can open
        raise InputError(f"{where} has a zero byte; expected text without; {remedy}")


def override(table: Toml, keys: Keys, environ: Mapping[str, str], where: str, section: str = "") -> str:
    """Write variables over a table: DOMKL_<KEY>, or DOMKL_<SECTION>_<KEY>, which must be one of the keys.

    An empty variable removes a key that may be absent. Returns `where`, with the names of the variables.
    """
    prefix = f"{PREFIX}{section.upper()}_" if section else PREFIX
    known = dict(_variables(keys, prefix))
    found = sorted(name for name in environ if name in known or (section and name.startswith(prefix)))
    for name in found:
        if name not in known:
            raise InputError(f"the variable {name} sets nothing; {checks.hint(name, known)}")
        (*outer, last), key = known[name]
        inner = table.setdefault(outer[0], {}) if outer else table
        if isinstance(inner, dict):  # else the file is wrong, and refused when the table is read
            _write(inner, last, name, environ[name], key)
    return f"{', '.join(found)} over {where}" if found else where


def _variables(keys: Keys, prefix: str, *path: str) -> Iterator[tuple[str, tuple[tuple[str, ...], Key]]]:
    for name, key in keys.items():
        if isinstance(key, dict):
            yield from _variables(key, f"{prefix}{name.upper()}_", *path, name)
        else:
            yield f"{prefix}{name.upper()}", ((*path, name), key)


def _write(table: Toml, name: str, variable: str, text: str, key: Key) -> None:
    if not text and type(None) in key.kinds:
        table.pop(name, None)
        return
    table[name] = key.parse(text)
    _check(f"the variable {variable}", table[name], key, "fix the variable")
