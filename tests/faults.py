"""Networks of real processes, and what can befall them; each scenario returns facts to judge it by."""

from __future__ import annotations

import json
import random
import signal
import time

import numpy as np

import domkl
from domkl.agent import checkpoint
from domkl.datasets import Split
from domkl.lab import fleet, trial
from domkl.lab.experiment import Experiment
from domkl.learner import schema
from domkl.models.settings import KernelSpec

KERNELS = KernelSpec(D=20, sigma2=(0.3, 3.0))
RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
FIRST = domkl.Paper(kernels=KERNELS, rates=RATES)
NEWTON = domkl.Paper(kernels=KERNELS, rates=RATES, step="newton")
AUTO = domkl.Auto(size=120)


def made(J, T, seed=0, d=3, graph="ring", model=FIRST, delay=0):
    """Learners that see the same function: an experiment, and its streams."""
    rng = np.random.default_rng(seed)
    X = rng.random((J, T, d))
    y = np.sin(4 * X[..., 0]) / 2 + X[..., 1] * X[..., 2] + 0.05 * rng.standard_normal((J, T))
    split = Split(X, y, tuple(f"l{j}" for j in range(J)), delay=delay)
    return Experiment("made", graphs=(graph,), model=model), trial.Source("made", split)


def simulated(experiment, source, payload="float64"):
    split, model = source.split, experiment.model
    how = {"delay": split.delay, "dtype": model.precision, "exchange": domkl.Exchange(payload)}
    return domkl.simulate(split.X, split.y, experiment.graphs[0], model=model, **how)


def sections(deadline=60.0, every=50, payload="float64", **more):
    """What a scenario adds to every configuration."""
    return {
        "payload": payload,
        "rounds": {"mode": "sync", "deadline": deadline, "start": 30.0, "resend": 0.2, **more},
        "checkpoint": {"directory": "{name}.ckpt", "every_rounds": every, "sync": False},
    }


def judged(net, experiment, source, payload="float64"):
    """The facts that every scenario ends with."""
    run = simulated(experiment, source, payload)
    predicted = [net.predictions(name) for name in net.names]
    y_hat = [np.array([each["y_hat"] for each in one]) for one in predicted]
    T, delay = source.split.y.shape[1], source.split.delay
    inputs = [t + max(0, t - delay) * (delay > 0) for t in range(T)]  # labels that come late take numbers too
    whole = all([each["index"] for each in one] == inputs for one in predicted)
    rounds = [np.array([each["round"] for each in one]) for one in predicted]
    everything = np.ones_like(source.split.y, bool)
    return {
        "whole": whole,
        "identical": whole and np.array_equal(y_hat, run.y_hat),
        "error_ratio": error_ratio(y_hat, run, source, everything) if whole else np.nan,
        "error_ratio_in_company": error_ratio(y_hat, run, source, in_company(rounds)) if whole else np.nan,
        "duals": duals(net),
        "learnt": [learnt(net, name) for name in net.names],
    }


def in_company(rounds):
    """Which predictions were made before the first learner came to its end: whoever was away learns the rest
    of its stream alone, the more of it the quicker the machine is. (J, T)"""
    return np.array(rounds) <= min(one[-1] for one in rounds)


def error_ratio(y_hat, run, source, which):
    """The error of some predictions, over that of the undisturbed network for the same samples."""
    disturbed, calm = ((np.asarray(found) - source.split.y) ** 2 for found in (y_hat, run.y_hat))
    return float(disturbed[which].mean() / calm[which].mean())


def saved(net, name):
    found = checkpoint.load(net.folder / f"{name}.ckpt")
    assert found is not None
    return found


def duals(net):
    """How far the duals of the whole network are from cancelling."""
    return float(np.abs(sum(lam(saved(net, name)) for name in net.names)).max())


def lam(found):
    """A saved learner's duals, of either model."""
    row = schema.read("learner", found.arrays, found.meta["learner"])["row"]
    if "consensus" in row:
        return row["consensus"]["lam"].astype(np.float64)
    return row["device"]["lam"] * row["unit"]


