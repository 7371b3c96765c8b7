"""How large the house is, and how many of its files one datum passes: two trees, the same measure.

    python benchmarks/rooms.py --before /tmp/old-rooms

Each tree is measured by its own `.venv/bin/python`. Files are traced: those in which a function ran, after
every module was imported. A sample is one `predict` and `learn` of a `DOMKL()` that has learnt 200; a reading
is ten rounds of two agents that read files, round 60 to 70; a CSV row is all of
`domkl run --data FILE --no-report`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent

MEASURE = r'''
import ast, asyncio, importlib, inspect, json, pathlib, pkgutil, re, sys, tempfile, threading
import numpy as np
import domkl

HOME = pathlib.Path(domkl.__file__).parent
work = pathlib.Path(tempfile.mkdtemp())
for module in pkgutil.walk_packages(domkl.__path__, "domkl."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

seen = set()
def note(frame, event, arg):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(str(HOME)) and frame.f_code.co_name != "<module>":
        seen.add(str(pathlib.Path(name).relative_to(HOME)))
def on():
    seen.clear(); threading.setprofile(note); sys.setprofile(note)
def off():
    sys.setprofile(None); threading.setprofile(None)
    return sorted(seen)

rng = np.random.default_rng(0)
X = rng.uniform(size=(300, 3)); y = X[:, 0] + np.sin(5 * X[:, 1])

def sample():
    model = domkl.DOMKL()
    for x, label in zip(X[:200], y[:200]):
        model.predict(x); model.learn(x, label)
    on(); model.predict(X[200]); model.learn(X[200], y[200])
    return off()

def reading():
    from domkl.agent import Agent, AgentConfig, transports
    from domkl.agent.config import load
    def agent(name, other):
        lines = "".join(json.dumps({"a": a, "b": b, "c": c, "y": t}) + "\n" for (a, b, c), t in zip(X, y))
        (work / f"{name}.jsonl").write_text(lines)
        path = work / f"{name}.toml"
        path.write_text(f"""network = "net"
name = "{name}"
neighbours = ["{other}"]
model = {{kind = "auto", size = 60}}
rounds = {{mode = "sync", deadline = 5.0, start = 5.0}}
stream = {{kind = "jsonl", path = "{work}/{name}.jsonl"}}
columns = {{target = "y"}}
transport = {{kind = "memory"}}
""")
        return Agent(load(path), out=lambda record: None)
    pair = [agent("a", "b"), agent("b", "a")]
    found = []
    async def watch():
        while pair[0].learner.round < 60:
            await asyncio.sleep(0)
        on()
        while pair[0].learner.round < 70:
            await asyncio.sleep(0)
        found.extend(off())
    async def main():
        await asyncio.wait_for(asyncio.gather(watch(), *(each.run() for each in pair)), 60)
    asyncio.run(main())
    return found

def csv():
    from domkl.cli import main
    table = work / "table.csv"
    table.write_text("a,b,c,y\n" + "".join(f"{a},{b},{c},{t}\n" for (a, b, c), t in zip(X, y)))
    on()
    try:
        main(["run", "--data", str(table), "--target", "y", "--no-report"])
    except SystemExit as end:
        if end.code: raise
    return off()

def rooms():
    found = {}
    for path in sorted(HOME.rglob("*.py")):
        parts = path.relative_to(HOME).parts
        room = found.setdefault(parts[0], {"files": 0, "lines": 0})
        room["files"] += 1; room["lines"] += len(path.read_text().splitlines())
    return found

def shape():
    """Longest list of parameters, public names of modules, and checks of a model's kind."""
    longest, public, kinds = (0, ""), 0, 0
    for path in sorted(HOME.rglob("*.py")):
        tree = ast.parse(path.read_text())
        public += sum(isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                      and not each.name.startswith("_") for each in tree.body)
        for each in ast.walk(tree):
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = each.args
                n = len(given.posonlyargs + given.args + given.kwonlyargs)
                longest = max(longest, (n, f"{path.relative_to(HOME)}:{each.name}"))
            kinds += (isinstance(each, ast.Call) and getattr(each.func, "id", "") == "isinstance"
                      and bool(MODELS.search(ast.unparse(each.args[1]))))
            kinds += isinstance(each, ast.Attribute) and each.attr == "kind" and ast.unparse(each.value) in (
                "Auto", "Paper", "settings.Auto", "settings.Paper", "cls")
    return longest, public, kinds

MODELS = re.compile(r"\b(Auto|Paper|AutoRows|PaperRow|AutoModel|PaperModel|PaperRows|HandedAuto|HandedPaper"
                    r"|SinglePaper|SingleRows|SingleAuto|Alone|SecondOrderState|Final)\b")

def fields():
    def count(value):
        if isinstance(value, (dict, list, tuple)):
            return sum(map(count, value.values() if isinstance(value, dict) else value))
        return 1
    return count(domkl.Learner(domkl.Auto(), [], name="a", inputs=3)._row.state())

longest, public, kinds = shape()
result = {"rooms": rooms(), "sample": sample(), "reading": reading(), "csv": csv(), "fields": fields(),
          "exported": len(domkl.__all__), "public": public, "longest": longest, "kinds": kinds}
print("MEASURED" + json.dumps(result))
'''


def measured(tree: pathlib.Path) -> dict:
    """What one tree's own Python says of it."""
    python = tree / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([python, "-c", MEASURE], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        build = [
            python,
            *["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"],
            folder,
            str(tree),
        ]
        wheel = subprocess.run(build, capture_output=True, text=True)
        if wheel.returncode:
            sys.exit(wheel.stderr[-3000:])
        size = sum(path.stat().st_size for path in pathlib.Path(folder).glob("*.whl"))
    found = json.loads(done.stdout.split("MEASURED", 1)[1])
    return {**found, "wheel": size}


def main() -> None:
    """Measure, write, and print a table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--before", type=pathlib.Path, help="a worktree of an earlier commit, installed")
    options.add_argument("--out", type=pathlib.Path, default=ROOT / "benchmarks" / "results" / "rooms.json")
    given = options.parse_args()
    trees = {"before": given.before, "after": ROOT} if given.before else {"after": ROOT}
    old = json.loads(given.out.read_text()) if given.out.exists() else {}
    result = {**old, **{name: measured(tree.resolve()) for name, tree in trees.items()}}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(lines(result)))


def lines(result: dict) -> list[str]:
    """The table, a line for each measure."""
    names = list(result)
    rows = {
        "lines": [sum(room["lines"] for room in result[n]["rooms"].values()) for n in names],
        "files": [sum(room["files"] for room in result[n]["rooms"].values()) for n in names],
        **{
            f"files that a {what} passes": [len(result[n][what]) for n in names]
            for what in ("csv", "reading", "sample")
        },
        "names of the package": [result[n]["exported"] for n in names],
        "public functions and classes": [result[n]["public"] for n in names],
        "longest list of parameters": [result[n]["longest"][0] for n in names],
        "fields of a state of Auto": [result[n]["fields"] for n in names],
        "checks of a model's kind": [result[n]["kinds"] for n in names],
        "bytes of the wheel": [result[n]["wheel"] for n in names],
    }
    for room in sorted({room for n in names for room in result[n]["rooms"]}):
        found = [result[n]["rooms"].get(room, {"files": 0, "lines": 0}) for n in names]
        rows[room] = [f"{each['lines']} in {each['files']}" for each in found]
    return [f"{'':30}" + "".join(f"{n:>16}" for n in names)] + [
        f"{what:30}" + "".join(f"{value!s:>16}" for value in values) for what, values in rows.items()
    ]


if __name__ == "__main__":
    main()
