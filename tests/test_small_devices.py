"""The C cores of device/, on this machine and on a Cortex-M3 under QEMU: the numbers of NumPy in float32."""

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


def loaded(name, folder="."):
    spec = importlib.util.spec_from_file_location(name, FOLDER / folder / f"{name}.py")
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

    def __init__(self, board, folder, header, sources, options=()):
        (folder / "settings.h").write_text(header)
        compiler = ["cc"] if board == "host" else ["arm-none-eabi-gcc", *ARM]
        files = [*sources, "frames.c", f"board_{board}.c", "-lm", "-iquote", str(folder)]
        program = str(folder / "device")
        subprocess.run([*compiler, *FLAGS, *options, *files, "-o", program], cwd=FOLDER, check=True)
        start = [program] if board == "host" else [*QEMU, program]
        self.is_quick = board == "host"  # QEMU takes its time
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
    sizes = ["-DDOMKL_KERNELS=17", f"-DDOMKL_FEATURES={D}", f"-DDOMKL_INPUTS={INPUTS}"]
    header = loaded("settings").header(MODEL, INPUTS, 1)
    made = Device(request.param, tmp_path, header, ["main.c", "domkl_paper.c"], sizes)
    yield made
    made.close()


@pytest.mark.parametrize("device", BOARDS, indirect=True)
def test_a_device_and_a_learner_are_a_network_of_two(device, line):
    rng, T = np.random.default_rng(0), 30 if device.is_quick else 6
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


# Auto


AUTO, NAMES, AUTO_INPUTS = domkl.Auto(size=96), ["a", "b", "c"], 4
#: Of the width of the targets. float32 rounds to 6e-8; sums over some hundred samples differ by this.
CLOSE = 1e-4


@pytest.fixture
def start(tmp_path):
    """Starts a device with `Auto`, called a, that has these neighbours."""
    made = []

    def start(board, *neighbours):
        names = [NAMES.index(name) for name in neighbours]
        header = loaded("settings", "auto").header(AUTO, AUTO_INPUTS, 0, names, 8)
        sources = sorted(str(path) for path in (FOLDER / "auto").glob("*.c"))
        stack = [] if board == "host" else ["-Wl,--defsym=STACK_SIZE=6K"]
        made.append(Device(board, tmp_path, header, sources, stack))
        return made[-1], loaded("line").AutoLine(made[-1], NAMES, "a", neighbours)

    yield start
    for device in made:
        device.close()


def samples(J, T):
    """Inputs of unlike scales, of which some are missing, and targets; each device sees another part."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(J, T, AUTO_INPUTS)) * [1, 100, 3, 4] + np.arange(J)[:, None, None] * [
        0.1,
        5,
        0,
        0.3,
    ]
    y = np.sin(5 * X[..., 0]) + X[..., 1] / 50 + X[..., 2] * X[..., 3] / 10 + rng.normal(size=(J, T)) / 10
    X[rng.uniform(size=X.shape) < 0.02] = np.nan
    return X.astype(np.float32).astype(float), y.astype(np.float32).astype(float)


def auto_learner(name, *neighbours):
    return domkl.Learner(AUTO, neighbours, name=name, inputs=AUTO_INPUTS, engine="numpy", dtype=np.float32)


@pytest.mark.parametrize("board", BOARDS)
def test_a_device_alone_learns_as_numpy_does(board, start):
    device, port = start(board)
    alone, T = auto_learner("a"), 600 if device.is_quick else 60
    X, y = (values[0] for values in samples(1, T))
    y[30], y[200:201], y[300:] = 1e4, -1e6, -y[300:]  # labels that are wrong, and another world
    expected, found = np.empty((2, T))
    for t in range(T):
        expected[t] = alone.predict(X[t])
        alone.observe(X[t], y[t])
        found[t], update = port.sample(t, X[t], y[t], alone)
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * 7)
    assert np.ptp(found) > 2


def together(port, learners, X, y, lost=()):
    """Rounds of a device and two learners; what all predicted, and the last messages."""
    y_hat, near = (
        np.empty(y.shape),
        {"a": port.neighbours, **{n: one.neighbours for n, one in learners.items()}},
    )
    for t in range(y.shape[1]):
        sent, any_learner = {}, learners["b"]
        for j, (name, one) in enumerate(learners.items(), 1):
            y_hat[j, t] = one.predict(X[j, t])
            sent[name] = one.observe(X[j, t], y[j, t])
        y_hat[0, t], sent["a"] = port.sample(t, X[0, t], y[0, t], any_learner)
        arrives = [(to, by) for to in near for by in near[to] if (t, to, by) not in lost]
        for to, by in arrives:
            if to == "a":
                port.update(t, by, sent[by], any_learner)
            else:
                learners[to].receive(by, sent[by])
        for name in near:
            if len(near[name]) > sum(to == name for to, _ in arrives):
                (port.close(t) if name == "a" else learners[name].close())
    return y_hat, sent


def duals(port, learners, T):
    """Those of the device and of each learner. (3, K)"""
    return np.array([port.duals(T), *(one.state.lam[0, 0] for one in learners.values())])


@pytest.mark.parametrize("board", BOARDS)
def test_a_device_with_auto_and_two_learners_are_a_network(board, start):
    device, port = start(board, "b", "c")
    T = 200 if device.is_quick else 40
    X, y = samples(3, T)
    learners = {"b": auto_learner("b", "a"), "c": auto_learner("c", "a")}
    y_hat, sent = together(port, learners, X, y)
    expected = domkl.simulate(X, y, [("a", "b"), ("a", "c")], model=AUTO, engine="numpy", dtype=np.float32)
    np.testing.assert_allclose(y_hat, expected.y_hat, rtol=0, atol=CLOSE * 7)
    numbers = {float(update.scalars[0]) for update in sent.values()}
    assert len(numbers) == 1 and numbers != {0.0}  # one scale
    lam = duals(port, learners, T)
    assert np.abs(lam.sum(0)).max() < 1e-5 < 0.01 < np.abs(lam).max()
