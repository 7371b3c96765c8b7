"""What an agent needs: numpy, msgspec and one transport."""

from __future__ import annotations

import subprocess
import sys

import faults
from domkl.lab import fleet

#: Nothing but these may be imported by an agent that saves nothing and serves nothing.
BLOCK = """
import sys
class Block:
    blocked = {blocked!r}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.blocked:
            raise ModuleNotFoundError(name + " is not there", name=name)
sys.meta_path.insert(0, Block())
sys.argv[0] = "domkl"
from domkl.cli import main
sys.exit(main())
"""
OTHERS = [
    *("cryptography", "joblib", "matplotlib", "mpi4py", "networkx", "paho", "prometheus_client"),
    *("pyarrow", "pymetis", "rich", "safetensors", "scipy"),
]


def agent(folder, *args, blocked=OTHERS):
    code = BLOCK.format(blocked=blocked)
    return subprocess.run(
        [sys.executable, "-c", code, "agent", *args], cwd=folder, capture_output=True, text=True, timeout=60
    )


def test_an_agent_runs_with_numpy_msgspec_and_zenoh_alone(tmp_path):
    experiment, source = faults.made(1, 30, graph="complete")
    fleet.lay_out(tmp_path, experiment, source, {"kind": "zenoh"}, faults.sections())
    done = agent(tmp_path, "l0.toml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "l0.predictions.jsonl").read_text().count("\n") == 30


def test_what_is_missing_is_named_with_its_install_line(tmp_path):
    experiment, source = faults.made(1, 5, graph="complete")
    fleet.lay_out(tmp_path, experiment, source, {"kind": "zenoh"})
    done = agent(tmp_path, "l0.toml", "--check", blocked=["msgspec"])
    assert done.returncode == 2
    assert "msgspec" in done.stderr
    assert "pip install" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
