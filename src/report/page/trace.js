"use strict";
// The part of the report that shows a trace: who works when, and what is sent. The rest is in page.js, whose helpers this uses.

const KINDS = ["forward", "backward", "optimizer", "data", "communication", "device", "validation", "checkpoint"];
// From a microsecond on.
const span = seconds => seconds < 1e-3 ? `${digits(1e6 * seconds)} µs` : seconds < 1 ? `${digits(1e3 * seconds)} ms` : duration(seconds);
const kindColor = kind => kind === "waiting" ? "var(--idle)" : color(Math.max(0, KINDS.indexOf(kind)));

function drawTraces() {
  const place = document.getElementById("trace");
  place.replaceChildren();
  for (const run of data.runs) {
    if (!run.trace) {
      element(place, "p", {}, `${run.name}: ${run.trace_note}`);
      continue;
    }
    const {trace} = run, [least, median, most] = trace.exposed;
    drawTimeline(place, run);
    element(place, "p", {class: "readout"}, `${trace.file}, steps ${trace.first} to ${trace.last}: exposed communication takes ${percent(median)} of the ` +
      `training time (median of ${trace.ranks} ranks; ${percent(least)} to ${percent(most)}). The clocks of the ranks agree to ${span(trace.clock_error)}.` +
      (trace.kernels ? ` Kernels: ${trace.kernels}.` : ""));
    if (trace.operations.length > 0)
      table(place, ["group", "operation", "ranks", "calls a step", "bytes a step", "time of a call", "exposed"],
            trace.operations.map(o => [o.group, o.operation, o.ranks, short(o.calls), bytes(o.bytes), span(o.seconds), percent(o.exposed)]));
    drawMessages(place, run);
  }
}

