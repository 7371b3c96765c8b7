"""Slow, literal twins of what domkl does fast: one learner, one kernel, one edge at a time.

They follow the paper's lines and docs/auto.md, not our code: matrices are built and solved, nothing is
factored out. Of the package only `Auto`'s frequencies and the rounding of its summaries are used.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from domkl.learning.auto.features import Features
from domkl.learning.auto.scale import Summary


def z_of(V_p, x):
    """eq. (zv): the random features of one kernel."""
    return np.concatenate([np.sin(V_p @ x), np.cos(V_p @ x)]) / np.sqrt(len(V_p))


def loss_of(kind, s, y, delta=1.0):
    """A loss by its definition."""
    if kind == "squared":
        return (s - y) ** 2
    if kind == "logistic":
        return np.log1p(np.exp(-y * s)) if -y * s < 30 else -y * s
    r = abs(s - y)
    return r**2 if r <= delta else 2 * delta * r - delta**2


def theta_update(kind, z, y, theta, neighbours, lam, rho, eta, reg=0.0, delta=1.0):
    """eq. (theta-update): minimise over the whole 2D-vector, with matrices."""
    I = np.eye(len(z))
    A = eta * I
    b = eta * theta - lam
    for theta_i in neighbours:
        A = A + rho * I
        b = b + rho * (theta + theta_i) / 2
    A = A + 2 * reg * I
    if kind == "squared":
        return np.linalg.solve(A + 2 * np.outer(z, z), b + 2 * y * z)
    if kind == "logistic":
        return newton_logistic(A, b, z, y)
    return best_huber(A, b, z, y, delta)


def newton_logistic(A, b, z, y):
    """Newton's method on the 2D-dimensional problem; a step is halved until the gradient shrinks."""

    def gradient(v):
        return -y * z / (1 + np.exp(y * (v @ z))) + A @ v - b

    v = np.linalg.solve(A, b)
    for _ in range(60):
        p = 1 / (1 + np.exp(y * (v @ z)))
        move = np.linalg.solve(p * (1 - p) * np.outer(z, z) + A, gradient(v))
        size = 1.0
        while size > 1e-3 and np.linalg.norm(gradient(v - size * move)) > np.linalg.norm(gradient(v)):
            size /= 2
        v = v - size * move
    return v


def best_huber(A, b, z, y, delta):
    """Solve each of the loss's three pieces and keep the best point."""

    def objective(v):
        return loss_of("huber", v @ z, y, delta) + v @ A @ v / 2 - b @ v

    pieces = [
        np.linalg.solve(A + 2 * np.outer(z, z), b + 2 * y * z),
        np.linalg.solve(A, b - 2 * delta * z),
        np.linalg.solve(A, b + 2 * delta * z),
    ]
    return min(pieces, key=objective)


def normalised(log_w):
    w = np.exp(log_w - max(log_w))
    return w / sum(w)


def domkl(X, y, neighbours, V, rho, eta, eta_g, kind="squared", reg=0.0, delta=1.0, hedge="neighbours"):
    """Algorithm 2, learner by learner, kernel by kernel, edge by edge."""
    J, T, _ = X.shape
    P, D, _ = V.shape
    theta = np.zeros((J, P, 2 * D))
    lam = np.zeros((J, P, 2 * D))
    L = np.zeros((J, P))
    q = np.full((J, P), 1 / P)
    message = {(j, i): np.zeros(P) for j in range(J) for i in neighbours[j]}
    y_hat = np.zeros((J, T))
    cv = np.zeros(J)
    for t in range(T):
        new_theta, new_L = theta.copy(), L.copy()
        for j in range(J):
            z = [z_of(V[p], X[j, t]) for p in range(P)]
            y_hat[j, t] = sum(q[j, p] * (theta[j, p] @ z[p]) for p in range(P))
            gap = 0.0
            for i in neighbours[j]:
                gap += y_hat[j, t] - sum(q[i, p] * (theta[i, p] @ z[p]) for p in range(P))
            cv[j] += gap**2 / T
            for p in range(P):
                near = [theta[i, p] for i in neighbours[j]]
                new_theta[j, p] = theta_update(
                    kind, z[p], y[j, t], theta[j, p], near, lam[j, p], rho, eta, reg, delta
                )
                loss = loss_of(kind, theta[j, p] @ z[p], y[j, t], delta)
                new_L[j, p] += loss + reg * theta[j, p] @ theta[j, p]
        theta, L = new_theta, new_L
        for j in range(J):
            for p in range(P):
                for i in neighbours[j]:
                    lam[j, p] = lam[j, p] + rho / 2 * (theta[j, p] - theta[i, p])
        q = np.array([q_of(hedge, j, L, neighbours, message, eta_g) for j in range(J)])
        message = {
            (j, i): -L[j] / eta_g + sum(message[l, j] for l in neighbours[j] if l != i) for j, i in message
        }
    mse = ((y_hat - y) ** 2).mean(1)
    return {"y_hat": y_hat, "mse": mse, "cv": cv, "theta": theta, "lam": lam, "L": L, "q": q}


