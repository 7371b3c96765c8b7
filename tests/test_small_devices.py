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


AUTO, NAMES, AUTO_INPUTS = domkl.Auto(size=96), "abcdefghijklmnop", 4
#: Of the width of the targets, 7. float32 rounds to 6e-8; sums over some hundred samples differ by this.
CLOSE = 1e-4


def auto_learner(name, *near):
    return domkl.Learner(AUTO, near, name=name, inputs=AUTO_INPUTS, engine="numpy", dtype=np.float32)


@pytest.fixture
def start(tmp_path, line):
    """Starts a device with `Auto`, called a, that has these neighbours."""
    made = []

    def start(board, *near):
        names = [NAMES.index(name) for name in near]
        devices = len(NAMES) if board == "host" else 8  # more than 8 need more RAM than the other board has
        header = loaded("settings", "auto").header(AUTO, AUTO_INPUTS, 0, names, devices)
        sources = sorted(str(path) for path in (FOLDER / "auto").glob("*.c"))
        stack = [] if board == "host" else ["-Wl,--defsym=STACK_SIZE=6K"]
        made.append(Device(board, tmp_path, header, sources, stack))
        return made[-1], line.AutoLine(made[-1], "a", near, auto_learner("like"), NAMES)

    yield start
    for device in made:
        device.close()


def samples(J, T):
    """Inputs of unlike scales, of which some are missing, and targets; each device sees another part."""
    rng, apart = np.random.default_rng(0), np.arange(J)[:, None, None] * [0.1, 5, 0, 0.3]
    X = rng.uniform(size=(J, T, AUTO_INPUTS)) * [1, 100, 3, 4] + apart
    y = np.sin(5 * X[..., 0]) + X[..., 1] / 50 + X[..., 2] * X[..., 3] / 10 + rng.normal(size=(J, T)) / 10
    X[rng.uniform(size=X.shape) < 0.02] = np.nan
    return X.astype(np.float32).astype(float), y.astype(np.float32).astype(float)


@pytest.mark.parametrize("board", BOARDS)
def test_a_device_alone_learns_as_numpy_does(board, start):
    device, port = start(board)
    alone, T = auto_learner("a"), 540 if device.is_quick else 26
    X, y = (values[0] for values in samples(1, T))
    y[2], y[20], y[200:201], y[300:] = 1e4, 1e4, -1e6, -y[300:]  # wrong labels, and another world
    found, expected = np.empty((2, T))
    for t in range(T):
        expected[t] = alone.predict(X[t])
        alone.observe(X[t], y[t])
        found[t], _ = port.sample(t, X[t], y[t])
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE * 7)
    assert np.ptp(found) > 2


class Hub:
    """A learner in the device's place."""

    def __init__(self):
        self.learner = auto_learner("a", "b", "c")

    def sample(self, t, x, y):
        return self.learner.predict(x), self.learner.observe(x, y)

    def update(self, t, name, update):
        self.learner.receive(name, update)

    def duals(self, t):
        return self.learner.state.lam[0, 0]


class Star:
    """A device in the middle, or a learner in its place, and the two learners b and c."""

    def __init__(self, port):
        self.port, self.learners = port, {name: auto_learner(name, "a") for name in "bc"}

    def round(self, t, X, y, lost=(), news=()):
        """What all predict, and their messages, of which those with c may be lost; b passes on news."""
        y_hat, sent = np.empty(3), {}
        for j, (name, one) in enumerate(self.learners.items(), 1):
            y_hat[j] = one.predict(X[j])
            sent[name] = one.observe(X[j], y[j])
        sent["b"] = sent["b"]._replace(news={**sent["b"].news, **dict(news)})
        y_hat[0], sent["a"] = self.port.sample(t, X[0], y[0])
        for name, one in self.learners.items():
            if ("a", name) not in lost:
                one.receive("a", sent["a"])
            if (name, "a") not in lost:
                self.port.update(t, name, sent[name])
            if one.waiting:
                one.close()
        if any(to == "a" for _, to in lost):
            self.port.close(t)
        return y_hat, sent

    def duals(self, t):
        """Of the device and of each learner. (3, K)"""
        return np.array([self.port.duals(t), *(one.state.lam[0, 0] for one in self.learners.values())])


def hard(J, T=150):
    """Samples by which a decides much: its first labels are close together, its errors repeat, c learns
    another function for a while, and inputs are missing altogether."""
    X, y = samples(J, T)
    slow = np.random.default_rng(1).normal(size=T) * 0.3
    for t in range(1, T):
        slow[t] += 0.95 * slow[t - 1]
    y[0] += slow
    y[0, :3] = y[1, 2] + [0, 0.2, 0.1]
    y[2, 24:56] += X[2, 24:56, 0] > 0.5
    X[0, :, 1:] = X[5, :, 1] = np.nan
    return X, y.astype(np.float32).astype(float)


def told(line, X, y, counts):
    """Summaries of d, e .. after so many samples each."""
    rows = np.concatenate([X, y[..., None]], -1)[3:]
    return {name: line.Summary.of(one[:n], n) for name, one, n in zip(NAMES[3:], rows, counts, strict=False)}


