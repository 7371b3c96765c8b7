"""Slow, literal twins of what domkl does fast: one learner, one kernel, one edge at a time.

They follow the paper's lines, not our code: matrices are built and solved, nothing is factored out,
no function of the package is used.
"""

from __future__ import annotations

import math

import numpy as np


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


def auto_joint(Z, y, neighbours, rho, eta, kept):
    """One joint model of kind "auto", for squared losses, from features Z (J, T, K) and scaled targets.

    `eta` is each learner's ridge. The first `kept` samples are replayed as if the neighbours agreed; edges
    weigh 1/min(deg_i, deg_j). Returns theta and lam, (J, K) each.
    """
    J, T, K = Z.shape
    deg = [len(near) for near in neighbours]
    weights = [[1 / min(deg[j], deg[i]) for i in neighbours[j]] for j in range(J)]
    M = [(eta[j] + rho * sum(weights[j])) * np.eye(K) for j in range(J)]
    m, theta, lam = np.zeros((J, K)), np.zeros((J, K)), np.zeros((J, K))
    near = np.zeros((J, K))
    for t in range(T):
        new = np.zeros((J, K))
        for j in range(J):
            M[j] = M[j] + 2 * np.outer(Z[j, t], Z[j, t])
            m[j] += 2 * y[j, t] * Z[j, t]
            pull = rho / 2 * (sum(weights[j]) * theta[j] + near[j])
            new[j] = np.linalg.solve(M[j], m[j] + pull - lam[j])
        theta = new
        for j in range(J):
            if t < kept:
                near[j] = sum(weights[j]) * theta[j]
            else:
                near[j] = sum(w * theta[i] for w, i in zip(weights[j], neighbours[j], strict=True))
                lam[j] += rho / 2 * (sum(weights[j]) * theta[j] - near[j])
    return theta, lam


def own_samples(Z, y, commons, strong, weak, stride, momentum):
    """Predictions for each z before its label: alone with both ridges, personal, shrunk."""
    M, m = strong * np.eye(len(Z[0])), np.zeros(len(Z[0]))
    minima, before, found = [m, m], [m, m], []  # with the weak ridge, around 0 and around c, less c
    for z, label, c in zip(Z, y, commons, strict=True):
        Q, sides = np.linalg.inv(M), (0 * c, c)
        steps = [
            Q @ (m + strong * to + (strong - weak) * v) - to for v, to in zip(minima, sides, strict=True)
        ]
        ends = [
            v + stride * (step - v) + momentum * (v - last)
            for v, step, last in zip(minima, steps, before, strict=True)
        ]
        scores = [z @ Q @ (m + strong * to + (strong - weak) * v) for v, to in zip(ends, sides, strict=True)]
        shrunk = (Q @ m + c - strong * (Q @ c)) / 2
        found.append([scores[0], z @ Q @ m, scores[1], z @ shrunk])
        # One more sample moves a minimum by so much, if it was one
        M, m = M + 2 * np.outer(z, z), m + 2 * label * z
        moves = [
            np.linalg.solve(M, 2 * (label - z @ (v + to)) * z) for v, to in zip(ends, sides, strict=True)
        ]
        before = [v + move for v, move in zip(minima, moves, strict=True)]
        minima = [v + move for v, move in zip(ends, moves, strict=True)]
    return np.array(found)


def echo(errors, fade, doubt, few):
    """What each error (T,) was expected to be: each time a fresh ridge regression over all pairs before."""
    clipped = [max(-2.0, min(2.0, error)) for error in errors]
    known = []  # (the last error, the mean of the last few) when each error was made
    mean, expected = 0.0, []
    for t, error in enumerate(clipped):
        last = np.array([clipped[t - 1] if t else 0.0, mean])
        A, b, size = np.zeros((2, 2)), np.zeros(2), 0.0
        for s, (before, then) in enumerate(known):
            weight = fade ** (t - 1 - s)
            A += weight * np.outer(before, before)
            b += weight * then * before
            size += weight * then**2
        A += (doubt * size + 1e-12) * np.eye(2)
        expected.append(last @ np.linalg.solve(A, b))
        known.append((last, error))
        mean += (error - mean) / few
    return np.array(expected)