def touching_parabola(kind, s, y, delta=1.0):
    """Curvature and linear term of h/2 v^2 - b v that touches the loss at s: equal slopes there."""
    if kind == "squared":
        return 2.0, 2.0 * y
    if kind == "huber":
        h = 2.0 if abs(s - y) <= delta else 2 * delta / abs(s - y)
        return h, h * y
    h = 0.25 if abs(s) < 1e-4 else np.tanh(s / 2) / (2 * s)
    slope = -y / (1 + np.exp(y * s))
    return h, h * s - slope


def newton(X, y, neighbours, V, rho, eta, eta_g, kind="squared", reg=0.0, delta=1.0, hedge="neighbours"):
    """The second-order step: all past parabolas are kept, and every round solves with the whole matrix."""
    J, T, _ = X.shape
    P, D, _ = V.shape
    I = np.eye(2 * D)
    theta, lam = np.zeros((J, P, 2 * D)), np.zeros((J, P, 2 * D))
    M = np.array([[(eta + 2 * reg) * I for _ in range(P)] for _ in range(J)])
    m = np.zeros((J, P, 2 * D))
    L, q = np.zeros((J, P)), np.full((J, P), 1 / P)
    message = {(j, i): np.zeros(P) for j in range(J) for i in neighbours[j]}
    y_hat, cv = np.zeros((J, T)), np.zeros(J)
    for t in range(T):
        new_theta = theta.copy()
        for j in range(J):
            z = [z_of(V[p], X[j, t]) for p in range(P)]
            f = [[theta[i, p] @ z[p] for p in range(P)] for i in range(J)]
            y_hat[j, t] = q[j] @ f[j]
            cv[j] += sum(q[j] @ f[j] - q[i] @ f[i] for i in neighbours[j]) ** 2 / T
            for p in range(P):
                h, b = touching_parabola(kind, f[j][p], y[j, t], delta)
                M[j, p] += h * np.outer(z[p], z[p])
                m[j, p] += b * z[p]
                left, right = M[j, p].copy(), m[j, p] - lam[j, p]
                for i in neighbours[j]:
                    left += rho * I
                    right += rho * (theta[j, p] + theta[i, p]) / 2
                new_theta[j, p] = np.linalg.solve(left, right)
                L[j, p] += loss_of(kind, f[j][p], y[j, t], delta)
        theta = new_theta
        for j in range(J):
            for i in neighbours[j]:
                lam[j] = lam[j] + rho / 2 * (theta[j] - theta[i])
        q = np.array([q_of(hedge, j, L, neighbours, message, eta_g) for j in range(J)])
        message = {
            (j, i): -L[j] / eta_g + sum(message[l, j] for l in neighbours[j] if l != i) for j, i in message
        }
    mse = ((y_hat - y) ** 2).mean(1)
    return {"y_hat": y_hat, "mse": mse, "cv": cv, "theta": theta, "lam": lam, "L": L, "q": q}


def newton_on_changing_edges(X, y, V, rho, eta, edges_of, heard_in):
    """The second-order step of learners whose edges come and go, and whose messages are lost on some.

    `edges_of(t)` are the edges of round t, `heard_in(t)` those of them on which both ends hear each other.
    """
    J, T, _ = X.shape
    P, D, _ = V.shape
    I = np.eye(2 * D)
    theta, m = np.zeros((J, P, 2 * D)), np.zeros((J, P, 2 * D))
    S = np.zeros((J, P, 2 * D, 2 * D))
    lam, last = {}, {}  # of each edge, one way: its dual, and the estimate that was heard
    for t in range(T):
        ways = {way for a, b in edges_of(t) for way in ((a, b), (b, a))}
        lam = {way: lam.get(way, np.zeros((P, 2 * D))) for way in ways}
        last = {way: last.get(way, theta[way[0]]) for way in ways}
        new_theta = theta.copy()
        for j in range(J):
            for p in range(P):
                z = z_of(V[p], X[j, t])
                S[j, p] += 2 * np.outer(z, z)
                m[j, p] += 2 * y[j, t] * z
                left, right = S[j, p] + eta * I, m[j, p].copy()
                for way in ways:
                    if way[0] == j:
                        left += rho * I
                        right += rho * (theta[j, p] + last[way][p]) / 2 - lam[way][p]
                new_theta[j, p] = np.linalg.solve(left, right)
        theta = new_theta
        heard = {way for a, b in heard_in(t) for way in ((a, b), (b, a))}
        for j, i in ways:
            if (j, i) in heard:
                lam[j, i] = lam[j, i] + rho / 2 * (theta[j] - theta[i])
            last[j, i] = theta[i] if (j, i) in heard else theta[j]
    total = [sum([lam[way] for way in lam if way[0] == j], np.zeros((P, 2 * D))) for j in range(J)]
    return theta, np.array(total)


