"use strict";
/* Shows the state that the server sends. Whatever comes from it is shown as text, never as HTML. */

const $ = (id) => document.getElementById(id);
const dashed = { dash: [6, 4], width: 1.5 };
const samples = new Plot("samples", [
  ["truth", "truth"], ["prediction", "guess"], ["low", "edge", { width: 0 }], ["high", "edge", { width: 0 }],
  ["alarm", "alarm", { width: 0, paths: () => null, points: { show: true, size: 9, width: 2 } }],
], "Predictions and labels", { bands: [[3, 2]], scales: { y: { range: sane } } });
const ahead = new Plot("ahead", [
  ["readings", "truth"], ["forecast", "guess"], ["low", "edge", { width: 0 }], ["high", "edge", { width: 0 }],
], "Readings and forecast", { bands: [[3, 2]], scales: { y: { range: sane } } });
const errors = new Plot("errors", [
  ["this learner", "guess", { width: 2.5 }], ["own samples only", "alone"],
  ["no change", "same", dashed], ["mean so far", "mean", dashed],
], "Root mean squared errors", { scales: { y: { range: reach } }, ratio: 0.52 });
const graph = new Graph(document.querySelector("#graph svg"), choose);

/* All there is, but for values so far from the others that these would be a line. */
function sane(plot) {
  const values = plot.data.slice(1).flat().filter(Number.isFinite).sort((a, b) => a - b);
  if (!values.length) return [0, 1];
  const at = (part) => values[Math.round(part * (values.length - 1))];
  const usual = at(0.95) - at(0.05), most = 20 * usual;
  const kept = usual ? values.filter((each) => each >= at(0.05) - most && each <= at(0.95) + most) : values;
  const low = kept[0], high = kept[kept.length - 1], pad = 0.06 * (high - low) || Math.abs(low) || 1;
  return [low - pad, high + pad];
}

/* From 0 to somewhat above the lower curves: one far above them would press them flat. */
function reach(plot) {
  const tops = plot.data.slice(1).map((values) => Math.max(...values.slice(-Math.ceil(values.length * 0.8)).filter((each) => each !== null))).filter(Number.isFinite);
  return [0, tops.length ? Math.min(1.15 * Math.max(...tops), 2.5 * Math.min(...tops)) || 1 : 1];
}

let state = null, source = null, wanted = null, range = "", spokenAt = 0, tried = null;

function count(value) { return value === undefined || value === null ? "–" : Number(value).toLocaleString("en"); }

function size(bytes) {
  if (bytes === undefined || bytes === null) return "–";
  let value = bytes;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 1000 || unit === "GB") return shown(value, unit);
    value /= 1000;
  }
  return "–";
}

const sum = (rows, key) => rows.reduce((total, row) => total + (Number(row[key]) || 0), 0);

/* Data */

function connect() {
  clearTimeout(tried);
  if (source) source.close();
  const asked = new URLSearchParams({ ...(wanted && { learner: wanted }), ...(range && { range }) });
  source = new EventSource(`events?${asked}`);
  source.onmessage = (event) => {
    state = JSON.parse(event.data);
    if ($("pause").getAttribute("aria-pressed") !== "true") render();
  };
  source.onerror = () => {
    if (!state || state.state !== "ended") pill("lost", "no connection, trying again");
    if (source.readyState === EventSource.CLOSED) tried = setTimeout(connect, 5000);
  };
}

function choose(name) {
  wanted = name;
  connect();
}

function chooseRange(event) {
  const button = event.target.closest("button");
  if (!button) return;
  range = button.dataset.range;
  for (const each of $("ranges").children) each.setAttribute("aria-pressed", String(each === button));
  connect();
}

/* Drawing */

function pill(kind, text) {
  $("pill").dataset.state = kind;
  if ($("pill-text").textContent !== text) $("pill-text").textContent = text;
}

