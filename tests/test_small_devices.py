"""The C core of device/, on this machine and on a Cortex-M3 under QEMU: the numbers of NumPy in float32."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import domkl

FOLDER = pathlib.Path(__file__).parent.parent / "device"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="not a checkout")
FILES = ["main.c", "domkl_paper.c", "frames.c"]
FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-ffp-contract=off"]
ARM = ["-mcpu=cortex-m3", "-mthumb", "-nostartfiles", "-specs=nano.specs", "-specs=nosys.specs", "-Tmps2.ld"]
QEMU = [
    "qemu-system-arm",
    "-M",
    "mps2-an385",
    "-nographic",
    "-monitor",
    "none",
    "-serial",
    "stdio",
    "-kernel",
]
D, INPUTS = 50, 8


def missing(*tools):
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


BOARDS = [
    pytest.param("host", marks=missing("cc")),
    pytest.param("mps2", marks=missing("arm-none-eabi-gcc", "qemu-system-arm")),
]


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def line():
    return loaded("line")


MODEL = domkl.Paper(kernels=domkl.KernelSpec(D=D), rates=domkl.Rates(0.5, 0.5, 5.0))


class Device:
    """The program on a board, with pipes as its serial line."""

    def __init__(self, board, folder, settings, degree):
        (folder / "settings.h").write_text(loaded("settings").header(settings, INPUTS, degree))
        sizes = ["-DDOMKL_KERNELS=17", f"-DDOMKL_FEATURES={D}", f"-DDOMKL_INPUTS={INPUTS}"]
        compiler = ["cc"] if board == "host" else ["arm-none-eabi-gcc", *ARM]
        sources = [*FILES, f"board_{board}.c", "-lm", "-I", str(folder), "-o", str(folder / "device")]
        subprocess.run([*compiler, *FLAGS, *sizes, *sources], cwd=FOLDER, check=True)
        start = [str(folder / "device")] if board == "host" else [*QEMU, str(folder / "device")]
        self.rounds = 30 if board == "host" else 6  # QEMU takes its time
        self.process = subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def read(self, n):
        return self.process.stdout.read(n)

    def write(self, data):
        self.process.stdin.write(data)

    def flush(self):
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def device(request, tmp_path):
    made = Device(request.param, tmp_path, MODEL, 1)
    yield made
    made.close()


@pytest.mark.parametrize("device", BOARDS, indirect=True)
def test_a_device_and_a_learner_are_a_network_of_two(device, line):
    rng, T = np.random.default_rng(0), device.rounds
    X = rng.uniform(size=(2, T, INPUTS)).astype(np.float32)
    y = (np.sin(3 * X[..., 0]) + X[..., 1]).astype(np.float32)
    expected = domkl.simulate(X, y, "path", model=MODEL, engine="numpy", dtype=np.float32)
    learner = domkl.Learner(MODEL, ["c"], inputs=INPUTS, engine="numpy", dtype=np.float32)
    port, y_hat = line.Line(device), np.empty((2, T))
    for t in range(T):
        y_hat[1, t] = learner.predict(X[1, t])
        mine = learner.observe(X[1, t], y[1, t])
        y_hat[0, t], its = port.sample(t, X[0, t], y[0, t], learner)
        port.update(t, mine)
        learner.receive("c", its)
    np.testing.assert_allclose(y_hat, expected.y_hat, rtol=0, atol=2e-5)
    assert np.ptp(y_hat) > 0.5


@pytest.mark.parametrize("device", BOARDS[:1], indirect=True)
def test_a_device_survives_what_no_gateway_sends(device, line):
    port, rng, reasons = line.Line(device), np.random.default_rng(0), []

    def refused(frame):
        port.send(frame)
        found = port.receive()
        assert found.type == line.REFUSED
        reasons.append(int(found.values[0]))

    learner = domkl.Learner(MODEL, ["c"], inputs=INPUTS, engine="numpy", dtype=np.float32)
    x, size = rng.uniform(size=INPUTS), 17 * 2 * D + 17
    device.write(rng.bytes(500).replace(b"dp", b"") + b"dp" + b"\xff" * 9)  # noise, and a length beyond all
    refused(line.Frame(line.SAMPLE, 0, np.append(x, np.nan)[: INPUTS + 1][::-1]))
    refused(line.Frame(line.SAMPLE, 5, np.append(x, 1.0)))
    refused(line.Frame(line.SAMPLE, 0, x))
    refused(line.Frame(line.UPDATE, 0, np.zeros(size)))
    whole = line.Frame(line.SAMPLE, 0, np.append(x, 1.0)).packed()
    device.write(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])  # damaged: passed over
    y_hat, first = port.sample(0, x, 1.0, learner)
    assert y_hat == 0
    refused(line.Frame(line.SAMPLE, 0, np.append(x, 1.0)))
    refused(line.Frame(line.UPDATE, 0, np.full(size, np.inf)))
    refused(line.Frame(line.UPDATE, 0, np.full(size, 1e30)))
    refused(line.Frame(line.UPDATE, 2**32 - 1, np.zeros(size)))
    refused(line.Frame(77, 0, np.zeros(1)))
    port.update(0, first)
    refused(line.Frame(line.UPDATE, 0, np.zeros(size)))
    y_hat, _ = port.sample(1, x, 1.0, learner)
    assert 0 < y_hat < 1
    assert reasons == [1, 100, 100, 100, 100, 1, 1, 100, 100, 100]