def q_of(hedge, j, L, neighbours, message, eta_g):
    """eq. (weight-update), and the remark's rule for trees."""
    if hedge == "local":
        return normalised(-L[j] / eta_g)
    if hedge == "neighbours":
        return normalised(-(L[j] + sum(L[i] for i in neighbours[j])) / eta_g)
    return normalised(-L[j] / eta_g + sum(message[l, j] for l in neighbours[j]))


def delayed_sums(per_round_losses, distance, t):
    """The remark's L_{j,t+1} on a tree: losses at distance zeta count up to round t - zeta.

    `per_round_losses` is (T, J, P), `distance` (J, J); returns (J, P) after rounds 1..t.
    """
    J, P = per_round_losses.shape[1:]
    total = np.zeros((J, P))
    for j in range(J):
        for i in range(J):
            total[j] += per_round_losses[: max(t - distance[j, i], 0), i].sum(0)
    return total


def oadmm(X, y, edges, V_p, rho, eta):
    """eqs. (theta_j), (zv), (lambdav): OADMM with the explicit matrices A and B, one kernel, squared loss.

    theta is the stack of all learners' vectors, gamma has one vector for each edge, lambda one for
    each end of an edge. Returns theta (J, 2D) and the learners' summed duals (J, 2D) after each round.
    """
    J, T, _ = X.shape
    K, E = 2 * len(V_p), len(edges)
    ends = [(j, e) for j in range(J) for e, edge in enumerate(edges) if j in edge]
    A, B = np.zeros((K * len(ends), K * J)), np.zeros((K * len(ends), K * E))
    for row, (j, e) in enumerate(ends):
        A[row * K : (row + 1) * K, j * K : (j + 1) * K] = np.eye(K)
        B[row * K : (row + 1) * K, e * K : (e + 1) * K] = -np.eye(K)
    theta, gamma, lam = np.zeros(K * J), np.zeros(K * E), np.zeros(K * len(ends))
    history = []
    for t in range(T):
        H, h = np.zeros((K * J, K * J)), np.zeros(K * J)
        for j in range(J):
            z = z_of(V_p, X[j, t])
            H[j * K : (j + 1) * K, j * K : (j + 1) * K] = 2 * np.outer(z, z)
            h[j * K : (j + 1) * K] = 2 * y[j, t] * z
        left = H + rho * A.T @ A + eta * np.eye(K * J)
        theta = np.linalg.solve(left, h - A.T @ lam - rho * A.T @ B @ gamma + eta * theta)
        gamma = np.linalg.solve(rho * B.T @ B, -B.T @ lam - rho * B.T @ A @ theta)
        lam = lam + rho * (A @ theta + B @ gamma)
        history.append((theta.reshape(J, K), (A.T @ lam).reshape(J, K)))
    return history


def omkl(X, y, V, mu, eta_g, reg=0.0):
    """The centralised comparator: gradient descent for each kernel, Hedge over them."""
    P, D, _ = V.shape
    theta, L, y_hat = np.zeros((P, 2 * D)), np.zeros(P), []
    for x_t, y_t in zip(X, y, strict=True):
        q = normalised(-L / eta_g)
        z = [z_of(V[p], x_t) for p in range(P)]
        f = [theta[p] @ z[p] for p in range(P)]
        y_hat.append(sum(q[p] * f[p] for p in range(P)))
        for p in range(P):
            L[p] += (f[p] - y_t) ** 2 + reg * theta[p] @ theta[p]
            theta[p] = theta[p] - mu * (2 * (f[p] - y_t) * z[p] + 2 * reg * theta[p])
    return np.array(y_hat), theta, L


def adaraker(X, y, V, eta):
    """AdaRaker: a learner for every interval i 2^k .. (i + 1) 2^k - 1, and weights, not their logs."""
    P, D, _ = V.shape
    alive, y_hat = [], []
    for t, (x_t, y_t) in enumerate(zip(X, y, strict=True), start=1):
        alive = [each for each in alive if t < each["end"]]
        for k in range(t.bit_length()):
            if t % 2**k == 0:
                rate = min(0.5, eta / np.sqrt(2**k))
                theta, kernel_w = np.zeros((P, 2 * D)), np.ones(P)
                alive.append({"end": t + 2**k, "rate": rate, "w": rate, "theta": theta, "kernel_w": kernel_w})
        z = [z_of(V[p], x_t) for p in range(P)]
        for each in alive:
            each["f"] = [each["theta"][p] @ z[p] for p in range(P)]
            each["guess"] = sum(each["kernel_w"] * each["f"]) / sum(each["kernel_w"])
        together = sum(each["w"] * each["guess"] for each in alive) / sum(each["w"] for each in alive)
        y_hat.append(together)
        for each in alive:
            each["w"] *= np.exp(-each["rate"] * ((each["guess"] - y_t) ** 2 - (together - y_t) ** 2))
            for p in range(P):
                each["kernel_w"][p] *= np.exp(-each["rate"] * (each["f"][p] - y_t) ** 2)
                each["theta"][p] -= each["rate"] * 2 * (each["f"][p] - y_t) * z[p]
    return np.array(y_hat)