@pytest.mark.parametrize("board", BOARDS)
def test_a_device_with_auto_and_two_learners_are_a_network(board, start, line):
    device, port = start(board, "b", "c")
    stars, T = (Star(port), Star(Hub())), 150 if device.is_quick else 16
    X, y = hard(len(NAMES))
    # Of the others d is new at first, and p lags behind in the end.
    news = {4: told(line, X, y, [1]), 48: told(line, X, y, [64] * 12 + [40])}
    found, expected = (
        [star.round(t, X[:, t], y[:, t], news=news.get(t, ())) for t in range(T)] for star in stars
    )
    y_hat, like = (np.array([y_hat for y_hat, _ in rounds]).T for rounds in (found, expected))
    np.testing.assert_allclose(y_hat, like, rtol=0, atol=CLOSE * 7)
    numbers = [float(update.scalars[0]) for _, sent in (found[-1], expected[-1]) for update in sent.values()]
    assert numbers == [numbers[0]] * 6  # one scale
    assert numbers[0] > 0
    lam = stars[0].duals(T)
    assert np.abs(lam.sum(0)).max() < 1e-5 < 0.01 < np.abs(lam).max()


@pytest.mark.parametrize("board", BOARDS[:1])
def test_duals_cancel_though_messages_were_lost(board, start):
    _, port = start(board, "b", "c")
    star, T, rng = Star(port), 90, np.random.default_rng(1)
    X, y = samples(3, T)
    for t in range(T):
        lost = [("a", "c")] * (rng.uniform() < 0.3) + [("c", "a")] * (rng.uniform() < 0.3)
        star.round(t, X[:, t], y[:, t], lost if t < T - 5 else ())
    lam = star.duals(T)
    assert np.abs(lam.sum(0)).max() < 1e-5 < 0.01 < np.abs(lam).max()


@pytest.mark.parametrize("board", BOARDS[:1])
def test_a_device_with_auto_survives_what_no_gateway_sends(board, start, line):
    _, port = start(board, "b", "c")
    star, T, reasons = Star(port), 20, []
    X, y = samples(3, T)

    def refused(kind, t, values):
        port.send(line.Frame(kind, t, np.asarray(values, "<f4")))
        found = port.receive()
        assert found.type == line.REFUSED
        reasons.append(int(found.values[0]))

    for t in range(T):
        star.round(t, X[:, t], y[:, t])
    sent = star.learners["b"].observe(X[1, 0], y[1, 0])
    summary = auto_learner("b", "a").observe(X[1, 0], y[1, 0]).news["b"]

    refused(line.SAMPLE, T, [0, 0, 0, 0, np.nan])
    refused(line.SAMPLE, T, [0, np.inf, 0, 0, 1])
    refused(line.SAMPLE, T + 1, [0, 0, 0, 0, 1])
    refused(line.SAMPLE, T, [0, 0, 0, 1])
    refused(line.CLOSE, T, [])
    refused(line.UPDATE, T, np.zeros(109))
    port.sample(T, X[0, 0], y[0, 0])
    refused(line.SAMPLE, T, [0, 0, 0, 0, 1])
    refused(line.UPDATE, T, np.zeros(108))
    wrong = [
        sent._replace(theta=sent.theta * np.inf),
        sent._replace(theta=sent.theta + 1e7),
        sent._replace(scalars=np.array([0.5])),
        sent._replace(scalars=np.array([-1.0])),
        sent._replace(degree=2**20),
        sent._replace(news={"b": summary._replace(samples=1000)}),
        sent._replace(news={"b": summary._replace(low=summary.high + 1)}),
        sent._replace(news={"b": summary._replace(high=summary.high * np.nan)}),
    ]
    for update in wrong:
        port.update(T, "b", update)
        reasons.append(int(port.receive().values[0]))
    port.update(T, "a", sent._replace(edges={"a": sent.edges["a"]}))  # it is no neighbour of its own
    reasons.append(int(port.receive().values[0]))
    port.update(T, "b", sent)
    port.update(T, "b", sent)
    reasons.append(int(port.receive().values[0]))
    assert reasons == [1, 1, 100, 100, 100, 100, 100, 100, *[1] * 8, 100, 2]
    port.close(T)
    y_hat, _ = port.sample(T + 1, X[0, 1], y[0, 1])
    assert abs(y_hat - y[0, 1]) < 1.5


@pytest.mark.parametrize("board", BOARDS[:1])
def test_a_scale_of_no_width_makes_nothing_infinite(board, start, line):
    _, port = start(board, "b")
    learner, columns = auto_learner("b", "a"), AUTO_INPUTS + 1
    shape = np.full((line.QUANTILES, columns), 2**15, np.uint16)
    thin = line.Summary(512, np.zeros(columns), np.full(columns, 1e-150), shape)
    for t in range(40):
        y_hat, sent = port.sample(t, np.arange(AUTO_INPUTS), 5.0)
        assert np.isfinite([y_hat, *sent.theta[0]]).all()
        update = learner.observe(np.arange(AUTO_INPUTS), 5.0)
        learner.receive("a", sent)
        port.update(t, "b", update._replace(news=dict.fromkeys("bc", thin)) if t == 5 else update)
