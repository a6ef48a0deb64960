// Draws the report from the JSON in #data. Plain SVG, no library. Behind trace.js and heat_map.js in one script.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 280, LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 34;  // of a picture, in pixels
const state = {axis: "steps", log: false, raw: true};

function element(parent, name, attributes = {}, text = "") {
  const made = parent.namespaceURI === SVG || name === "svg" ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  parent.append(made);
  return made;
}

const color = index => `var(--c${index % 8})`;

// ---- numbers ---------------------------------------------------------------------------------------------------------------

function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return "not finite";
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "K"]]) {
    if (size >= unit) return digits(value / (letter === "K" ? 1e3 : unit)) + letter;
  }
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return trim(value.toPrecision(4));
}
const digits = value => Math.abs(value) >= 999.5 ? String(Math.round(value)) : trim(value.toPrecision(3));
const trim = text => text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
const percent = value => trim((100 * value).toPrecision(3)) + " %";
function bytes(value) {
  let unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return digits(value) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}
function duration(seconds) {
  if (seconds < 120) return digits(seconds) + " s";
  if (seconds < 7200) return digits(seconds / 60) + " min";
  return digits(seconds / 3600) + " h";
}

// Round numbers between two bounds, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) list.push(i * step);
  return list;
}
function logTicks(low, high) {
  const list = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    for (const m of high / low > 50 ? [1] : [1, 2, 3, 5, 7]) {
      const tick = m * 10 ** power;
      if (tick >= low && tick <= high) list.push(tick);
    }
  }
  return list.length > 1 ? list : ticks(low, high, 4);
}

// Where a step is on the chosen axis: between two points of the run's own table by a straight line.
function onAxis(run, step) {
  const table = run.axes[state.axis];
  if (state.axis === "steps" || !table || table.x.length === 0) return step;
  let low = 0, high = table.x.length - 1;
  if (step <= table.x[0]) return table.y[0] * step / Math.max(1, table.x[0]);
  if (step >= table.x[high]) return table.y[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (table.x[middle] <= step) low = middle; else high = middle;
  }
  const share = (step - table.x[low]) / (table.x[high] - table.x[low]);
  return table.y[low] + share * (table.y[high] - table.y[low]);
}
const axisText = value => state.axis === "seconds" ? duration(value) : short(value);
const axisName = () => state.axis === "seconds" ? "time of the steps" : state.axis === "units" ? data.runs[0].unit : "step";

// ---- charts ----------------------------------------------------------------------------------------------------------------

// lines: {label, color, run, points: {x: steps, y}, faint?, dots?, dashed?, below?}. Points whose y is null break a line; `below`, as
// many values as y, makes it an area.
function chart(parent, title, lines, options = {}) {
  const text = options.text || short, log = options.log === true;
  const drawn = lines.filter(line => line.points && line.points.x.length > 0);
  if (drawn.length === 0) return;
  const card = element(parent, "figure", {class: options.wide ? "card wide" : "card"});
  element(card, "h3", {}, title);
  const height = options.height || HEIGHT, WIDTH = Math.max(280, card.clientWidth - 28);  // so that text has one size everywhere
  const usable = value => value !== null && isFinite(value) && (!log || value > 0);
  const bounds = drawn.flatMap(line => line.points.y.filter(usable));
  if (bounds.length === 0) bounds.push(log ? 1 : 0, log ? 10 : 1);
  let low = bounds.reduce((a, b) => Math.min(a, b)), high = bounds.reduce((a, b) => Math.max(a, b));
  if (options.fromZero) low = Math.min(0, low);
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const marks = log ? logTicks(low, high) : ticks(low, high, 5);
  const right = Math.max(...drawn.map(line => onAxis(line.run, line.points.x[line.points.x.length - 1])));
  let left = Math.min(...drawn.map(line => onAxis(line.run, line.points.x[0])));
  if (left === right) left -= 1;  // one step alone
  const px = value => LEFT + (WIDTH - LEFT - RIGHT) * (value - left) / (right - left);
  const scale = value => log ? Math.log(value) : value;
  const py = value => height - BOTTOM - (height - TOP - BOTTOM) * (scale(value) - scale(low)) / (scale(high) - scale(low));
  const svg = element(card, "svg", {viewBox: `0 0 ${WIDTH} ${height}`, role: "img", tabindex: "0",
                                    "aria-label": `${title}: ${drawn.map(describe).join("; ")}. Left and right arrow keys read values.`});
  function describe(line) {
    const values = line.points.y.filter(usable);
    return values.length === 0 ? `${line.label}: no finite value` : `${line.label} from ${text(values[0])} to ${text(values[values.length - 1])}`;
  }
  for (const mark of marks) {
    element(svg, "line", {class: "gridline", x1: LEFT, x2: WIDTH - RIGHT, y1: py(mark), y2: py(mark)});
    element(svg, "text", {x: LEFT - 6, y: py(mark) + 4, "text-anchor": "end"}, text(mark));
  }
  for (const mark of ticks(left, right, 5))
    element(svg, "text", {x: px(mark), y: height - 16, "text-anchor": "middle"}, axisText(mark));
  element(svg, "line", {class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM});
  element(svg, "text", {x: WIDTH - RIGHT, y: height - 2, "text-anchor": "end"}, axisName());
  for (const line of drawn) {
    if (line.below) {
      const edge = (values, i) => `${px(onAxis(line.run, line.points.x[i])).toFixed(1)} ${py(values[i]).toFixed(1)}`;
      const there = line.points.x.map((_, i) => edge(line.points.y, i)), back = line.points.x.map((_, i) => edge(line.below, i)).reverse();
      element(svg, "path", {d: `M${[...there, ...back].join("L")}Z`, fill: line.color, opacity: 0.85});
      continue;
    }
    let path = "", open = false;
    line.points.x.forEach((step, i) => {
      const value = line.points.y[i];
      if (!usable(value)) { open = false; return; }
      const y = Math.min(height - BOTTOM, Math.max(TOP, py(value)));
      path += `${open ? "L" : "M"}${px(onAxis(line.run, step)).toFixed(1)} ${y.toFixed(1)}`;
      open = true;
      if (line.dots) element(svg, "circle", {cx: px(onAxis(line.run, step)), cy: y, r: 3, fill: line.color});
    });
    element(svg, "path", {d: path, fill: "none", stroke: line.color, "stroke-width": line.faint ? 1 : 2, opacity: line.faint ? 0.3 : 1,
                          "stroke-dasharray": line.dashed ? "6 4" : "none", "stroke-linejoin": "round"});
  }
  legend(card, drawn.filter(line => !line.faint));
  readout(card, svg, drawn.filter(line => !line.faint), text, px, height, WIDTH);
}

