// The evidence tree: a row for each layer, role and channel, a cell for each call, steered by pointer or keys.

const SVG = "http://www.w3.org/2000/svg";
let rows, home = [], selected = -1; // home: a call's row, and where it is in that row
const RANK = { irrelevant: 0, plain: 1, background: 2, direct: 3, lost: 4 };
const WORDS = { irrelevant: "irrelevant", background: "background", direct: "direct evidence", lost: "no reply", plain: "not judged" };

function kind(node) {
  if (node.status === "cancelled") return "plain";
  if (node.status !== "ok" && node.status !== "malformed") return "lost";
  return node.relevance === undefined ? "plain" : ["irrelevant", "background", "direct"][node.relevance];
}

/** The part of the document behind a call: its window, or all that its parents read. */
function reaches() {
  const out = [];
  nodes.forEach((node, i) => {
    if (node.window) out[i] = unitSpan(node.window);
    else if (node.parents.some((p) => out[p].length)) {
      const parents = node.parents.map((p) => out[p]).filter((span) => span.length);
      out[i] = [Math.min(...parents.map((s) => s[0])), Math.max(...parents.map((s) => s[1]))];
    } else out[i] = [];
  });
  return out;
}

const stageName = (number) => (number < 0 ? "Question" : number === Infinity ? "Answer" : `Layer ${number}`);

/**
 * A row for each stage, role and channel, in the order in which their calls depend on one another. A stage is a layer,
 * or what comes before or after all layers: a call that reads no window and belongs to no layer above 0.
 */
function arrange() {
  const reach = reaches(), found = new Map(), depth = [], soonest = {};
  const channels = [...new Set(nodes.map((node) => node.channel))], begun = nodes.findIndex((node) => node.window);
  nodes.forEach((node, i) => {
    const stage = node.window || node.layer ? node.layer : i < begun ? -1 : Infinity;
    const step = `${stage} ${node.role}`, key = JSON.stringify([stage, node.role, node.channel]);
    depth[i] = 1 + Math.max(0, ...node.parents.map((p) => depth[p]));
    soonest[step] = Math.min(soonest[step] ?? Infinity, depth[i]);
    if (!found.has(key)) found.set(key, { ...node, ids: [], stage, step });
    found.get(key).ids.push(i);
  });
  const place = (row) => [row.stage, soonest[row.step], channels.indexOf(row.channel), row.ids[0]];
  const order = (a, b) => place(a).map((value, k) => (value < place(b)[k] ? -1 : +(value > place(b)[k]))).find(Boolean);
  return [...found.values()].sort(order).map((row) => layOut(row, reach));
}

/** Where the row's cells are, as shares of its width: by place in the document, or side by side where that can't be. */
function layOut(row, reach) {
  const spans = row.ids.map((i) => reach[i]);
  const placed = text && spans.every((span, k) => span.length && (k === 0 || span[0] > spans[k - 1][0]));
  row.cells = spans.map((span, k) => {
    if (!placed) return [k / spans.length, (k + 1) / spans.length];
    const end = k + 1 < spans.length ? Math.min(span[1], spans[k + 1][0]) : span[1];
    return [span[0] / text.length, end / text.length];
  });
  row.ids.forEach((id, k) => (home[id] = [row, k]));
  return row;
}