function render() {
  const rows = state.learners, detail = state.detail;
  const own = detail ? rows.find((row) => row.name === detail.name) : null;
  document.title = `${state.title} · domkl`;
  $("title").textContent = state.title;
  const round = Math.max(0, ...rows.map((row) => row.round || 0));
  const progress = state.rounds ? `round ${count(round)} of ${count(state.rounds)}` : `round ${count(round)}`;
  const paused = $("pause").getAttribute("aria-pressed") === "true";
  pill(state.state === "ended" ? "ended" : paused ? "wait" : "live", `${state.state === "ended" ? "ended" : paused ? "paused" : "live"} · ${progress}`);
  options(rows, detail);
  $("ranges").hidden = !state.ranges.length;
  tiles(rows, own);
  drawSamples(detail);
  drawAhead(detail);
  drawErrors(detail, own);
  drawWeights(detail);
  drawEffects(detail);
  drawNetwork(rows, detail);
  drawAlarms(rows);
  drawAsking(detail);
  $("foot").textContent = `domkl · ${PUBLISHED[state.publish]} · ${state.pages === 1 ? "one page is" : `${state.pages} pages are`} open`;
  speak(own, round);
}

const PUBLISHED = {
  full: "this page shows readings and predictions", errors: "this page shows errors, and no readings",
  counts: "this page shows counts, and neither readings nor errors",
};

function options(rows, detail) {
  const select = $("learner"), names = rows.map((row) => row.name), key = JSON.stringify(names);
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  }
  if (detail && document.activeElement !== select) select.value = detail.name;
}

/* "12 % less" is good news for an error. */
function against(error, other) {
  if (!Number.isFinite(error) || !Number.isFinite(other) || other <= 0) return null;
  const part = Math.round(100 * (1 - error / other));
  if (!part) return { text: "the same", than: "as", kind: "" };
  return part > 0 ? { text: `${part} % less`, than: "than", kind: "good" } : { text: `${-part} % more`, than: "than", kind: "bad" };
}

function tile(name, value, more, kind = "") {
  return element("div", {}, element("dt", {}, name), element("dd", { class: `big ${kind}` }, ...[value].flat()),
    more ? element("dd", { class: "more" }, more) : null);
}

function tiles(rows, own) {
  const made = [], unit = state.unit ? element("small", {}, ` ${state.unit}`) : "";
  if (own && state.publish !== "counts") {
    made.push(tile(`Error of ${own.name}`, [shown(own.rmse), own.rmse === null ? "" : unit], own.rmse === null ? awaited(state.detail) : "RMSE of the last 200"));
    const alone = against(own.rmse, own.rmse_alone);
    const near = own.neighbours || [];
    const used = near.filter((each) => each.up !== false && (each.trust ?? 1) > 0.5).length;
    if (near.length && !(own.neighbours_used ?? used)) made.push(tile("Learning together", "not used", "its neighbours are silent, or their messages are refused"));
    else if (alone) made.push(tile("Learning together", alone.text, `error ${alone.than} with own samples only (${shown(own.rmse_alone)})`, alone.kind));
    const forecast = state.detail && state.detail.ahead;
    const best = (forecast ? [["the best of last value, yesterday, last week, mean of the hour", forecast[6][0]]] : [["no change", own.no_change], ["mean so far", own.mean]]).filter(([, e]) => Number.isFinite(e)).sort((a, b) => a[1] - b[1])[0];
    const simple = best ? against(forecast ? forecast[5][0] : own.rmse, best[1]) : null;
    if (simple) made.push(tile("Beside a simple guess", simple.text, `error ${simple.than} “${best[0]}” (${shown(best[1])})`, simple.kind));
  }
  const up = rows.filter((row) => ["ready", "done"].includes(stateOf(row))).length;
  made.push(tile("Learners", `${up} of ${rows.length}`, up === rows.length ? "all are well" : "the others are starting or silent"));
  if (rows.some((row) => row.bytes_sent !== undefined)) {
    made.push(tile("Sent by all", size(sum(rows, "bytes_sent")), `${count(sum(rows, "messages_sent"))} messages; ${size(sum(rows, "bytes_received"))} received`));
  }
  const alarms = sum(rows, "alarms");
  if (state.alarming || alarms) made.push(tile("Alarms", count(alarms), alarms ? "see below" : "none so far", alarms ? "alert" : ""));
  $("tiles").replaceChildren(...made);
}