// A row for each rank, a rectangle for each piece of its time.
function drawTimeline(place, run) {
  const {timeline} = run.trace, card = element(place, "figure", {class: "card wide"});
  element(card, "h3", {}, `${run.name}: step ${timeline.step}, rank by rank`);
  const rows = timeline.rows, width = Math.max(280, card.clientWidth - 28), high = rows.length > 32 ? 5 : 20, left = rows.length > 32 ? 8 : 56;
  const height = TOP + rows.length * high + 22, units = 100000, px = t => left + (width - left - RIGHT) * t / units;
  const shares = rows.map(row => row.pieces.reduce((sum, [begin, end, kind]) => timeline.kinds[kind] === "waiting" ? sum + end - begin : sum, 0) / units);
  const svg = element(card, "svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "aria-label":
    `Timeline of step ${timeline.step}: ${rows.length} ranks over ${span(timeline.seconds)}; ranks wait from ${percent(Math.min(...shares))} to ` +
    `${percent(Math.max(...shares))} of it. Left and right arrow keys read what each does; up and down choose a rank, and left and right then its next piece.`});
  rows.forEach((row, i) => {
    const y = TOP + i * high;
    if (high >= 12) element(svg, "text", {x: left - 6, y: y + 14, "text-anchor": "end"}, `rank ${row.rank}`);
    for (const [begin, end, kind, microBatch] of row.pieces) {
      const what = timeline.kinds[kind], wide = px(end) - px(begin);
      const box = element(svg, "rect", {x: px(begin).toFixed(1), y, width: Math.max(0.4, wide).toFixed(1), height: high - (high > 8 ? 2 : 0), fill: kindColor(what)});
      if (rows.length <= 32) element(box, "title", {}, `rank ${row.rank}, ${row.label}: ${what}${microBatch >= 0 ? ` of micro-batch ${microBatch}` : ""}, ${span(timeline.seconds * (end - begin) / units)}`);
      if (high >= 12 && microBatch >= 0 && wide > 16) element(svg, "text", {class: "inside", x: ((px(begin) + px(end)) / 2).toFixed(1), y: y + 14, "text-anchor": "middle"}, String(microBatch));
    }
  });
  for (const mark of ticks(0, timeline.seconds, 5))
    element(svg, "text", {x: px(units * mark / timeline.seconds), y: height - 4, "text-anchor": "middle"}, span(mark));
  legend(card, timeline.kinds.map(kind => ({label: kind === "waiting" ? "waiting for other ranks" : kind, color: kindColor(kind)})));
  const output = element(card, "div", {class: "readout", "aria-live": "polite"});
  const cursor = element(svg, "line", {class: "cursor", y1: TOP, y2: height - 22, x1: -10, x2: -10});
  const frame = element(svg, "rect", {class: "frame", x: left, width: width - left - RIGHT, y: -high - 10, height: high});
  let at = 0, chosen = -1;  // a row; -1: all
  const pieceOf = row => row.pieces.find(([begin, end]) => begin <= at && at < end);
  const named = ([, , kind, microBatch]) => timeline.kinds[kind] + (microBatch >= 0 ? ` ${microBatch}` : "");
  function ofAll() {
    const doing = row => `rank ${row.rank} ${pieceOf(row) ? named(pieceOf(row)) : "between phases"}`;
    return rows.slice(0, 16).map(doing).join(", ") + (rows.length > 16 ? ", ..." : "");
  }
  function ofRow(row) {
    const piece = pieceOf(row);
    return `rank ${row.rank}, ${row.label}: ` + (piece ? `${named(piece)} for ${span(timeline.seconds * (piece[1] - piece[0]) / units)}` : "between phases");
  }
  function show(moment, row) {
    at = Math.max(0, Math.min(units, moment));
    chosen = Math.max(-1, Math.min(rows.length - 1, row));
    cursor.setAttribute("x1", px(at));
    cursor.setAttribute("x2", px(at));
    frame.setAttribute("y", TOP + chosen * high - (chosen < 0 ? 20 : 0));
    output.textContent = `${span(timeline.seconds * at / units)}: ` + (chosen < 0 ? ofAll() : ofRow(rows[chosen]));
  }
  // Where the row's next piece begins, or the one before.
  function beside(row, forward) {
    const begins = row.pieces.map(piece => piece[0]).filter(begin => forward ? begin > at : begin < at);
    return begins.length === 0 ? at : forward ? Math.min(...begins) : Math.max(...begins);
  }
  const moved = forward => chosen < 0 ? at + (forward ? 1 : -1) * units / 100 : beside(rows[chosen], forward);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    show(((event.clientX - box.left) / box.width * width - left) / (width - left - RIGHT) * units, -1);
  });
  svg.addEventListener("keydown", event => {
    const moves = {ArrowLeft: () => show(moved(false), chosen), ArrowRight: () => show(moved(true), chosen), ArrowUp: () => show(at, chosen - 1),
                   ArrowDown: () => show(at, chosen + 1), Home: () => show(0, chosen), End: () => show(units, chosen)};
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  });
}

// From sender (row) to receiver (column), darker the more.
function drawMessages(place, run) {
  const {messages, ranks} = run.trace;
  if (messages.flows.length === 0) return;
  if (!messages.matrix) {
    element(place, "h3", {}, `${run.name}: the largest of ${messages.all} flows of messages from rank to rank`);
    table(place, ["from", "to", "bytes a step"], messages.flows.map(([from, to, sent]) => [`rank ${from}`, `rank ${to}`, bytes(sent)]));
    return;
  }
  element(place, "h3", {}, `${run.name}: messages from rank to rank, bytes a step`);
  const made = element(element(place, "div", {class: "scroll", tabindex: "0"}), "table");
  const head = element(element(made, "thead"), "tr");
  element(head, "th", {scope: "col"}, "from, to");
  for (let to = 0; to < ranks; ++to) element(head, "th", {scope: "col"}, `rank ${to}`);
  const body = element(made, "tbody"), most = Math.max(...messages.flows.map(flow => flow[2]), 1);
  for (let from = 0; from < ranks; ++from) {
    const line = element(body, "tr");
    element(line, "th", {scope: "row"}, `rank ${from}`);
    for (let to = 0; to < ranks; ++to) {
      const flow = messages.flows.find(([a, b]) => a === from && b === to);
      const shade = flow ? `background:color-mix(in srgb, var(--c0) ${Math.round(10 + 40 * flow[2] / most)}%, transparent)` : "";
      element(line, "td", {style: shade}, flow ? bytes(flow[2]) : "");
    }
  }
}