def gaussian_kernel(x, other, sigma2):
    return np.exp(-np.sum((x - other) ** 2) / (2 * sigma2))


def laplacian_kernel(x, other, sigma2):
    return np.exp(-np.sum(np.abs(x - other)) / np.sqrt(sigma2))


def cauchy_kernel(x, other, sigma2):
    return np.prod(1 / (1 + (x - other) ** 2 / sigma2))


def alarms(y_hat, y, rate, A):
    """Surprise and alarm of each reading of one stream; `A` has the constants."""
    kept = [[], [], []]
    unit = long = up = down = repeats = step = debt = 0.0
    pause, out = 0, []
    for t in range(len(y)):
        n, size = t + 1, abs(y[t] - y_hat[t])
        u = max(unit, A.UNIT_LEAST * long)
        odd = size / u if u > 0 else 0.0
        signed = np.sign(y[t] - y_hat[t]) * min(odd, A.MOST)
        up, down = max(0, up + signed - A.ALLOWED), max(0, down - signed - A.ALLOWED)
        part = min(size, A.MOST * u) if n > A.LEAST and u > 0 else size
        unit += max(1 / n, A.RECENT) * (part - unit)
        part = min(size, A.MOST * long) if n > A.LEAST and long > 0 else size
        long += max(1 / n, A.LONG) * (part - long)
        if t:
            moved = abs(y[t] - y[t - 1])
            repeats = repeats + 1 if moved <= A.STILL * step else 0
            part = min(moved, A.MOST * step) if n > A.LEAST and step > 0 else moved
            step += max(1 / n, A.LONG) * (part - step)
        scores = odd, max(up, down), repeats
        tails = [tail_of(kept[k], scores[k], k == 2, A) for k in range(3)]
        surprise = min(1, 3 * min(tails))
        threshold = rate * np.exp(-A.PUSH * debt) * (A.AGAIN if pause else 1)
        alarm = bool(n > A.LEAST and surprise <= threshold)
        pause = max(pause - 1, 0)
        if not pause:
            for k in range(3):
                most = max(A.GROWTH * max(kept[k]), 1) if alarm else np.inf
                kept[k] = [*kept[k], min(scores[k], most)][-A.KEPT :]
            pause = A.PAUSE if alarm else 0
        up, down = (0, 0) if alarm else (up, down)
        debt = min(max(debt + alarm - rate, -A.CREDIT), A.DEBT) if n > A.LEAST else 0
        out.append((surprise, alarm))
    return out


def tail_of(kept, score, whole, A):
    """The part of scores that are as large; beyond the largest few, by a generalised Pareto distribution."""
    n, count = len(kept), sum(value >= score for value in kept)
    if n < A.LEAST or count >= A.FEW:
        return (count + 1) / (n + 1)
    part = max(int(np.ceil(A.TAIL * n)), A.FEW)
    ordered = sorted(kept)
    threshold, last = ordered[-part - 1], ordered[-A.FEW]
    excess = [value - threshold for value in ordered[-part:]]
    first = sum(excess) / part
    second = sum(e * (1 - (i + 1 - 0.35) / part) for i, e in enumerate(excess)) / part
    shape, scale = 0, max(first, 1)
    if not whole and first > 0:
        shape = 2 - first / (first - 2 * second) if first > 2 * second else np.inf
        shape = min(max(shape, A.SHAPES[0]), A.SHAPES[1])
        scale = first * (1 - shape)

    def beyond(x):
        if abs(shape) < 1e-6:
            return np.exp(-min(x / scale, 300))
        return max(1 + shape * x / scale, 1e-9) ** (-1 / shape)

    return (A.FEW + 1) / (n + 1) * beyond(score - threshold) / beyond(last - threshold)


def auto(X, y, size, seed=0, neighbours=None):
    """`Auto` as docs/auto.md has it, for J devices that exchange in step: X (J, T, d), y (J, T) -> y_hat.

    Sums run over all samples again in every round, and every matrix is inverted anew.
    """
    J, T, d = X.shape
    near = neighbours or [[] for _ in range(J)]
    devices = [AutoDevice(j, d, size, seed, near) for j in range(J)]
    y_hat = np.zeros((J, T))
    for t in range(T):
        for j, device in enumerate(devices):
            y_hat[j, t] = device.predict(X[j, t])
            device.learn(y[j, t])
        ends = {(j, i): dict(devices[j].ends[i]) for j in range(J) for i in near[j]}
        sent = [(device.theta, device.number) for device in devices]
        told = [device.news for device in devices]
        for j, device in enumerate(devices):
            device.news = {}
            device.listen({i: (*sent[i], ends[i, j]) for i in near[j]}, t)
        for j, device in enumerate(devices):
            for i in near[j]:
                device.join(told[i])
        for device in devices:
            device.end_round()
    return y_hat, devices