/* NaN where there is none, or one that no calendar has. */
function seconds(time) {
  const found = time === null || time === undefined ? NaN : typeof time === "number" ? time : Date.parse(time) / 1000;
  return Math.abs(found) < 8.64e12 ? found : NaN;
}

function drawSamples(detail) {
  const target = state.target ? ` of ${state.target}` : "";
  const columns = detail && detail.samples ? detail.samples : [[], [], [], [], [], [], []];
  const [index, time, guess, low, high, truth, alarm] = columns;
  const times = time.map(seconds);
  const isTime = times.length > 0 && times.every((each, i) => Number.isFinite(each) && (!i || each >= times[i - 1]));
  const marks = guess.map((each, i) => (alarm[i] ? (truth[i] ?? each) : null));
  samples.set([isTime ? times : index, truth, guess, low, high, marks],
    { unit: state.unit, isTime, xName: isTime ? "time (UTC)" : "reading" });
  const which = state.range ? `${count(index.length)} of the predictions${target} made ${SPANS[state.range]}, each` : `the last ${count(index.length)} predictions${target}, each made`;
  $("n-samples").textContent = detail && detail.samples ? `${detail.name}, ${which} before its label was known` : "readings are not published here";
}

/* By arrival; evenly chosen, where there are more than are shown. */
const SPANS = { hour: "in the last hour", day: "in the last day", week: "in the last week", all: "since it began" };

/* The last readings, and from them the curve beyond now; of each lead, how large errors were. */
function drawAhead(detail) {
  const found = detail && detail.ahead;
  $("coming").hidden = !found;
  if (!found) return;
  const [when, values] = detail.readings.length ? detail.readings : [[], []], [leads, due, guess, low, high, errors, simple] = found;
  const isTime = due.length > 0 && [...when, ...due].every((each) => typeof each === "string");
  const past = isTime ? when.map(seconds) : when, last = past.length ? past[past.length - 1] : 0;
  const x = [...past, ...(isTime ? due.map(seconds) : leads.map((each) => last + parseInt(each, 10)))];
  const before = past.map((_, i) => (i === past.length - 1 ? values[i] : null)), after = due.map(() => null);
  ahead.set([x, [...values, ...after], [...before, ...guess], [...before, ...low], [...before, ...high]],
    { unit: state.unit, isTime, xName: isTime ? "time (UTC)" : "reading" });
  const words = `${detail.name}, ${leads.length === 1 ? leads[0] : `${leads[0]} to ${leads[leads.length - 1]}`} ahead`;
  $("n-ahead").textContent = `${words}; errors are those of the last 500 forecasts`;
  const rows = leads.map((lead, h) => [lead, isTime ? stamp(seconds(due[h])) : "–", shown(guess[h], state.unit),
    Number.isFinite(low[h]) ? `${shown(low[h])} to ${shown(high[h])}` : "–", shown(errors[h]), shown(simple[h])]);
  $("leads").replaceChildren(table("Every lead", ["lead", "when (UTC)", "forecast", "bounds", "RMSE", "simple guess"], rows, "cards words"));
}

/* Why there is no error yet. */
function awaited(detail) {
  const leads = detail && detail.ahead ? detail.ahead[0] : [];
  return leads.length ? `Nothing yet: the first forecast is judged ${leads[0]} after it was made` : "Nothing yet: no label has come";
}

function drawErrors(detail, own) {
  const columns = detail && detail.errors && detail.errors.length ? detail.errors : [[], [], [], [], []];
  errors.set(columns, { unit: state.unit, none: awaited(detail) });
  const span = state.range ? `, ${SPANS[state.range]}` : "";
  $("n-errors").textContent = own && columns[0].length ? `${own.name}${span}, RMSE over 200 samples; lower is better` : "";
}