def learnt(net, name):
    """How many readings a learner has learnt."""
    found = saved(net, name)
    return schema.read("agent", found.arrays, found.meta["agent"])["readings"]


def undisturbed(folder, transport, J=5, T=60, payload="float64", **options):
    experiment, source = made(J, T, **options)
    names = fleet.lay_out(folder, experiment, source, transport, sections(payload=payload))
    with fleet.Fleet(folder, names) as net:
        net.start()
        net.wait(60)
        return judged(net, experiment, source, payload)


def killed(folder, transport, T, kills, J=3, seed=0, seconds=120.0, every=20, **options):
    """SIGKILL of random learners under load, spread over all rounds; each starts again at once."""
    experiment, source = made(J, T, **options)
    names = fleet.lay_out(folder, experiment, source, transport, sections(every=every))
    rng, done = random.Random(seed), 0
    with fleet.Fleet(folder, names) as net:
        net.start()
        end = time.monotonic() + seconds
        while done < kills and time.monotonic() < end:
            wait_for_rounds(net, names[0], (done + rng.random()) * T / (kills + 1), seconds)
            running = net.running
            if len(running) < J:  # somebody has come to the end of its stream
                break
            victim = rng.choice(running)
            net.kill(victim)
            net.start(victim)
            done += 1
        net.wait(max(10.0, end - time.monotonic()))
        return {"kills": done, **judged(net, experiment, source)}


def broker_restarted(folder, broker, T, times=1, away=1.0, J=3):
    """The broker is killed and starts again; nothing of the streams is lost."""
    experiment, source = made(J, T)
    transport = {"kind": "mqtt", "broker": broker.address}
    names = fleet.lay_out(folder, experiment, source, transport, sections())
    with fleet.Fleet(folder, names) as net:
        net.start()
        wait_for_rounds(net, names[0], 1)
        for _ in range(times):
            broker.kill()
            time.sleep(away)
            broker.start()
            time.sleep(0.5)
        net.wait(90)
        return judged(net, experiment, source)


def hung(folder, transport, T, seconds=3.0, deadline=1.0, J=4, rate=None, **options):
    """A neighbour that hangs, and comes back; at `rate` samples a second, or as many as can be learnt."""
    experiment, source = made(J, T, **options)
    names = fleet.lay_out(folder, experiment, source, transport, sections(deadline))
    with fleet.Fleet(folder, names, rate=rate) as net:
        net.start()
        wait_for_rounds(net, names[0], 10 if rate else 300)
        net.signal(names[-1], signal.SIGSTOP)
        stall = longest_stall(net, names[0], seconds)
        net.signal(names[-1], signal.SIGCONT)
        net.wait(90)
        return {"stall": stall, **judged(net, experiment, source)}


def longest_stall(net, name, seconds):
    """The longest time in which a learner predicted nothing."""
    path, end = net.folder / f"{name}.predictions.jsonl", time.monotonic() + seconds
    size, since, longest = path.stat().st_size, time.monotonic(), 0.0
    while time.monotonic() < end:
        time.sleep(0.005)
        now = time.monotonic()
        if path.stat().st_size != size:
            size, since = path.stat().st_size, now
        longest = max(longest, now - since)
    return longest


def wait_for_rounds(net, name, rounds, seconds=30.0):
    """Until a learner has gone through so many rounds."""
    path, end = net.folder / f"{name}.predictions.jsonl", time.monotonic() + seconds
    read, count = 0, 0
    while count <= rounds:
        assert time.monotonic() < end, f"{name} does not get there: {net.log(name).read_text()[-500:]}"
        time.sleep(0.02)
        if path.exists():
            with path.open("rb") as file:
                file.seek(read)
                new = file.read()
            read, count = read + len(new), count + new.count(b"\n")


def events(net, name):
    """What a learner has logged."""
    lines = net.log(name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
