"use strict";
/* The network as a drawing: places by springs, always the same for the same links. */

const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

class Graph {
  constructor(svg, choose) {
    this.svg = svg;
    this.choose = choose;
    this.key = "";
    this.size = [400, 340];
    svg.addEventListener("keydown", (event) => this.move(event));
  }

  /* learners: rows of the state; chosen: a name. */
  set(learners, chosen) {
    const names = learners.map((each) => each.name);
    const index = new Map(names.map((name, i) => [name, i]));
    const links = new Map();
    learners.forEach((each, i) => (each.neighbours || []).forEach((near) => {
      if (!index.has(near.name)) return;
      const j = index.get(near.name);
      const kind = near.up === false ? "down" : near.trust !== null && near.trust !== undefined && near.trust < 0.5 ? "doubt" : "";
      const key = `${Math.min(i, j)}-${Math.max(i, j)}`;
      if (i !== j) links.set(key, kind || links.get(key) || "");
    }));
    const key = JSON.stringify([names, [...links.keys()].sort()]);
    if (key !== this.key) {
      this.key = key;
      this.names = names;
      this.places = settle(names.length, [...links.keys()].map((each) => each.split("-").map(Number)), this.size);
      this.build(links);
    }
    for (const [each, kind] of links) this.lines.get(each).setAttribute("class", `link ${kind}`);
    learners.forEach((each, i) => this.show(i, each, each.name === chosen));
  }

  build(links) {
    this.svg.replaceChildren();
    this.lines = new Map();
    for (const each of links.keys()) {
      const [a, b] = each.split("-").map((i) => this.places[i]);
      const line = drawn("line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], class: "link" });
      this.lines.set(each, line);
      this.svg.append(line);
    }
    const many = this.names.length > 24;
    const r = this.names.length > 60 ? 5 : many ? 7 : 12;
    this.nodes = this.names.map((name, i) => {
      const [x, y] = this.places[i];
      const node = drawn("g", { role: "button", tabindex: "-1", transform: `translate(${x} ${y})` });
      node.append(drawn("circle", { class: "mark", r: r + 5 }), drawn("circle", { class: "body", r }), drawn("title"));
      const label = drawn("text", { y: r + 15 });
      label.textContent = short(name);
      if (!many || name.length < 5) node.append(label);
      node.addEventListener("click", () => this.choose(name));
      this.svg.append(node);
      return node;
    });
  }

  show(i, learner, isChosen) {
    const node = this.nodes[i];
    const state = stateOf(learner);
    const seen = short(learner.name) === learner.name ? learner.name : `${short(learner.name)} (${learner.name})`;
    const text = `${seen}, ${WORDS[state]}, round ${learner.round ?? "unknown"}`;
    node.setAttribute("class", `node ${state}${isChosen ? " chosen" : ""}`);
    node.setAttribute("aria-label", text);
    node.setAttribute("aria-pressed", String(isChosen));
    node.setAttribute("tabindex", isChosen ? "0" : "-1");
    node.querySelector("title").textContent = text;
  }

  /* One stop for the tab key; arrows go from learner to learner. */
  move(event) {
    const at = this.nodes.indexOf(document.activeElement);
    if (at < 0) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) this.nodes[(at + step + this.nodes.length) % this.nodes.length].focus();
    else if (event.key === "Enter" || event.key === " ") this.choose(this.names[at]);
    else return;
    event.preventDefault();
  }
}

const short = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);

const WORDS = { ready: "learning", init: "starting", done: "ended", lost: "silent" };

function stateOf(learner) {
  if (learner.state === "done") return "done";
  if (learner.age > 30) return "lost";
  return learner.state === "ready" ? "ready" : learner.state === "lost" ? "lost" : "init";
}

/* Springs along links, repulsion between all (Fruchterman and Reingold), from a circle; then fitted to the frame. */
function settle(count, links, [width, height]) {
  const at = Array.from({ length: count }, (_, i) => [Math.cos((2 * Math.PI * i) / count), Math.sin((2 * Math.PI * i) / count)]);
  const k = Math.sqrt(4 / Math.max(1, count));
  const steps = count > 150 ? 0 : 200;
  for (let step = 0; step < steps; step++) {
    const push = at.map(() => [0, 0]);
    const pull = (i, j, strength) => {
      const dx = at[i][0] - at[j][0], dy = at[i][1] - at[j][1], d = Math.hypot(dx, dy) || 1e-3, f = strength(d) / d;
      push[i][0] += dx * f; push[i][1] += dy * f; push[j][0] -= dx * f; push[j][1] -= dy * f;
    };
    for (let i = 0; i < count; i++) for (let j = 0; j < i; j++) pull(i, j, (d) => (k * k) / d);
    for (const [i, j] of links) pull(i, j, (d) => -(d * d) / k);
    const most = 0.15 * (1 - step / steps);
    at.forEach((place, i) => {
      const d = Math.hypot(...push[i]) || 1e-9, go = Math.min(d, most) / d;
      place[0] += push[i][0] * go; place[1] += push[i][1] * go;
    });
  }
  const fit = (axis, size, low, high) => {
    const values = at.map((place) => place[axis]), least = Math.min(...values), span = Math.max(...values) - least;
    return (value) => (span < 1e-6 ? size / 2 : low + ((value - least) / span) * (size - low - high));
  };
  const x = fit(0, width, 40, 40), y = fit(1, height, 24, 38);
  return at.map((place) => [Math.round(x(place[0]) * 10) / 10, Math.round(y(place[1]) * 10) / 10]);
}