/* What predicts, in a few words. */
const EXPERTS = {
  common: "with the neighbours", alone: "own samples only", own: "own samples, smoothed less", recent: "the last 200 samples",
  echo: "corrects by the last errors",
};

function drawWeights(detail) {
  const weights = (detail && detail.weights) || [];
  const top = [...weights].sort((a, b) => b[1] - a[1]);
  $("n-weights").textContent = top.length ? `${detail.name} follows “${top[0][0]}” most` : "";
  if (!top.length) return $("weights").replaceChildren(element("p", { class: "none" }, "Nothing yet"));
  const rows = top.slice(0, 12).map(([name, weight]) => [EXPERTS[name] ? element("span", {}, name, element("small", {}, ` ${EXPERTS[name]}`)) : name, bar(weight), percent(weight)]);
  $("weights").replaceChildren(table("How much each kernel or expert counts", ["expert", "share", "weight"], rows, "words"));
}

/* Computed beside the rounds, now and then; an agent's page has only its own. */
function drawEffects(detail) {
  const found = detail && detail.effects;
  $("effects").hidden = !found;
  if (!found) return;
  $("n-effects").textContent = `${detail.name}, round ${count(found.round)}; effect: how far a prediction moves, typically, if the input takes another usual value`;
  const rows = found.inputs.map(([name, part, effect, direction]) => [name, bar(part), percent(part), shown(effect, state.unit), direction || "–"]);
  $("effect-rows").replaceChildren(table("What the model uses, the most important input first", ["input", "share", "part", "effect", "prediction"], rows, "words"));
}

function percent(part) { return `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`; }

