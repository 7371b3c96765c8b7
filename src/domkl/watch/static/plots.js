"use strict";
/* Line plots with uPlot, each with the same numbers as a table. */

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/* Three significant digits, as the tables of the command line. */
function shown(value, unit = "") {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size && (size < 1e-3 || size >= 1e7) ? value.toExponential(1)
    : size >= 1000 ? Math.round(value).toLocaleString("en")
      : size >= 10 || !size ? value.toFixed(size >= 100 || !size ? 0 : 1) : value.toFixed(2 + (size < 0.1) + (size < 0.01));
  return unit ? `${text} ${unit}` : text;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/* A table; the first cell of each row names it. Roles are written out, since phones show rows as cards. */
function table(caption, heads, rows, kind = "") {
  const row = (cells) => element("tr", { role: "row" }, ...cells);
  const head = row(heads.map((text) => element("th", { role: "columnheader", scope: "col" }, text)));
  const body = rows.map((cells) => row(cells.map((cell, i) => element(
    i ? "td" : "th", i ? { role: "cell", "data-label": heads[i] } : { role: "rowheader", scope: "row" }, cell))));
  return element("table", { role: "table", class: kind }, element("caption", {}, caption),
    element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, ...body));
}

/* A moment as files and logs write it. */
const stamp = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 19).replace("T", " ");

/* Ticks in words, so that nobody takes a month for a day; `step` is in seconds. */
function dates(plot, ticks, axis, space, step) {
  const day = { day: "numeric", month: "short" }, clock = { hour: "2-digit", minute: "2-digit" };
  const how = step < 60 ? { ...clock, second: "2-digit" } : step < 86400 ? { ...day, ...clock } : step < 28 * 86400 ? day : { month: "short", year: "numeric" };
  return ticks.map((tick) => new Date(1000 * tick).toLocaleString("en-GB", { ...how, timeZone: "UTC" }));
}

class Plot {
  /* series: [label, colour name, extra settings of uPlot]; caption: of the table. */
  constructor(id, series, caption, { bands = [], scales = {}, ratio = 0.3 } = {}) {
    this.figure = document.getElementById(id);
    this.place = this.figure.querySelector(".plot");
    this.details = this.figure.querySelector("details");
    this.series = series;
    this.caption = caption;
    this.bands = bands;
    this.scales = scales;
    this.ratio = ratio;
    this.details.addEventListener("toggle", () => this.fill());
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  /* data: [x, ...series]; isTime: x is in seconds. */
  set(data, { unit = "", isTime = false, xName = "round", none = "Nothing yet" } = {}) {
    const key = JSON.stringify([unit, isTime, this.used(data)]);
    Object.assign(this, { data, unit, isTime, xName });
    this.place.classList.toggle("none", !data[0].length);
    if (!data[0].length) {
      this.drop();
      this.place.textContent = none;
    } else if (this.plot && this.key === key) {
      this.plot.setData(this.picked());
    } else {
      this.key = key;
      this.draw();
    }
    this.fill();
  }

  /* Series without any number are left out. */
  used(data) { return this.series.map((_, k) => data[k + 1].some((value) => value !== null)); }

  picked() {
    const used = this.used(this.data);
    return this.data.filter((_, k) => !k || used[k - 1]);
  }

  drop() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    this.place.replaceChildren();
  }

  draw() {
    this.drop();
    const used = this.used(this.data);
    const order = this.series.map((_, k) => k).filter((k) => used[k]);
    const value = (_, number) => shown(number, this.unit);
    const lines = order.map((k) => {
      const [label, name, more = {}] = this.series[k];
      return { label, stroke: colour(name), width: 2, points: { show: false }, spanGaps: false, ...(this.isTime && { gaps: silences }), value, ...resolved(more) };
    });
    const bands = this.bands.filter(([a, b]) => used[a] && used[b]).map(([a, b]) => (
      { series: [order.indexOf(a) + 1, order.indexOf(b) + 1], fill: colour("band") }));
    const axis = { stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const options = {
      ...this.size(), bands, padding: [null, this.isTime && this.place.clientWidth > 560 ? 36 : null, null, null], tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"), scales: { x: { time: this.isTime }, ...this.scales },
      cursor: { points: { size: 7 }, y: false }, legend: { live: true },
      series: [{ label: this.xName, value: this.isTime ? "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" : (_, x) => (x === null ? "–" : shown(x)) }, ...lines],
      axes: [{ ...axis, size: 34, ...(this.isTime ? { values: dates, space: 90 } : {}) }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => String(Number(tick.toPrecision(6)))) }],
    };
    this.plot = new uPlot(options, this.picked(), this.place);
    this.plot.root.querySelector("canvas").setAttribute("role", "presentation");
  }

  size() {
    const width = Math.max(200, this.place.clientWidth);
    return { width, height: Math.round(Math.min(320, Math.max(190, width * this.ratio))) };
  }

  resize() {
    if (this.plot && this.plot.width !== this.size().width) this.plot.setSize(this.size());
  }

  fill() {
    if (!this.details.open) return;
    const columns = this.series.map(([label], k) => [label, this.data[k + 1]]).filter(([, c]) => c.some((v) => v !== null));
    const first = Math.max(0, this.data[0].length - 25);
    const rows = this.data[0].slice(first).map((x, i) => [
      this.isTime ? stamp(x) : String(x),
      ...columns.map(([, values]) => shown(values[first + i]))]).reverse();
    const unit = this.unit ? `, in ${this.unit}` : "";
    this.details.querySelector(".rows").replaceChildren(
      table(`${this.caption}, the last ${rows.length}${unit}`, [this.xName, ...columns.map(([label]) => label)], rows, "cards"));
  }
}

/* Where nothing came for six times as long as usual, lines end and begin again. */
function silences(plot, series, first, last, gaps) {
  const x = plot.data[0], steps = x.slice(1).map((each, i) => each - x[i]);
  const usual = [...steps].sort((a, b) => a - b)[steps.length >> 1];
  const found = steps.flatMap((step, i) => (step > 6 * usual && i >= first && i < last ? [[x[i], x[i + 1]]] : []));
  const all = [...gaps, ...found.map((ends) => ends.map((each) => Math.round(plot.valToPos(each, "x", true))))].sort((a, b) => a[0] - b[0]);
  return all.reduce((kept, [start, end]) => { // they may lie over one another
    const before = kept[kept.length - 1];
    if (before && start <= before[1]) before[1] = Math.max(before[1], end); else kept.push([start, end]);
    return kept;
  }, []);
}

/* Settings of a series may name colours. */
function resolved(more) {
  return Object.fromEntries(Object.entries(more).map(([key, value]) => (
    [key, key === "stroke" || key === "fill" ? colour(value) : value])));
}