class AutoDevice:
    """One device; its samples are kept as lists and used whole."""

    RHO, ETA, KEEP = 0.4, 0.01, 1 - 1 / 200

    def __init__(self, name, d, size, seed, near):
        self.name, self.d, self.size = name, d, size
        self.drawn = Features(d, size, seed)
        self.edge = {i: 1 / min(len(near[name]), len(near[i])) for i in near[name]}
        self.weight = sum(self.edge.values()) if self.edge else 1.0
        self.tau = self.ETA / (len(self.edge) + 1) + self.RHO * self.weight
        self.X, self.Y = [], []  # the last 512 samples
        self.count = self.useful = self.fresh = 0
        self.known, self.news, self.changed, self.unlike = {}, {}, False, 0
        self.number, self.width, self.least, self.most = b"", 1.0, 1e150, -1e150
        K, end = self.drawn.K, {"number": 0, "theirs": 0, "moved": None, "before": None, "hoping": False}
        self.theta = self.near = self.own = self.side = np.zeros(K)
        self.ends = {i: {**end, "dual": np.zeros(K), "settled": np.zeros(K)} for i in self.edge}
        self.samples, self.judged = [], []
        self.past, self.large, self.low_y, self.high_y = [], [], 1e150, -1e150  # of the guard
        self.alarms, self.given_up, self.withdrawn = 0, 0, False
        self.forget_errors()

    def forget_errors(self):
        """First values of mixer, echo and recent."""
        self.log, self.expert_errors, self.mixed_age = np.log([0.6, 0.1, 0.1, 0.1, 0.1]), np.zeros(5), 0
        self.echoes, self.last, self.gain, self.r = [], np.zeros(2), np.zeros(2), 0.0
        self.noise, self.recent_age, self.usual = 0.02, 0, 0.0
        self.lately, self.beta, self.variance = [], 0.0, 0.005  # a variance for each group, later
        self.level, self.level_age, self.excess, self.since = 0.0, 0, 0.0, 0
        self.compared, self.compared_age, self.lasting = np.zeros(3), 0, 0

    # Scale, features and terms

    def join(self, news):
        for name, one in news.items():
            old = self.known.get(name)
            if old is None or (one.samples, one.key()) > (old.samples, old.key()):  # nobody lies here
                self.known[name] = self.news[name] = one
                self.changed = True

    def pooled(self, summaries):
        """Median over devices of means, trimmed means of the rest, and the range of what is left."""
        typical = np.median([one.samples for one in summaries])
        tables = np.sort([one.table() for one in summaries if 2 * one.samples >= typical], axis=0)
        middle, cut = np.median(tables[:, 0], axis=0), len(tables) // 4
        tables = tables[cut : len(tables) - cut]
        deviation = np.sqrt(tables[:, 1].mean(0) + tables[:, 0].var(0))
        ends = tables[:, 2].min(0), tables[:, -1].max(0)
        return np.vstack([middle, deviation, *ends, tables[:, 2:].mean(0)])

    def own_values(self, n):
        return np.column_stack([np.array(self.X), self.Y])[-n:]

    def suits(self, quantiles, own):
        """Whether the middle half of own values meets a range, and neither squeezes the other."""
        good = []
        for mine, joint in zip(own.table()[2:].T, quantiles.T, strict=True):
            wide, own_wide = joint[12] - joint[4], mine[12] - mine[4]
            meets = mine[4] <= joint[-1] and mine[12] >= joint[0]
            good.append((meets and own_wide >= wide / 4 and wide >= own_wide / 4) or own_wide <= 0)
        return good[-1] and 2 * sum(good[:-1]) >= self.d

    def take_scale(self, begins):
        """Take the scale of what is known, when it is time; whether it is another."""
        n, power = self.useful, 2 ** int(np.log2(self.useful))
        lag = min(power // 2, 16) if self.edge else 0
        due, later = n == power + lag, n > 16 and self.unlike > 0 and self.unlike & (self.unlike - 1) == 0
        news = self.changed and (due or later or not self.number or not self.edge)
        if not (news or (due and n <= 528) or begins):
            return False
        new = min([self.known[i].samples for i in self.edge if i in self.known], default=1) == 1
        near = {self.name, *self.edge} if n == 1 and new else {*self.known}
        known, own = [one for i, one in self.known.items() if i in near], Summary.of(self.own_values(n))
        table = self.pooled(known)
        if n > 1 and not self.suits(table[4:], own):
            table = self.pooled([one for one in known if self.suits(one.table()[2:], own)] or [own])
        self.changed = False
        if table.tobytes() == self.number:
            return False
        self.number, d = table.tobytes(), self.d
        self.mean, self.deviation, low, high = (row[:d] for row in table[:4])
        self.span, self.quantiles = high - low, table[4:, :d]
        wide = table[3, d] - table[2, d]
        self.center, self.width = table[0, d], wide if wide > 1e-200 and table[1, d] > 1e-200 else 1.0
        self.bottom, self.top = table[2, d], table[3, d]
        return True

    def measured(self, x):
        """Features z and terms b of one sample."""
        ranges, deviations, ranks = np.zeros((3, self.d))
        for i in range(self.d):
            if np.isnan(x[i]) or not (self.span[i] > 1e-200 and self.deviation[i] > 1e-200):
                continue
            ranges[i] = (x[i] - self.mean[i]) / self.span[i]
            deviations[i] = (x[i] - self.mean[i]) / self.deviation[i]
            parts = [
                np.clip((x[i] - a) / (b - a), 0, 1) if b > a else (1 + np.sign(x[i] - a)) / 2
                for a, b in itertools.pairwise(self.quantiles[:, i])
            ]
            ranks[i] = np.mean(parts) - 0.5
        u = [2 * np.clip(ranges, -1.5, 1.5), 1.9 * ranks]
        u, V = np.concatenate(u), self.drawn.V
        straight = u[: self.d] / np.sqrt(self.d) if 8 * self.d <= self.size else []
        z = np.concatenate([np.concatenate([np.sin(V @ u), np.cos(V @ u)]) / np.sqrt(len(V)), [1], straight])
        return z, self.terms(deviations)

    def terms(self, deviations):
        """Legendre polynomials of single inputs; `group` says whose coefficients they have."""
        d, most = self.d, max(2, int(1 / 7 * self.size))
        degree, single = min(max((most - 1) // (2 * d), 1), 4), min(d, most - 1)
        v = (deviations / 2) / np.sqrt(1 + (deviations / 2) ** 2)
        P = [np.polynomial.legendre.Legendre.basis(n)(v) for n in range(5)]
        b, group = [1.0], ["constant"]
        for n in range(1, degree + 1):
            b, group = [*b, *P[n][:single]], [*group, *range(single)]
        self.group = np.array([str(one) for one in group])
        return np.array(b)

    # A round

    def weights(self):
        w = np.exp(self.log - max(self.log))
        return 0.995 * w / sum(w) + 0.005 / 5

    def predict(self, x):
        self.x = x
        if not self.number:
            self.y_hat = 0.0
            return 0.0
        z, b = self.z, self.b = self.measured(x)
        Q, M = self.sums()
        alone = self.alone = Q @ M
        f = np.array([z @ self.near, z @ alone, z @ self.own, np.sum(b * self.beta)])
        low, high = min(self.least, self.bottom), max(self.most, self.top)
        low, high = (low - self.center) / self.width, (high - self.center) / self.width
        f, w = np.clip(f, low, high), self.weights()
        self.mixed = sum(w[:-1] * f) / sum(w[:-1])
        self.f = np.array([*f, np.clip(self.mixed + self.gain @ self.last, low, high)])
        self.y_hat = self.center + self.width * (w @ self.f)
        return self.y_hat

    def sums(self):
        """Q and M of all samples."""
        Z = np.array([z for z, _, _ in self.samples]).reshape(-1, self.drawn.K)
        h, y = np.array([(h, y) for _, y, h in self.samples]).reshape(-1, 2).T
        return np.linalg.inv((Z.T * h) @ Z + self.tau * np.eye(self.drawn.K)), Z.T @ (h * y)

    def how_much(self):
        """A sample counts so much: the less, the more errors repeat."""
        r = self.r if self.mixed_age > 24 else 0
        return 2 * (1 - r) / (1 + r)

    def repeats(self):
        return (1 + self.r**2) / (1 - self.r**2)

    def learn(self, y):
        if self.number:
            y = self.bounded(y)
        self.X, self.Y = [*self.X, self.x][-512:], [*self.Y, y][-512:]
        self.count, self.useful, self.fresh = self.count + 1, self.useful + 1, self.fresh + 1
        self.least, self.most = min(self.least, y), max(self.most, y)
        if self.number:
            y = (y - self.center) / self.width
            self.mix(y)
            self.watch(y)
            self.judged = [*self.judged, (self.z, y, self.missed[1])][-32:]
            self.samples.append((self.z, y, self.how_much()))
            Q, M = self.sums()
            self.theta = Q @ (M + self.side)
            self.own = Q @ (M + self.RHO * self.weight * self.own)
            self.recent_age += 1
            missed = (np.sum(self.b * self.beta) - y) ** 2
            self.noise += (missed - self.noise) / min(self.recent_age, 30)
            self.lately.append((self.b, y))
            self.fit_recent()
        power = self.count & (self.count - 1) == 0
        if (
            power
            and not self.withdrawn
            and (self.count <= 64 or self.count == 512 or (self.count < 512 and not self.edge))
        ):
            self.join({self.name: Summary.of(self.own_values(512), self.count)})

    def bounded(self, y):
        """The guard: a label far out counts as one with a smaller error."""
        errors, error = self.past[-100:], abs(y - self.y_hat)
        n = len(errors)
        usual = sorted(errors)[math.ceil(0.8 * (n - 1))] / 1.2816 if n >= 2 else 0
        reach = max(6 * usual, max(self.high_y - self.low_y, 0) / 2) + 1e-12
        large = n >= 2 and error > reach
        self.past.append(error)
        self.large = [*self.large, large][-16:]
        if large and 2 * sum(self.large) <= 16:
            y = self.y_hat + (y - self.y_hat) * (reach / error) ** 2
        self.low_y, self.high_y = min(self.low_y, y), max(self.high_y, y)
        return y

    def mix(self, y):
        """Echo, then fixed-share Hedge."""
        error = np.clip(y - self.mixed, -2, 2)
        self.echoes.append((self.last, error))
        fade = 0.998 ** np.arange(len(self.echoes) - 1, -1, -1)
        L, e = np.array([one for one, _ in self.echoes]), np.array([one for _, one in self.echoes])
        E = fade @ e**2
        self.gain = np.linalg.solve((L.T * fade) @ L + (0.05 * E + 1e-12) * np.eye(2), (L.T * fade) @ e)
        self.r = np.clip(fade @ (e * L[:, 0]) / max(E, 1e-12), 0, 0.97)
        self.last = np.array([error, self.last[1] + (error - self.last[1]) / 10])
        self.mixed_age += 1
        self.missed = (self.f - y) ** 2
        self.expert_errors = self.expert_errors + (self.missed - self.expert_errors) / min(self.mixed_age, 30)
        heat = 4.4 * self.repeats() * max(min(self.expert_errors), 1e-12)
        self.log = np.log(self.weights()) - np.minimum((self.missed - min(self.missed)) / heat, 1.3)

    def watch(self, y):
        """Page's test on the prediction's error, and the errors of common, alone and recent."""
        total, parts = ((self.y_hat - self.center) / self.width - y) ** 2, self.missed[[0, 1, 3]]
        self.level_age += 1
        if self.level_age > 30:
            self.excess = max(self.excess + min(total / max(self.level, 1e-12), 10) - 2, 0)
        self.since = self.since + 1 if self.excess > 0 else 0
        self.level += (total - self.level) / min(self.level_age, 300)
        self.compared_age += 1
        self.compared = self.compared + (parts - self.compared) / min(self.compared_age, 30)
        self.usual += (min(parts[:2]) - self.usual) / min(self.recent_age + 1, 300)

    def fit_recent(self):
        """Ridge regression on terms, with a variance for the coefficients of each group (MacKay)."""
        fade = 2 * self.KEEP ** np.arange(len(self.lately) - 1, -1, -1)
        B, y = np.array([b for b, _ in self.lately]), np.array([one for _, one in self.lately])
        if np.ndim(self.variance) == 0:
            self.variance = np.full(B.shape[1], self.variance)
        ridge = 2 * max(self.noise, 1e-9) / self.variance
        inverse = np.linalg.inv((B.T * fade) @ B + np.diag(ridge))
        self.beta = inverse @ (B.T * fade) @ y
        for group in set(self.group):
            its = self.group == group
            known = max(sum(1 - (ridge * np.diag(inverse))[its]), 0)
            self.variance[its] = (sum(self.beta[its] ** 2) + 0.006 * 0.005) / (known + 0.006)

    # Neighbours

    def listen(self, heard, t):
        """Messages {neighbour: (theta, number of its scale, its end of the edge)} of round t."""
        alike = {i: theta for i, (theta, number, _) in heard.items() if number == self.number != b""}
        if heard:
            self.unlike = self.unlike + 1 if len(alike) < len(heard) else 0
        used = self.trusted(alike)
        pull, seen = np.zeros_like(self.theta), []
        for i, (theta, _, held) in heard.items():
            moves = self.settle(self.ends[i], held, i not in used)
            given = theta if i in used else self.theta
            pull = pull + self.edge[i] * given
            seen += [(self.edge[i], given)] if i in used else []
            end = self.ends[i]
            end["settled"] = end["dual"]
            if moves:
                end["dual"] = end["dual"] + self.RHO / 2 * self.edge[i] * (self.theta - given)
                end.update(before=end["moved"], moved=t, hoping=True)
        if not heard:
            pull = self.weight * self.theta
        lam = sum([end["dual"] for end in self.ends.values()], np.zeros_like(self.theta))
        self.side = self.RHO / 2 * (self.weight * self.theta + pull) - lam
        self.near = sum(w * v for w, v in seen) / sum(w for w, _ in seen) if seen else self.theta

    def trusted(self, thetas):
        """Neighbours whose parameters miss own samples no more than twice the standard does."""
        if not thetas or not self.judged:
            return set(thetas)
        own = np.array([one for _, _, one in self.judged])
        missed = {i: np.array([(z @ v - y) ** 2 for z, y, _ in self.judged]) for i, v in thetas.items()}
        good = sorted(missed.values(), key=np.mean)[(len(missed) - 1) // 4]
        standard = good if np.mean(good) < np.mean(own) else own
        more = {i: one - 2 * standard for i, one in missed.items()}
        reach = 1.5 * 2 * np.std(standard) / np.sqrt(len(own)) + 1e-6
        return {i for i, one in more.items() if len(own) < 5 or np.mean(one) <= reach}

    @staticmethod
    def settle(end, held, refused):
        """Agree with the other end of an edge on its dual; whether it may move."""
        if refused:
            if end["moved"] is not None:
                drop(end, number=end["number"] + 1)
            return False
        if held["number"] != end["theirs"]:
            drop(end, theirs=held["number"])
        elif end["hoping"] and held["theirs"] == end["number"]:
            end["hoping"] = False
            if end["moved"] not in (held["moved"], held["before"]):
                end.update(dual=end["settled"], moved=end["before"], before=None)
        return held["theirs"] == end["number"]

    # Restarts and other scales

    def end_round(self):
        begins = self.restart() if self.number else False
        before, had = self.width, bool(self.number)
        taken = self.take_scale(begins)
        if taken and had:
            factor = before / self.width
            self.expert_errors = self.expert_errors * factor**2
            self.echoes = [(factor * last, factor * e) for last, e in self.echoes]
            self.last = factor * self.last
            self.noise, self.level, self.usual = (factor**2 * v for v in (self.noise, self.level, self.usual))
            self.compared = self.compared * factor**2
            if not 1 / 16 <= factor <= 16:
                self.forget_errors()
        if taken or begins:
            self.learn_again()

    def restart(self):
        """An alarm restarts the recent model; whether the past is given up."""
        repeats = self.repeats()
        if self.excess > 15 * repeats:
            self.alarms += 1
            n = min(max(self.since, 2), 200)
            self.excess, self.since, self.level, self.level_age = 0.0, 0, 0.0, 0
            self.lasting = self.compared_age = 0
            self.lately = [(b, y) for _, b, y in self.again(n)]
            self.fit_recent()
            self.fresh = n
            self.log = np.log(self.weights() / 2 + np.array([0, 0, 0, 0.5, 0]))
        long = min(self.compared[:2])
        better = self.compared[2] < 0.75 * long and long > 1.5 * self.usual and self.compared_age >= 30
        self.lasting = self.lasting + 1 if better else 0
        begins = self.lasting >= 30 * repeats
        if begins:
            self.lasting = self.compared_age = 0
        begins = begins and self.count > 64
        if begins:
            self.useful = max(min(self.useful, self.fresh, 200), 2)
        if 2 * (sum(self.large) - 1) > 16:
            self.past, self.large, self.low_y, self.high_y = [], [], 1e150, -1e150
            self.useful, begins, self.withdrawn = 2, True, True
        self.given_up += int(begins)
        return begins

    def again(self, n):
        """The last n samples, as the scale measures them."""
        pairs = zip(self.X[-n:], self.Y[-n:], strict=True)
        return [(*self.measured(x), (y - self.center) / self.width) for x, y in pairs]

    def learn_again(self):
        """Know the useful samples only; edges start again."""
        n = self.useful = min(self.useful, len(self.Y))
        self.recheck(n)
        samples, h = self.again(n), self.how_much()
        self.samples = [(z, y, h) for z, _, y in samples]
        Q, M = self.sums()
        self.theta = self.own = self.near = alone = Q @ M
        self.side = self.RHO * self.weight * alone
        for end in self.ends.values():
            drop(end, number=end["number"] + 1)
        self.judged = [(z, y, ((y - z @ alone) / max(1 - h * z @ Q @ z, 1e-3)) ** 2) for z, _, y in samples]
        self.judged = self.judged[-32:]
        self.lately = [(b, y) for _, b, y in samples]
        self.fit_recent()

    def recheck(self, n):
        """Bound the labels that lie far from the middle of most; early errors noted with them say nothing."""
        before = after = np.array(self.Y[-n:])
        if (cut := n // 4) > 0:
            inner, middle = np.sort(before)[cut : n - cut], np.median(before)
            error, reach = before - middle, 6 * (inner[-1] - inner[0])
            far = [0 < reach < abs(e) for e in error]
            after = before.copy()
            after[far] = middle + error[far] * (reach / abs(error[far])) ** 2
        self.low_y, self.high_y = min(after), max(after)
        if self.count <= 64 and (before != after).any():
            self.forget_errors()
        self.Y[-n:] = after.tolist()


def drop(end, **numbers):
    """Forget the dual of an edge, under another number."""
    end.update(dual=np.zeros_like(end["dual"]), moved=None, before=None, hoping=False, **numbers)
