"""Pages and modules that need an optional package are left out where it is not installed."""

from importlib.util import find_spec

_NEEDS = {"river": "river", "sklearn": "sklearn"}
collect_ignore = [
    path
    for package, name in _NEEDS.items()
    if find_spec(package) is None
    for path in (f"src/domkl/{name}.py", f"docs/howto-{name}.md")
]