def ridge_of(errors, most_r, fewest, most):
    """How many times as strong one learner's ridge is, by the correlation of its errors with the next."""
    if len(errors) < fewest:
        return 1
    size = sum(e * e for e in errors)
    pairs = sum(e * last for e, last in zip(errors[1:], errors, strict=False))
    r = min(max(pairs / size, 0), most_r) if size else 0
    return min(((1 + r) / (1 - r)) ** 2, most)


def are_far(columns, far):
    """Who is far from most others, from all values (J, n, columns); NaN where one is missing."""
    found = []
    for j in range(len(columns)):
        is_far = False
        for c in range(columns.shape[-1]):
            each = [column[~np.isnan(column)] for column in columns[..., c]]
            if len(each[j]):
                means, spreads = zip(*((v.mean(), v.std()) for v in each if len(v)), strict=True)
                error = max(each[j].std(), np.median(spreads)) / np.sqrt(len(each[j]))
                is_far = is_far or abs(each[j].mean() - np.median(means)) > far * error
        found.append(bool(is_far))
    return found


def additive(Z, y, group, memory):
    """A memory of kind "auto" on one device, from terms Z (T, K) and scaled targets: what its coefficients
    and their variances become. `memory` is on how many rounds it looks back.

    Every matrix is made anew from all samples and their weights.
    """
    K = Z.shape[1]
    v, noise, b = np.full(K, 5e-3), 5e-3, np.zeros(K)
    prior, weights = 2 * noise / v, []
    for n, z in enumerate(Z, start=1):
        noise += ((b @ z - y[n - 1]) ** 2 - noise) / min(n + 1, 25)
        weights.append(1.0)
        data = sum(w * 2 * np.outer(x, x) for w, x in zip(weights, Z, strict=False))
        b = np.linalg.solve(
            data + np.diag(prior), sum(w * 2 * t * x for w, t, x in zip(weights, y, Z, strict=False))
        )
        rounds = 8 if n <= 64 else 32
        if n % rounds == 0:
            looks_back = memory if np.isinf(memory) else min(max(n / 2, 50), memory)
            weights = [w * (1 - 1 / looks_back) ** rounds for w in weights]
            data = sum(w * 2 * np.outer(x, x) for w, x in zip(weights, Z, strict=False))
            v = most_likely_variances(data, b, v, noise, group)
            prior = 2 * noise / v
    return b, v


def most_likely_variances(data, b, v, noise, group):
    """MacKay's rule: the squares of a group's coefficients, by how many of them the data tell."""
    uncertain = np.diag(np.linalg.inv(data / (2 * noise) + np.diag(1 / v)))
    new = np.empty_like(v)
    for g in set(group):
        mine = group == g
        told = sum(1 - uncertain[mine] / v[mine])
        new[mine] = (sum(b[mine] ** 2) + 0.5 * 5e-5) / (max(told, 0) + 0.5)
    new[0] = 5e-2
    return new


