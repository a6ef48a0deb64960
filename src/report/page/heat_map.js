// The heat maps of the report. The rest is in page.js, whose helpers this uses.

// From light blue over yellow and orange to dark red: it darkens all the way, for those who see no colours, too.
const RAMP = [[206, 226, 245], [252, 229, 170], [238, 141, 51], [150, 25, 20]];
function ramp(share) {
  const at = share * (RAMP.length - 1), i = Math.min(RAMP.length - 2, Math.floor(at));
  return `rgb(${RAMP[i].map((from, channel) => Math.round(from + (at - i) * (RAMP[i + 1][channel] - from))).join(" ")})`;
}

// A cell for each row and stretch of steps; `shade` gives its place between the two colours, or null: none is there. Of a cell
// that the pointer or the arrow keys choose, `named(first, last)` names the row, or the rows that share it, and `text` the value.
function heatMap(parent, map, label, shade, named, text) {
  const {cells} = map, columns = cells.length, rows = cells[0].length;
  const box = element(parent, "div", {class: "heat", style: `height:${Math.min(300, Math.max(40, 14 * rows))}px`});
  const canvas = element(box, "canvas", {width: columns, height: rows, role: "img", tabindex: "0",
                                         "aria-label": `${label}. Arrow keys read values.`});
  const context = canvas.getContext("2d");
  cells.forEach((column, c) => column.forEach((value, r) => {
    const share = shade(value);
    if (share === null) return;
    context.fillStyle = ramp(share);
    context.fillRect(c, r, 1, 1);
  }));
  const cursor = element(box, "div", {class: "cell", hidden: ""});
  const output = element(parent, "div", {class: "readout", "aria-live": "polite"});
  const at = {column: 0, row: 0};
  function show(column, row) {
    at.column = Math.max(0, Math.min(columns - 1, column));
    at.row = Math.max(0, Math.min(rows - 1, row));
    cursor.hidden = false;
    cursor.style = `left:${100 * at.column / columns}%;top:${100 * at.row / rows}%;width:${100 / columns}%;height:${100 / rows}%`;
    const first = Math.ceil(at.row * map.rows / rows), last = Math.ceil((at.row + 1) * map.rows / rows) - 1;
    const begin = map.first_steps[at.column], end = map.steps[at.column];
    output.textContent = `${begin === end ? `step ${end}` : `steps ${begin} to ${end}`}, ${named(first, last)}: ${text(cells[at.column][at.row])}`;
  }
  canvas.addEventListener("focus", () => show(at.column, at.row));
  canvas.addEventListener("pointermove", event => {
    const place = canvas.getBoundingClientRect();
    show(Math.floor((event.clientX - place.left) / place.width * columns), Math.floor((event.clientY - place.top) / place.height * rows));
  });
  canvas.addEventListener("keydown", event => {
    const moves = {ArrowLeft: [at.column - 1, at.row], ArrowRight: [at.column + 1, at.row], ArrowUp: [at.column, at.row - 1],
                   ArrowDown: [at.column, at.row + 1], Home: [0, at.row], End: [columns - 1, at.row]};
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(...moves[event.key]);
  });
}