function showTree() {
  const tree = $("tree");
  const cited = h("div", { className: "track ticks" });
  citations.forEach(({ span }, i) => {
    const tick = h("button", { type: "button", className: "tick", "aria-label": `Citation ${i + 1}` }, i + 1);
    tick.style.left = `${(100 * span[0]) / Math.max(text.length, 1)}%`;
    tick.addEventListener("click", () => cite(i));
    cited.append(tick);
  });
  tree.append(h("div", { className: "row" }, h("div", { className: "label" }, h("span", null, "cited")), cited));
  rows.forEach((row, r) => {
    if (row.stage !== rows[r - 1]?.stage) tree.append(h("p", { className: "layer" }, stageName(row.stage)));
    row.canvas = document.createElement("canvas");
    row.track = h("div", { className: "track", tabIndex: 0, role: "slider" }, row.canvas);
    row.track.setAttribute("aria-label", `${stageName(row.stage)}, ${visible(row.role)} ${visible(row.channel)}`);
    row.track.setAttribute("aria-valuemin", 1);
    row.track.setAttribute("aria-valuemax", row.ids.length);
    row.at = 0;
    row.track.addEventListener("pointermove", (event) => tell(row, nearest(row, event)));
    row.track.addEventListener("pointerleave", () => tellSelected());
    row.track.addEventListener("click", (event) => select(row.ids[nearest(row, event)]));
    row.track.addEventListener("focus", () => describe(row));
    row.track.addEventListener("keydown", (event) => steer(event, r));
    const label = h("div", { className: "label", title: visible(`${row.role} ${row.channel}`) }, h("span", null, row.role), isolated(row.channel));
    tree.append(h("div", { className: "row" }, label, row.track));
    describe(row);
  });
  const axis = h("div", { className: "track axis", "aria-hidden": "true" });
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const { source, where } = place(Math.floor(share * text.length));
    const tick = h("span", null, data.sources.length > 1 ? `${source}, ${where}` : where);
    tick.style.left = `${100 * share}%`;
    axis.append(tick);
  }
  tree.append(h("div", { className: "row" }, h("div", { className: "label" }), axis));
  const overlay = h("div", { id: "overlay", "aria-hidden": "true" }, h("div", { id: "view" }));
  const lines = document.createElementNS(SVG, "svg");
  lines.append(document.createElementNS(SVG, "path"));
  overlay.append(lines);
  tree.append(overlay);
  new ResizeObserver(() => draw()).observe(tree);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
}

/** The cell under the pointer; where cells are thinner than a finger, the one that tells most. */
function nearest(row, event) {
  const box = row.track.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width, reach = (event.pointerType === "touch" ? 8 : 2) / box.width;
  let best = Math.min(Math.max(below(row.cells, x, (cell) => cell[0]) - 1, 0), row.cells.length - 1);
  if (row.cells[best][1] - row.cells[best][0] > 2 * reach) return best;
  for (let k = 0; k < row.cells.length; k++) {
    const near = row.cells[k][1] >= x - reach && row.cells[k][0] <= x + reach;
    if (near && RANK[kind(nodes[row.ids[k]])] > RANK[kind(nodes[row.ids[best]])]) best = k;
  }
  return best;
}

function steer(event, r) {
  const row = rows[r], last = row.ids.length - 1;
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
  if (event.key in steps) {
    select(row.ids[Math.min(Math.max(row.at + steps[event.key], 0), last)]);
  } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const other = rows[r + (event.key === "ArrowUp" ? -1 : 1)];
    if (other) {
      const x = (row.cells[row.at][0] + row.cells[row.at][1]) / 2;
      other.track.focus({ preventScroll: true });
      select(other.ids[Math.max(0, Math.min(below(other.cells, x, (cell) => cell[0]), other.ids.length) - 1)]);
    }
  } else if (event.key === "Enter" || event.key === " ") {
    select(row.ids[row.at]);
  } else return;
  event.preventDefault();
}

function title(id) {
  const node = nodes[id], [row, k] = home[id];
  const which = row.ids.length > 1 ? `, ${k + 1} of ${number.format(row.ids.length)}` : "";
  return `${node.role}${node.channel ? ` ${node.channel}` : ""}${which}`;
}

function describe(row) {
  row.track.setAttribute("aria-valuenow", row.at + 1);
  row.track.setAttribute("aria-valuetext", `${visible(title(row.ids[row.at]))}: ${WORDS[kind(nodes[row.ids[row.at]])]}`);
}

function tell(row, k) {
  const node = nodes[row.ids[k]];
  const where = node.window ? place(units(node.window[0])) : null;
  const score = node.score === undefined ? "" : ` (${node.score.toFixed(2)})`;
  $("readout").replaceChildren(
    isolated(title(row.ids[k])), kind(node) === "plain" ? "" : ` · ${WORDS[kind(node)]}${score}`, ...(where ? [" · from ", isolated(where.where)] : []),
  );
}