def believes(noted, row, thetas, own, classifies):
    """Which neighbours' parameters a learner uses, by its last 32 samples.

    Not one that errs more than twice as much as alone, by more than 1.5 standard errors. Nor, before there
    are 128, one that errs more than 0.7 times as much as alone and 3 times as much as the best neighbour, or
    the learner itself where that errs more, and more than that by 1.5 standard errors. Nor, from then on, one
    that errs more than alone and 1.25 times as much as the median of the learner and its neighbours, if it
    does so by more than 1.5 standard errors, or if its predictions are further from the median prediction
    than a quarter of that error. Of more than four neighbours the last of the best quarter stands for the
    best one, and standard errors count 1.5 times the square root of log n / log 4.
    """
    last, found, n = noted[-32:], [], len(thetas)
    clear = 1.5 * math.sqrt(max(1, math.log(n, 4)))
    alone = [[miss(s[row][k], y[row], classifies) for _, y, s in last] for k in range(2)]
    alone = min(alone, key=mean)
    scores = [[score(theta, z[row]) for z, _, _ in last] for theta in [*thetas, own]]
    misses = [
        [miss(s, y[row], classifies) for s, (_, y, _) in zip(each, last, strict=True)] for each in scores
    ]
    half = len(misses) // 2
    common, middle = sorted(misses, key=mean)[half], [sorted(at)[half] for at in zip(*scores, strict=True)]
    most, best = max(alone, [1.25 * m for m in common], key=mean), sorted(misses[:-1], key=mean)[(n - 1) // 4]
    best = max(best, misses[-1], key=mean)
    for each, missed in zip(scores[:-1], misses, strict=False):
        used = abs(each[-1]) <= 100
        if len(last) >= 5:
            used = used and not exceeds(missed, [2 * a for a in alone], clear)
        if 5 <= len(noted) < 128 and mean(missed) > max(3 * mean(best), 0.7 * mean(alone)):
            used = used and not exceeds(missed, best, clear)
        if len(noted) >= 128 and exceeds(missed, most, 0):
            apart = mean([(s - m) ** 2 for s, m in zip(each, middle, strict=True)])
            apart = apart / 8 if classifies else apart
            used = used and apart <= 0.25 * mean(common) and not exceeds(missed, most, clear)
        found.append(bool(used))
    return found


def outgrown(duals, limit):
    """Which of one learner's edges have a dual above `limit` times the lower median, those of zero left out
    unless they are most."""
    sizes = [sum(float(v) ** 2 for row in dual for v in row) ** 0.5 for dual in duals]
    usual = sorted(size or float("inf") for size in sizes)[(len(sizes) - 1) // 2]
    return [size > limit * usual for size in sizes]


def exceeds(values, most, times):
    """Whether values are larger than others in the mean, by more than so many standard errors."""
    more = [v - m for v, m in zip(values, most, strict=True)]
    chance = (mean([(v - mean(more)) ** 2 for v in more]) / len(more)) ** 0.5
    return mean(more) > times * chance + 1e-6


def mean(values):
    return sum(values) / len(values)


def score(theta, z):
    """What two models predict together."""
    return sum(theta[p] @ z[p] for p in range(2)) / 2


def miss(s, y, classifies):
    """Loss of a score for a label."""
    return np.logaddexp(0, -y * s) if classifies else (s - y) ** 2


def believes_terms(seen, alone, row, terms, own, classifies):
    """Which neighbours' terms a learner uses: at most three times its own error, or that of alone."""
    errors = [mean([miss(t @ z[row], y[row], classifies) for z, y in seen]) for t in [*terms, own]]
    return [bool(error <= 3 * max(errors[-1], alone) + 1e-6) for error in errors[:-1]]


def believed(y, y_hat, alone, C):
    """Labels as they are learnt, from all labels and predictions so far; the first prediction knew none.

    One near its prediction, in the range of those that were learnt, is believed as it is. So is one inside
    that range, unless it is far from the last.
    """
    out = []
    for t in range(len(y)):
        errors = [min(abs(y[i] - y_hat[i]), abs(y[i] - alone[i])) for i in range(1, t)][-C.label_window :]
        label, near, last = y[t], False, y[: t + 1]
        if len(errors) >= C.label_errors:
            usual = not_far(last, C) or out
            width = min(max(out), max(usual)) - max(min(out), min(usual))
            near = min(abs(y[t] - y_hat[t]), abs(y[t] - alone[t])) <= C.label_near * width
            known = min(out) <= y[t] <= max(out) and inside_fence(y[t], last, C) == y[t]
            label = label if near or known else near_prediction(last, y_hat[t], alone[t], errors, C)
        if len(errors) < C.label_window and not near:
            label = inside_fence(y_hat[t] if t > 0 and is_wild(label, last, C) else label, last, C)
        out.append(label)
    return out


def near_prediction(y, y_hat, alone, errors, C):
    """The last label, as far from its prediction as the last errors allow; as it is if half are the same."""
    last = sorted(errors[-C.label_last :])
    usual = sorted(errors)[int(C.label_quantile * len(errors))] / C.label_normal
    deviation = max(usual, last[(len(last) - 1) // 2] / 0.6745)
    labels = sorted(y[-C.label_window :])
    if labels.count(labels[len(labels) // 2]) > len(labels) / 2:
        return y[-1]
    miss = min(abs(y[-1] - y_hat), abs(y[-1] - alone))
    if miss > C.label_reach * deviation:
        centre = alone if abs(y_hat - alone) > C.label_reach * deviation else y_hat
        if miss >= C.label_wild * deviation:
            return centre
        return centre + np.sign(y[-1] - centre) * C.label_reach * deviation
    return y[-1]


def own_watch(y, alone, low, high, C):
    """Rounds in which own samples start again, and (round, shift, factor, labels) of changes of unit.

    From labels, what the own samples predict, and the range of labels that are believed.
    """
    lost, units, labels, since, age = [], [], [], 0, 0
    shift, factor = 0.0, 1.0
    for t in range(len(y)):
        labels.append((y[t] - shift) / factor)
        age = age + 1 if age else 0
        errors = [abs(a - b) for a, b in zip(labels, alone, strict=False)]
        usual = lower_median(errors[since:][-C.label_window :])
        near, guesses, recent = labels[-C.own_last :], alone[: t + 1][-C.own_last :], errors[-C.own_last :]
        last, settled = lower_median(recent), min(t + 1 - since, C.label_window)
        is_lost = settled >= C.own_errors and last > C.own_rise * usual and last > C.own_spread * spread(near)
        large = [e > C.unit_rise * usual for e in recent]
        is_sudden = sum(large[-9:]) >= 9 - C.unit_others and sum(large[:-9]) <= C.unit_others
        is_odd = sum(not low <= v <= high for v in near) > C.own_last // 2
        is_odd = is_odd and last > max(C.own_rise * usual, C.unit_far * (high - low))
        past = [a - b for a, b in zip(labels, alone, strict=False)][-C.label_window : -C.own_last]
        repeats = sum(np.sign(past[i] * past[i + 1]) for i in range(len(past) - 1)) / max(len(past) - 1, 1)
        is_clear = spread(guesses) > C.unit_clear * usual and repeats < C.unit_repeats
        is_clear = is_clear and last > max(C.unit_rise * usual, C.unit_part * (high - low))
        tries = settled == C.label_window and is_sudden and (is_odd or is_clear)
        first = [abs(shift + factor * v - p) for v, p in zip(labels[-9:], alone[: t + 1][-9:], strict=True)]
        first = lower_median(first)
        returns = first <= C.unit_fits * usual and lower_median(errors[-9:]) > C.unit_rise * first
        returns = returns and (shift, factor) != (0, 1)
        n = sum(large) if tries else 9 if returns else age if age in C.unit_looks else 0
        line = unit_of(alone[t + 1 - n : t + 1], labels[-n:], C.unit_fits * usual) if n else None
        line = (-shift / factor, 1 / factor) if returns else line
        if line is not None:
            while (
                (tries or returns)
                and n > 1
                and errors[-n] <= abs((labels[-n] - line[0]) / line[1] - alone[t + 1 - n])
            ):
                n -= 1  # from before the change
            labels[-n:] = [(v - line[0]) / line[1] for v in labels[-n:]]
            shift, factor, age, is_lost = shift + factor * line[0], factor * line[1], n, False
            shift, factor = (0.0, 1.0) if returns else (shift, factor)
            units.append((t, *line, n))
        if is_lost:
            lost, since = [*lost, t], t + 1
        age = 0 if is_lost or returns or age >= C.label_window else age
    return lost, units


def unit_of(guesses, labels, most):
    """Shift and factor from predictions to labels, by the median of all slopes; or one of the two alone."""
    pairs = list(zip(guesses, labels, strict=True))
    slopes = sorted((y - v) / (p - q) for i, (p, y) in enumerate(pairs) for q, v in pairs[i + 1 :] if p != q)
    factors = sorted(y / p for p, y in pairs if p)
    found = []
    for slope, fixed in ((slopes[len(slopes) // 2], None), (1.0, None), (factors[len(factors) // 2], 0.0)):
        rests = sorted(y - slope * p for p, y in pairs)
        shift = rests[len(rests) // 2] if fixed is None else fixed
        off = sorted(abs(rest - shift) for rest in rests)[len(rests) // 2]
        found.append((off / slope if slope > 0 else np.inf, shift, slope))
    best = found[0] if found[0][0] <= most else min(found[1:])
    return best[1:] if best[0] <= most else None


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


def spread(values):
    return lower_median([abs(v - lower_median(values)) for v in values])


def inside_fence(label, y, C):
    """A label beyond all that lie near the closest four fifths of labels: the last of them, or the median."""
    labels, kept = sorted(y[-C.label_window :]), not_far(y, C)
    if not kept:
        return label
    if is_wild(label, y, C):
        return labels[(len(labels) - 1) // 2]
    return min(max(label, kept[0]), kept[-1])


def not_far(y, C):
    """Those of the last labels that lie near the closest four fifths of them; none where labels are few."""
    labels = sorted(y[-C.label_window :])
    if len(labels) < 4 or labels[0] == labels[-1]:
        return []
    low, high, far = nearly_all(labels, C)
    return [v for v in labels if low - far <= v <= high + far]


def is_wild(label, y, C):
    """Whether a label is too far from nearly all of the last ones to say anything."""
    labels = sorted(y[-C.label_window :])
    if len(labels) < 4 or labels[0] == labels[-1]:
        return False
    low, high, far = nearly_all(labels, C)
    wild = far * C.label_wild / C.label_reach
    return not low - wild <= label <= high + wild


def nearly_all(labels, C):
    """The least and the greatest of nearly all labels, and how far another may lie from these."""
    n = len(labels)
    middle = closest(labels, n - -(-n // 5))
    middle = closest(labels, n - 1) if middle[0] == middle[-1] else middle
    width = middle[-1] - middle[0] or min(b - a for a in labels for b in labels if b > a)
    return middle[0], middle[-1], C.label_fence * (1 + (C.label_few / n) ** 2) * width


def closest(labels, count):
    """So many labels in order that lie closest together."""
    return min((labels[i : i + count] for i in range(len(labels) - count + 1)), key=lambda v: v[-1] - v[0])


def watched(misses, experts, near, alarms_in, restarts_in, C):
    """Who votes for a restart, who raises an alarm, whom the joint models mislead, in each round.

    misses[t][j] and experts[t][j] are squared errors of predictions and of experts: two joint models, then
    the long, the young and the past memory. near[j] are j and its neighbours. In some rounds all act on
    an alarm, or on a restart.
    """
    J, out = len(near), []
    surplus, own_surplus, level, usual, lasting = ([0.0] * J for _ in range(5))
    errors, own_errors = ([[0.0] * 5 for _ in range(J)] for _ in range(2))
    of_level = compared = 0
    for t in range(len(misses)):
        of_level, compared = of_level + 1, compared + 1
        for j in range(J):
            if of_level > C.watch_fade:
                more = min(misses[t][j] / max(level[j], 1e-12), C.watch_most) - C.watch_slack
                surplus[j], own_surplus[j] = surplus[j] + more, max(own_surplus[j] + more, 0)
            level[j] += (misses[t][j] - level[j]) / min(of_level, C.watch_level)
            usual[j] += (min(experts[t][j][:2]) - usual[j]) / min(t + 1, C.watch_ages)
            for k in range(5):
                errors[j][k] += (experts[t][j][k] - errors[j][k]) / min(compared, C.watch_fade)
                own_errors[j][k] += (experts[t][j][k] - own_errors[j][k]) / min(compared, C.watch_fade)
        surplus = [max(mean([surplus[i] for i in near[j]]), 0) for j in range(J)]
        errors = [[mean([errors[i][k] for i in near[j]]) for k in range(5)] for j in range(J)]
        votes, misled = [], []
        for j in range(J):
            joint, long, other = min(errors[j][:2]), errors[j][2], min(errors[j][3:])
            lasting[j] = lasting[j] + 1 if other < C.watch_better * long else 0
            better = 4 if errors[j][4] < errors[j][3] else 3
            agrees = own_errors[j][better] <= own_errors[j][2]
            votes.append(lasting[j] >= C.watch_lasting and agrees)
            misled.append(other < C.watch_worse * joint and joint > C.watch_rise * usual[j])
        out.append((votes, [s > C.watch_alarm for s in surplus], misled, list(own_surplus)))
        if t in alarms_in:
            of_level, surplus, own_surplus, level = 0, [0.0] * J, [0.0] * J, [0.0] * J
        if t in alarms_in or t in restarts_in:
            compared, lasting = 0, [0.0] * J
    return out


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