function legend(parent, lines) {
  const list = element(parent, "div", {class: "legend"});
  for (const line of lines) {
    const entry = element(list, "span");
    element(entry, "span", {class: "swatch", style: `background:${line.color}`});
    entry.append(line.label);
  }
}

// The values where the pointer is, or where the arrow keys have moved the cursor.
function readout(card, svg, lines, text, px, height, width) {
  const output = element(card, "div", {class: "readout", "aria-live": "polite"});
  const cursor = element(svg, "line", {class: "cursor", y1: TOP, y2: height - BOTTOM, x1: -10, x2: -10});
  const longest = lines.reduce((a, b) => b.points.x.length > a.points.x.length ? b : a);
  let at = -1;
  function show(index) {
    at = Math.max(0, Math.min(longest.points.x.length - 1, index));
    const step = longest.points.x[at];
    cursor.setAttribute("x1", px(onAxis(longest.run, step)));
    cursor.setAttribute("x2", px(onAxis(longest.run, step)));
    output.textContent = `step ${step}: ` + lines.map(line => value(line, step)).filter(part => part !== "").join(", ");
  }
  // What a line has there; of one with other steps the nearest, which is named; nothing beyond its ends.
  function value(line, step) {
    const steps = line.points.x;
    if (step < steps[0] || step > steps[steps.length - 1]) return "";
    const i = nearest(steps, step);
    return `${line.label} ${text((line.own || line.points.y)[i])}` + (steps[i] === step ? "" : ` (step ${steps[i]})`);
  }
  function nearest(steps, step) {
    let best = 0;
    steps.forEach((one, i) => { if (Math.abs(one - step) < Math.abs(steps[best] - step)) best = i; });
    return best;
  }
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * width;
    let best = 0;
    longest.points.x.forEach((step, i) => {
      if (Math.abs(px(onAxis(longest.run, step)) - x) < Math.abs(px(onAxis(longest.run, longest.points.x[best])) - x)) best = i;
    });
    show(best);
  });
  svg.addEventListener("keydown", event => {
    const stride = Math.max(1, Math.round(longest.points.x.length / 50));
    const moves = {ArrowLeft: at - stride, ArrowRight: at + stride, Home: 0, End: longest.points.x.length - 1};
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
}

// ---- the page --------------------------------------------------------------------------------------------------------------

const runColor = run => color(data.runs.indexOf(run));
const of = (name, extra = {}) => data.runs.map(run => ({label: run.name, color: runColor(run), run, points: run.curves[name], ...extra}));
const some = name => data.runs.some(run => run.curves[name]);

function drawCurves() {
  const place = document.getElementById("curves");
  place.replaceChildren();
  const loss = [], floors = new Set();
  for (const run of data.runs) {
    if (state.raw) loss.push({label: run.name, color: runColor(run), run, points: run.curves.loss, faint: true});
    loss.push({label: `${run.name}, smoothed`, color: runColor(run), run, points: run.curves.smooth});
    if (run.curves.validation) loss.push({label: `${run.name}, validation (dashed)`, color: runColor(run), run, points: run.curves.validation, dots: true, dashed: true});
    if (run.floor !== null && run.curves.loss && !floors.has(run.floor)) {
      const x = run.curves.loss.x;
      floors.add(run.floor);
      loss.push({label: "entropy of the corpus", color: "var(--soft)", run, points: {x: [x[0], x[x.length - 1]], y: [run.floor, run.floor]}, dashed: true});
    }
  }
  chart(place, "Loss (nats)", loss, {wide: true, height: 380, log: state.log});
  if (some("bits_per_byte")) chart(place, "Validation, bits per byte", of("bits_per_byte", {dots: true}));
  chart(place, "Learning rate", of("learning_rate"), {fromZero: true});
  chart(place, "Gradient norm, before clipping", of("gradient_norm"), {log: true});
  chart(place, data.runs[0].unit === "tokens" ? "Tokens per second" : "Samples per second", of("rate"), {fromZero: true});
  if (some("mfu")) chart(place, "Model FLOPs utilisation", of("mfu"), {fromZero: true, text: percent});
  if (some("memory")) chart(place, "Memory of the rank that uses most", of("memory"), {fromZero: true, text: bytes});
  if (some("exposed")) chart(place, "Exposed communication, of the training time (rank 0)", of("exposed"), {fromZero: true, text: percent});
  if (some("loss_scale")) chart(place, "Loss scale (fp16)", of("loss_scale"), {log: true});
}

// Each phase above those before it.
function drawPhases() {
  const place = document.getElementById("phases");
  place.replaceChildren();
  for (const run of data.runs) {
    const lines = [];
    let below = null;
    Object.entries(run.phases).forEach(([name, points], i) => {
      below = below || points.y.map(() => 0);
      const y = points.y.map((value, k) => (value || 0) + below[k]);
      lines.push({label: name, color: color(i), run, points: {x: points.x, y}, below, own: points.y});
      below = y;
    });
    chart(place, `${run.name}: seconds of a step, one phase upon the other`, lines, {fromZero: true, text: duration});
  }
  if (place.childElementCount === 0) element(place, "p", {}, "No step has its times.");
}

function drawSummary() {
  document.getElementById("runs").textContent = data.runs.map(run => run.folder).join(" · ");
  document.getElementById("unit").textContent = data.runs[0].unit;
  document.getElementById("footer").textContent = `Written by cohort ${data.version}.`;
  const place = document.getElementById("summary");
  for (const run of data.runs) {
    const head = element(place, "h3");
    element(head, "span", {class: "swatch", style: `background:${runColor(run)}`});
    head.append(run.layout ? `${run.name}, ${run.layout}` : run.name);
    const tiles = element(place, "dl", {class: "tiles"});
    for (const [label, value] of run.tiles) {
      const tile = element(tiles, "div");
      element(tile, "dt", {}, label);
      element(tile, "dd", {}, value);
    }
  }
}

function drawFindings() {
  const place = document.getElementById("findings");
  let count = 0;
  for (const run of data.runs) {
    for (const text of [...run.notes, ...run.findings.map(finding => finding.text)]) {
      element(place, "p", {class: "note"}, data.runs.length > 1 ? `${run.name}: ${text}` : text);
      ++count;
    }
  }
  if (count === 0) element(place, "p", {}, "Nothing stands out.");
}

const between = map => `steps ${map.steps[0]} to ${map.steps[map.steps.length - 1]}`;
const within = share => Math.max(0, Math.min(1, share));

// As dark as the rank is slower than the median.
function drawRanks() {
  const place = document.getElementById("ranks");
  for (const run of data.runs.filter(run => run.ranks)) {
    const most = run.ranks.cells.flat().reduce((a, b) => Math.max(a, b === null ? 1 : b), 1.3);
    element(place, "h3", {}, `${run.name}: own work of each rank, as a multiple of the median of its pipeline stage`);
    heatMap(place, run.ranks, `${run.ranks.rows} ranks over ${between(run.ranks)}; the largest multiple is ${short(most)}`,
            value => within(((value || 1) - 1) / (most - 1)), (first, last) => first === last ? `rank ${first}` : `ranks ${first} to ${last}`,
            value => value === null ? "no time" : `${short(value)} times the median`);
    element(place, "p", {class: "readout"}, `Rank 0 is the top row, rank ${run.ranks.rows - 1} the bottom one; ${between(run.ranks)} from left to right. Blue: as fast as the median. Red: ${short(most)} times as long.`);
  }
  if (place.childElementCount === 0) element(place, "p", {}, "One rank, or a run of an older version: there is nothing to compare.");
}

// On a logarithmic scale: norms of layers differ by orders of magnitude.
function drawGradients() {
  const place = document.getElementById("gradients");
  for (const run of data.runs.filter(run => run.gradients)) {
    const {units} = run.gradients, norms = run.gradients.cells.flat().filter(value => value !== null && value > 0);
    const low = norms.reduce((a, b) => Math.min(a, b), Infinity), high = norms.reduce((a, b) => Math.max(a, b), 0);
    element(place, "h3", {}, `${run.name}: norm of the gradient of each layer, before clipping`);
    if (norms.length === 0) { element(place, "p", {}, "No norm is finite."); continue; }
    heatMap(place, run.gradients, `${units.length} layers over ${between(run.gradients)}; norms from ${short(low)} to ${short(high)}`,
            value => value === null || value <= 0 ? null : high === low ? 0.5 : within(Math.log(value / low) / Math.log(high / low)),
            (first, last) => first === last ? units[first] : `${units[first]} to ${units[last]}`, value => value === null ? "none, or not finite" : short(value));
    element(place, "p", {class: "readout"}, `${units[0]} is the top row, ${units[units.length - 1]} the bottom one; ${between(run.gradients)} from left to right. Blue: ${short(low)}. Red: ${short(high)}, on a logarithmic scale. Empty: none, or not finite.`);
    const last = run.gradients.cells[run.gradients.cells.length - 1];
    if (units.length <= last.length)
      table(element(place, "details"), ["layer", "norm at the end"], units.map((unit, i) => [unit, short(last[i])]), "The last column as a table");
  }
  if (place.childElementCount === 0) element(place, "p", {}, "Not recorded: observe.layers_every is 0, or a run of an older version.");
}

function table(parent, header, rows, summary = "") {
  if (summary !== "") element(parent, "summary", {}, summary);
  const made = element(element(parent, "div", {class: "scroll", tabindex: "0"}), "table");
  const head = element(element(made, "thead"), "tr");
  for (const title of header) element(head, "th", {scope: "col"}, title);
  const body = element(made, "tbody");
  for (const row of rows) {
    const line = element(body, "tr");
    for (const value of row) element(line, "td", {}, String(value));
  }
}

function drawPlanned() {
  const place = document.getElementById("planned");
  for (const run of data.runs) {
    element(place, "h3", {}, run.name);
    if (run.memory_plan) table(place, ["memory of a rank", "bytes"], run.memory_plan.map(([kind, value]) => [kind, bytes(value)]));
    if (run.traffic && run.traffic.length > 0)
      table(place, ["group", "operation", "for", "ranks", "calls a step", "given", "moved"],
            run.traffic.map(t => [t.group, t.operation, t.purpose, t.ranks, t.calls, bytes(t.given), bytes(t.moved)]));
    if (run.plan_note) element(place, "p", {class: "readout"}, run.plan_note);
  }
}

function drawLists() {
  for (const run of data.runs) {
    const checkpoints = document.getElementById("checkpoints");
    element(checkpoints, "h3", {}, run.name);
    if (run.checkpoints.length > 0) table(checkpoints, ["step", "size"], run.checkpoints.map(c => [c.step, c.size]));
    else element(checkpoints, "p", {}, "None.");
    const samples = document.getElementById("samples");
    for (const sample of run.samples) {
      element(samples, "h3", {}, `${run.name}, step ${sample.step}`);
      element(samples, "pre", {tabindex: "0"}, sample.text);
    }
    const files = element(document.getElementById("files"), "details");
    element(files, "summary", {}, `${run.folder}/run.toml`);
    element(files, "pre", {tabindex: "0"}, run.run_file || "not there");
  }
  if (data.runs.every(run => run.samples.length === 0)) element(document.getElementById("samples"), "p", {}, "None.");
}

document.getElementById("controls").addEventListener("change", event => {
  const input = event.target;
  if (input.name === "axis") state.axis = input.value; else state[input.name] = input.checked;
  drawCurves();
  drawPhases();
});
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;  // a phone's bars come and go
  width = window.innerWidth;
  drawCurves();
  drawPhases();
  drawTraces();
});

drawSummary();
drawFindings();
drawCurves();
drawPhases();
drawTraces();
drawRanks();
drawGradients();
drawPlanned();
drawLists();
