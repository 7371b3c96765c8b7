"""Settings: TOML tables, and the environment over them, become frozen dataclasses.

A field's type is all that has to be said of a key: str, int, float, bool, tuple[str, ...], tuple[float, ...],
each perhaps "| None". Every error is one line that says where the value stands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from . import checks
from .errors import DataError, InputError

Section = TypeVar("Section")
Toml: TypeAlias = "dict[str, Any]"
Field: TypeAlias = "dataclasses.Field[Any]"

PREFIX = "DOMKL_"
KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str | float": (str, int, float),
    "str | Loss": (str,),
}


def read(path: Path, what: str, extra: str) -> Toml:
    """The tables of a TOML file; `extra` brings the reader that Python 3.10 lacks."""
    try:
        found: Toml = _toml(extra).loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}; expected {what}; mend the file") from None
    return found


def _toml(extra: str) -> Any:
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
    fields = fields_of(kind)
    for key, value in table.items():
        checks.one_of(f"{where} key", key, fields)
        check_type(f"{where} {key}", value, fields[key])
    _refuse_gaps(fields, {*table, *parts}, where)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return kind(**values, **parts)


def fields_of(kind: type[Any]) -> dict[str, Field]:
    return {field.name: field for field in dataclasses.fields(kind)}


def _refuse_gaps(fields: dict[str, Field], given: set[str], where: str) -> None:
    for name, field in fields.items():
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and name not in given:
            raise InputError(f"{where} has no {name}; expected {expected(field)}; add it")


def check_type(where: str, value: object, field: Field, remedy: str = "mend the file") -> None:
    """Refuse a value that is not of the type its field names."""
    kind, inner = _kind(field)
    if kind == "tuple":
        good = isinstance(value, list) and all(_is_a(inner, each) for each in value)
        good = good and (bool(value) or field.default == ())
    else:
        good = kind in KINDS and _is_a(kind, value)
    if not good:
        raise InputError(f"{where} is {value!r}; expected {expected(field)}; {remedy}")


def expected(field: Field) -> str:
    """What a field takes, in words."""
    kind, inner = _kind(field)
    if kind == "tuple":
        return f"a list of {inner}" if field.default == () else f"a list with one {inner} or more"
    return kind if kind in KINDS else "a section in [brackets]"


def _kind(field: Field) -> tuple[str, str]:
    kind, _, inner = str(field.type).removesuffix(" | None").removesuffix(", ...]").partition("[")
    return kind, inner


def _is_a(kind: str, value: object) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))


def whole(kind: type[Section], table: Toml, where: str, environ: Mapping[str, str]) -> Section:
    """A dataclass of sections from a file and the environment, which goes before the file.

    DOMKL_<SECTION>_<KEY> sets a key of a section and DOMKL_<KEY> one outside of them; a list has commas.
    """
    parts = sections_of(kind)
    found = tables(table, parts, where)
    plain = {key: value for key, value in table.items() if key not in found}
    made = {
        name: _one(part, found.get(name, {}), f"{where} [{name}]", f"{PREFIX}{name.upper()}_", environ)
        for name, part in parts.items()
    }
    return _one(kind, plain, where, PREFIX, environ, made)


def sections_of(kind: type[Any]) -> dict[str, type[Any]]:
    """The fields of a dataclass that are dataclasses themselves."""
    made: dict[str, Any] = {name: field.default_factory for name, field in fields_of(kind).items()}
    return {name: made[name] for name in made if dataclasses.is_dataclass(made[name])}


def _one(
    kind: type[Section],
    table: Toml,
    where: str,
    prefix: str,
    environ: Mapping[str, str],
    parts: Mapping[str, Any] | None = None,
) -> Section:
    """A section, the environment's values over the file's; what it refuses is told with its place."""
    own = {name: field for name, field in fields_of(kind).items() if name not in (parts or {})}
    set_by = _variables(own, prefix, environ, strict=parts is None)
    values = {key: from_text(name, environ[name], own[key]) for key, name in set_by.items()}
    left = {key: value for key, value in table.items() if key not in values}
    place = f"{where} with {', '.join(set_by.values())}" if set_by else where
    try:
        return section(kind, left, where, **values, **(parts or {}))
    except InputError as error:
        named = str(error).startswith(where)
        raise InputError(str(error) if named else f"{place}: {error}") from None


def _variables(
    fields: Mapping[str, Field], prefix: str, environ: Mapping[str, str], strict: bool
) -> dict[str, str]:
    """Which variable sets which key; `strict` refuses a variable of this section that sets none."""
    names = {f"{prefix}{key.upper()}": key for key in fields}
    if strict:
        for name in sorted(name for name in environ if name.startswith(prefix)):
            if name not in names:
                raise InputError(f"the variable {name} sets nothing; {checks.hint(name, names)}")
    return {key: name for name, key in names.items() if name in environ}


def from_text(name: str, text: str, field: Field) -> Any:
    """The value of a variable's text, by its field's type; an empty text is None where that may be."""
    kind, inner = _kind(field)
    if not text and "None" in str(field.type):
        return None
    try:
        if kind == "tuple":
            value: object = [PARSERS[inner](part.strip()) for part in text.split(",") if part.strip()]
        else:
            value = PARSERS[kind](text)
    except ValueError:
        value = text
    check_type(f"the variable {name}", value, field, "mend the variable")
    return tuple(value) if isinstance(value, list) else value


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


PARSERS: dict[str, Callable[[str], object]] = {"str": str, "int": int, "float": float, "bool": _truth}