function bar(part) {
  const inner = element("i");
  inner.style.width = `${Math.round(100 * part)}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
}

function drawNetwork(rows, detail) {
  const chosen = detail ? detail.name : null;
  graph.set(rows, chosen);
  const links = rows.reduce((total, row) => total + (row.neighbours || []).length, 0) / 2;
  $("n-network").textContent = `${count(rows.length)} ${rows.length === 1 ? "learner" : "learners"}, ${count(Math.ceil(links))} links`;
  const hadFocus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.learner : null;
  const hasTraffic = rows.some((row) => row.bytes_sent !== undefined), hasErrors = state.publish !== "counts", hasAlarms = state.alarming || sum(rows, "alarms");
  const heads = ["learner", "state", "round", ...(hasErrors ? ["RMSE", "alone"] : []), "neighbours", "trust",
    ...(hasTraffic ? ["sent", "refused"] : []), ...(hasAlarms ? ["alarms"] : [])];
  const cells = rows.map((row) => {
    const near = row.neighbours || [], trust = near.map((each) => each.trust).filter((each) => Number.isFinite(each));
    const button = element("button", { type: "button", "data-learner": row.name }, row.name);
    button.addEventListener("click", () => choose(row.name));
    const silent = row.age > 5 && row.state !== "done" ? `, ${count(Math.round(row.age))} s ago` : "";
    return [button, `${WORDS[stateOf(row)]}${row.via ? ` (from ${row.via}${silent})` : silent}`, count(row.round),
      ...(hasErrors ? [shown(row.rmse), shown(row.rmse_alone)] : []),
      near.length ? `${near.filter((each) => each.up !== false).length} of ${near.length} up` : "–",
      trust.length ? `${Math.round((100 * trust.reduce((a, b) => a + b, 0)) / trust.length)} %` : "–",
      ...(hasTraffic ? [size(row.bytes_sent), count(row.refused)] : []), ...(hasAlarms ? [count(row.alarms)] : [])];
  });
  const made = table("Every learner that is known here", heads, cells, "cards words");
  [...made.tBodies[0].rows].forEach((row, i) => row.classList.toggle("chosen", rows[i].name === chosen));
  $("learners").replaceChildren(made);
  if (hadFocus) [...made.querySelectorAll("button")].find((each) => each.dataset.learner === hadFocus)?.focus();
}

function drawAlarms(rows) {
  const alarms = [...state.alarms].reverse();
  if (!alarms.length) {
    const text = sum(rows, "alarms") ? "Alarms are counted; their readings are not published here."
      : state.alarming ? "No reading has left what the models expect." : "Off: readings are not judged here. An agent with [output] alarm_rate = 0.001 in its file does.";
    return $("alarms").replaceChildren(element("p", { class: "none" }, text));
  }
  const cells = alarms.slice(0, 8).map((each) => [each.learner, Number.isFinite(seconds(each.time)) ? stamp(seconds(each.time)) : `reading ${count(each.index)}`,
    shown(each.y, state.unit), shown(each.y_hat), each.surprise === null ? "–" : shown(each.surprise)]);
  $("alarms").replaceChildren(table("The last alarms, the newest first", ["learner", "when", "reading", "expected", "p-value"], cells, "cards words"));
}

/* Asking */

function drawAsking(detail) {
  const isOwn = !detail || !state.self || detail.name === state.self;
  $("asking").hidden = !(state.asks && state.publish === "full" && isOwn);
  const key = JSON.stringify(state.inputs);
  if ($("inputs").dataset.key === key) return;
  $("inputs").dataset.key = key;
  const names = state.inputs;
  $("inputs").replaceChildren(...(names.length && names.length <= 24
    ? names.map((name, i) => element("div", {}, element("label", { for: `x-${i}` }, name), element("input", { id: `x-${i}`, inputmode: "decimal", autocomplete: "off" })))
    : [element("div", {}, element("label", { for: "x-all" }, "inputs, separated by commas"), element("textarea", { id: "x-all", rows: "2" }))]));
}

/* A number, a word, or nothing. */
function cell(text) {
  const plain = text.trim();
  return plain === "" ? null : Number.isNaN(Number(plain)) ? plain : Number(plain);
}

function question() {
  const all = $("x-all");
  if (all) return all.value.split(",").map(cell);
  return Object.fromEntries(state.inputs.map((name, i) => [name, cell($(`x-${i}`).value)]));
}

async function ask(event) {
  event.preventDefault();
  const answer = $("answer");
  $("added").replaceChildren();
  try {
    const reply = await fetch("predict", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ x: question(), explain: true }) });
    const found = await reply.json();
    answer.className = reply.ok ? "" : "alert";
    const bounds = Number.isFinite(found.low) ? `, between ${shown(found.low)} and ${shown(found.high)}` : "";
    answer.textContent = reply.ok ? `${state.target || "Prediction"}: ${shown(found.y_hat, state.unit)}${bounds}` : found.error;
    const rows = (found.inputs || []).slice(0, 8).map(([name, added]) => [name, `${added < 0 ? "−" : "+"}${shown(Math.abs(added), state.unit)}`]);
    if (rows.length) $("added").replaceChildren(table("What moves it from the average, the most first", ["input", "adds"], rows, "words"));
  } catch {
    answer.className = "alert";
    answer.textContent = "No answer; is the agent running?";
  }
}

/* Said to screen readers now and then, not every second. */
function speak(own, round) {
  if (!own || Date.now() - spokenAt < 20000) return;
  spokenAt = Date.now();
  const error = Number.isFinite(own.rmse) ? `, error ${shown(own.rmse, state.unit)}` : "";
  const alarms = sum(state.learners, "alarms");
  $("spoken").textContent = `${own.name}: round ${count(round)}${error}${state.alarming || alarms ? `, ${count(alarms)} alarms` : ""}.`;
}

/* Controls */

function isDark() {
  return (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

function themed() {
  $("theme").textContent = isDark() ? "Light" : "Dark";
  for (const plot of [samples, ahead, errors]) if (plot.plot) plot.draw();
}

$("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* private window */ }
  themed();
});
$("pause").addEventListener("click", () => {
  const on = $("pause").getAttribute("aria-pressed") !== "true";
  $("pause").setAttribute("aria-pressed", String(on));
  if (state) render();
});
$("learner").addEventListener("change", (event) => choose(event.target.value));
$("ranges").addEventListener("click", chooseRange);
$("ask").addEventListener("submit", ask);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
try {
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch { /* private window */ }
themed();
connect();