function tellSelected() {
  if (selected >= 0) tell(...home[selected]);
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const colours = Object.fromEntries(Object.keys(RANK).map((name) => [name, colour(name)]));
  const ink = colour("ink"), used = new Set(data.used);
  for (const row of rows) {
    const ratio = window.devicePixelRatio || 1;
    const width = row.track.clientWidth, height = row.track.clientHeight;
    row.canvas.width = Math.round(width * ratio);
    row.canvas.height = Math.round(height * ratio);
    const pen = row.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const floor = height - 5, tall = floor - 1;
    const order = row.ids.map((id, k) => [RANK[kind(nodes[id])], id, k]).sort((a, b) => a[0] - b[0]);
    for (const [, id, k] of order) {
      const what = kind(nodes[id]);
      const left = row.cells[k][0] * width, full = (row.cells[k][1] - row.cells[k][0]) * width;
      const wide = Math.max(full - (full > 4 ? 1 : 0), what === "irrelevant" || what === "plain" ? 0.8 : 1.6);
      pen.fillStyle = colours[what];
      if (what === "irrelevant") pen.fillRect(left, floor - tall * 0.16, wide, tall * 0.16);
      else if (what === "background") pen.fillRect(left, floor - tall * 0.5, wide, tall * 0.5);
      else if (what === "direct") pen.fillRect(left, floor - tall, wide, tall);
      else if (what === "plain") pen.fillRect(left, floor - tall * 0.62, wide, tall * 0.3);
      else for (let y = floor - tall; y < floor - 1; y += 5) pen.fillRect(left, y, wide, 3);
      if (nodes[id].status === "malformed") {
        pen.fillStyle = colours.lost;
        pen.fillRect(left, floor - tall, wide, 3);
      }
      if (used.has(id)) {
        pen.fillStyle = ink;
        pen.fillRect(left + Math.max(0, wide / 2 - 1), height - 3, 2, 2);
      }
      if (id === selected) {
        pen.strokeStyle = ink;
        pen.lineWidth = 1.5;
        pen.strokeRect(Math.max(left - 1.5, 0.75), 0.75, Math.min(Math.max(wide + 3, 5), width - 1.5), height - 1.5);
      }
    }
  }
  connect();
  viewport();
}

/** Lines from the selected call to the ones it needed and the ones that needed it. */
function connect() {
  const overlay = $("overlay").getBoundingClientRect();
  const spot = new Map();
  if (selected >= 0) {
    const boxes = new Map(rows.map((row) => [row, row.track.getBoundingClientRect()]));
    for (const id of [selected, ...nodes[selected].parents, ...children[selected]]) {
      const [row, k] = home[id], box = boxes.get(row), middle = (row.cells[k][0] + row.cells[k][1]) / 2;
      spot.set(id, [box.left - overlay.left + middle * box.width, box.top - overlay.top, box.height]);
    }
  }
  const curve = (a, b) => {
    const [x1, top1, height] = spot.get(a), [x2, y2] = spot.get(b), y1 = top1 + height, bend = Math.max((y2 - y1) / 2, 6);
    return `M${x1.toFixed(1)} ${y1.toFixed(1)}C${x1.toFixed(1)} ${(y1 + bend).toFixed(1)} ${x2.toFixed(1)} ${(y2 - bend).toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
  };
  const edges = selected < 0 ? [] : [...nodes[selected].parents.map((p) => curve(p, selected)), ...children[selected].map((c) => curve(selected, c))];
  const path = $("overlay").querySelector("path");
  path.setAttribute("d", edges.join(""));
  path.setAttribute("opacity", edges.length > 60 ? 0.12 : 0.55);
}

/** Shows on the tree which part of the document is in view, and above the document where that is. */
function viewport() {
  if (!blocks.length) return;
  const pane = $("text").getBoundingClientRect();
  const at = (y) => below(blocks, y, (block) => block.element.getBoundingClientRect().bottom);
  const first = blocks[Math.min(at(pane.top + 1), blocks.length - 1)], last = blocks[Math.min(at(pane.bottom - 1), blocks.length - 1)];
  $("view").style.left = `${(100 * first.start) / text.length}%`;
  $("view").style.width = `${(100 * (last.end - first.start)) / text.length}%`;
  const { source } = place(first.start);
  const box = first.element.getBoundingClientRect(), above = Math.max(0, pane.top - box.top) / (box.height || 1);
  const lines = `line ${number.format(first.line + Math.floor(above * first.lines))}`;
  $("place").replaceChildren(isolated(source), h("span", null, first.page ? `page ${number.format(first.page)} · ${lines}` : lines));
}
