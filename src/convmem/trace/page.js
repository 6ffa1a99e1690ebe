"use strict";
// The evidence page: shows an export (its format is described in export.py) and asks nothing of any network.
// Whatever comes from the data reaches the page as text nodes only, through `visible`.

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const SVG = "http://www.w3.org/2000/svg";

// ---- text ----

/** Control and direction characters as visible signs, one for one, so that offsets stay true. */
function visible(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c, at, whole) => {
      if (c === "\r") return whole[at + 1] === "\n" ? "\u200b" : "\n";
      const code = c.charCodeAt(0);
      if (code < 0x20) return String.fromCharCode(0x2400 + code);
      return code === 0x7f ? "\u2421" : "\ufffd";
    },
  );
}

/** From code points, which the data counts, to the UTF-16 units of this text. */
function unitsOf(text) {
  const astral = [];
  for (const match of text.matchAll(/[\u{10000}-\u{10ffff}]/gu)) astral.push(match.index - astral.length);
  return astral.length ? (point) => point + below(astral, point) : (point) => point;
}

/** How many entries of a sorted list are less than `value` (as `key` sees them). */
function below(sorted, value, key = (x) => x) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(sorted[middle]) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** An element with properties, and children that are elements or text. */
function h(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : visible(String(child)))));
  return element;
}

const isolated = (text) => h("bdi", null, text);
const count = (n, one, many = one + "s") => `${number.format(n)} ${n === 1 ? one : many}`;

function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// ---- data ----

let data, nodes, children, text, units, replyUnits;
const CHARACTERS_A_BLOCK = 900, LINES_A_BLOCK = 30, LONGEST_BLOCK = 3000;

async function unfold() {
  const packed = atob($("data").textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = JSON.parse(await new Response(stream).text());
  nodes = data.nodes;
  children = nodes.map(() => []);
  nodes.forEach((node, i) => node.parents.forEach((parent) => children[parent].push(i)));
  text = data.sources.map((source) => source.text).join("");
  units = unitsOf(text);
  replyUnits = new Map();
}

/** A span of the document, from code points to units. */
const unitSpan = ([start, end]) => [units(start), units(end)];

const reply = (node) => (node.key === undefined ? undefined : data.replies[node.key]);

function replySlice(id, start, end) {
  const whole = reply(nodes[id]) ?? "";
  if (!replyUnits.has(id)) replyUnits.set(id, unitsOf(whole));
  return whole.slice(replyUnits.get(id)(start), replyUnits.get(id)(end));
}

/** A variable's pieces with their texts and where they come from. */
function pieces(variable) {
  return variable.map((piece) => {
    if (typeof piece === "string") return { text: piece, kind: "given" };
    if (piece.length === 2) return { text: text.slice(...unitSpan(piece)), kind: "document", span: unitSpan(piece) };
    return { text: replySlice(...piece), kind: "reply", node: piece[0] };
  });
}

/** Pieces between tags as they were sent, with the spaces that keep them from forming control tokens. */
function fenced(name, inner, node) {
  const [tag, gaps] = node.fences && name in node.fences ? data.fences[node.fences[name]] : [name, []];
  const toUnits = gaps.length ? unitsOf(inner.map((piece) => piece.text).join("")) : null;
  const cuts = [];
  let point = 0;
  for (const gap of gaps) cuts.push(toUnits((point += gap)));
  const out = [{ text: `<${tag}>\n`, kind: "template" }];
  let offset = 0, next = 0;
  for (const piece of inner) {
    let from = 0;
    for (; next < cuts.length && cuts[next] <= offset + piece.text.length; next++) {
      out.push({ ...piece, text: piece.text.slice(from, cuts[next] - offset) }, { text: " ", kind: "template" });
      from = cuts[next] - offset;
    }
    out.push({ ...piece, text: piece.text.slice(from) });
    offset += piece.text.length;
  }
  out.push({ text: `\n</${tag}>`, kind: "template" });
  return out;
}

function filled(template, node) {
  const out = [];
  let at = 0;
  for (const match of template.matchAll(/\{\{(<?)(\w+)>?\}\}/g)) {
    out.push({ text: template.slice(at, match.index), kind: "template" });
    const inner = pieces(node.variables[match[2]]);
    out.push(...(match[1] ? fenced(match[2], inner, node) : inner));
    at = match.index + match[0].length;
  }
  out.push({ text: template.slice(at), kind: "template" });
  return out.filter((piece) => piece.text);
}

/** The messages of a call, exactly as they were sent: role and pieces. */
function messages(node) {
  const template = data.templates[node.template];
  const user = { role: "user", pieces: filled(template.user, node) };
  return template.system ? [{ role: "system", pieces: filled(template.system, node) }, user] : [user];
}

// ---- the document ----

let blocks, citations, currentCitation = -1;

/** The document in blocks of whole lines where lines are short enough: unit offsets, source, page and line. */
function cut() {
  const out = [];
  let base = 0;
  data.sources.forEach((source, index) => {
    const end = base + source.text.length;
    const toUnits = source.pages ? unitsOf(source.text) : null;
    const pages = (source.pages || []).map((page) => base + toUnits(page));
    let at = base, line = 1, page = 0;
    while (at < end) {
      while (page < pages.length && pages[page] <= at) page++;
      const limit = page < pages.length ? pages[page] : end;
      const block = { start: at, source: index, page, line, base };
      let lines = 0;
      while (at < limit && at - block.start < CHARACTERS_A_BLOCK && lines < LINES_A_BLOCK) {
        const found = text.indexOf("\n", at);
        let stop = Math.min(found < 0 ? limit : found + 1, limit);
        if (stop - at > LONGEST_BLOCK) {
          const space = text.lastIndexOf(" ", at + LONGEST_BLOCK);
          stop = space > at + LONGEST_BLOCK / 2 ? space + 1 : at + LONGEST_BLOCK;
          if (/[\udc00-\udfff]/.test(text[stop])) stop--;
          at = stop;
          break;
        }
        at = stop;
        if (stop === found + 1) lines++;
      }
      block.end = at;
      line += lines;
      out.push(block);
    }
    base = end;
  });
  return out;
}

const blockAt = (offset) => Math.max(0, Math.min(blocks.length, below(blocks, offset + 1, (b) => b.start)) - 1);

/** Source, page and line of a unit offset, for people. */
function place(offset) {
  const block = blocks[blockAt(offset)];
  if (!block) return { source: "", where: "" };
  const line = block.line + text.slice(block.start, offset).split("\n").length - 1;
  const where = block.page ? `page ${number.format(block.page)}` : `line ${number.format(line)}`;
  return { source: data.sources[block.source].name, where };
}

/** All blocks, with cited spans marked. What is out of sight is neither laid out nor painted (content-visibility). */
function showDocument() {
  const shown = visible(text);
  const marked = new Map();
  citations.forEach(({ span: [start, end] }, i) => {
    for (let b = blockAt(start); b < blocks.length && blocks[b].start < end; b++) {
      if (!marked.has(b)) marked.set(b, []);
      marked.get(b).push(i);
    }
  });
  const fragment = document.createDocumentFragment();
  let source = -1, page = 0;
  blocks.forEach((block, b) => {
    if (block.source !== source) {
      source = block.source;
      page = 0;
      fragment.append(h("h3", { className: "source" }, isolated(data.sources[source].name)));
    }
    const element = (block.element = document.createElement("div"));
    element.className = block.page !== page ? "block page" : "block";
    element.setAttribute("data-at", block.page !== page ? `p. ${number.format(block.page)}` : number.format(block.line));
    page = block.page;
    const content = shown.slice(block.start, block.end);
    if (marked.has(b)) element.append(...withMarks(shown, block, marked.get(b)));
    else element.append(content);
    let rows = 0;
    for (const line of content.split("\n")) rows += Math.max(1, Math.ceil(line.length / 68));
    element.style.containIntrinsicBlockSize = `auto ${rows * 1.55}em`;
    fragment.append(element);
  });
  $("text").append(fragment);
}

/** The text of a block, cut wherever one of its citations starts or ends. */
function withMarks(shown, block, cited) {
  const inside = (offset) => Math.min(Math.max(offset, block.start), block.end);
  const edges = new Set([block.start, block.end]);
  for (const i of cited) citations[i].span.forEach((offset) => edges.add(inside(offset)));
  const sorted = [...edges].sort((a, b) => a - b);
  return sorted.slice(1).map((end, k) => {
    const start = sorted[k];
    const here = cited.filter((i) => citations[i].span[0] <= start && end <= citations[i].span[1]);
    if (!here.length) return document.createTextNode(shown.slice(start, end));
    const mark = h("mark", null, shown.slice(start, end));
    const first = here.filter((i) => Math.max(citations[i].span[0], block.start) === start);
    if (first.length) mark.setAttribute("data-number", first.map((i) => i + 1).join(" "));
    mark.addEventListener("click", () => cite(here[0], false));
    here.forEach((i) => citations[i].marks.push(mark));
    return mark;
  });
}

/** The text node at a unit offset of the document, and the offset in it. */
function point(offset) {
  const block = blocks[blockAt(offset)];
  const walker = document.createTreeWalker(block.element, NodeFilter.SHOW_TEXT);
  let left = offset - block.start, node = walker.nextNode();
  while (node && left > node.length) {
    left -= node.length;
    node = walker.nextNode();
  }
  return node ? [node, left] : [block.element, 0];
}

function rangeOf([start, end]) {
  const range = document.createRange();
  range.setStart(...point(start));
  range.setEnd(...point(Math.max(start, end - 1)));
  if (end > start) range.setEnd(range.endContainer, Math.min(range.endOffset + 1, range.endContainer.length ?? 0));
  return range;
}

/** Brings a span into view; again in the next frames, since blocks take their true heights only when they are seen. */
function jump(span) {
  if (!blocks.length) return;
  const pane = $("text"), range = rangeOf(span);
  let frames = 8;
  const settle = () => {
    const off = range.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight * 0.28;
    pane.scrollTop += off;
    if (--frames && Math.abs(off) > 1) requestAnimationFrame(settle);
  };
  settle();
}

/** Marks what a call read: its window, or the passages in its prompt. */
function markRead(spans) {
  for (const block of document.querySelectorAll(".block.read")) block.classList.remove("read");
  for (const [start, end] of spans) {
    for (let b = blockAt(start); b < blocks.length && blocks[b].start < end; b++) blocks[b].element.classList.add("read");
  }
  if (window.Highlight) CSS.highlights.set("read", new Highlight(...spans.map(rangeOf)));
}

function cite(i, move = true) {
  currentCitation = i;
  document.querySelectorAll(".active").forEach((element) => element.classList.remove("active"));
  citations[i].marks.forEach((mark) => mark.classList.add("active"));
  citations[i].item.classList.add("active");
  $("current").textContent = `${i + 1} of ${citations.length}`;
  if (move) {
    jump(citations[i].span);
    if (getComputedStyle($("document")).position !== "sticky") $("document").scrollIntoView();
  } else citations[i].item.scrollIntoView({ block: "nearest" });
}

// ---- the tree ----

let rows, home = [], selected = -1; // home: a call's row, and where it is in that row
const RANK = { irrelevant: 0, plain: 1, background: 2, direct: 3, lost: 4 };
const WORDS = { irrelevant: "irrelevant", background: "background", direct: "direct evidence", lost: "no reply", plain: "not judged" };

function kind(node) {
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

/** A row for each layer, role and channel, in the order in which their calls depend on one another. */
function arrange() {
  const reach = reaches(), found = new Map(), depth = [];
  nodes.forEach((node, i) => {
    depth[i] = 1 + Math.max(0, ...node.parents.map((p) => depth[p]));
    const key = JSON.stringify([node.layer, node.role, node.channel]);
    if (!found.has(key)) found.set(key, { ...node, ids: [], depth: depth[i] });
    found.get(key).ids.push(i);
    found.get(key).depth = Math.min(found.get(key).depth, depth[i]);
  });
  return [...found.values()].sort((a, b) => a.depth - b.depth || a.ids[0] - b.ids[0]).map((row) => layOut(row, reach));
}

/** Where the row's cells are, as shares of its width: by place in the document, or side by side where that can't be. */
function layOut(row, reach) {
  const spans = row.ids.map((i) => reach[i]);
  const placed = spans.every((span, k) => span.length && (k === 0 || span[0] > spans[k - 1][0]));
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
  let layer = null;
  rows.forEach((row, r) => {
    if (row.layer !== layer) tree.append(h("p", { className: "layer" }, `Layer ${row.layer}`));
    layer = row.layer;
    row.canvas = document.createElement("canvas");
    row.track = h("div", { className: "track", tabIndex: 0, role: "slider" }, row.canvas);
    row.track.setAttribute("aria-label", `Layer ${row.layer}, ${visible(row.role)} ${visible(row.channel)}`);
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
    isolated(title(row.ids[k])), ` · ${WORDS[kind(node)]}${score}`, ...(where ? [" · from ", isolated(where.where)] : []),
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
  const lines = `line ${number.format(first.line)}`;
  $("place").replaceChildren(isolated(source), h("span", null, first.page ? `page ${number.format(first.page)} · ${lines}` : lines));
}

// ---- the selected call ----

function select(id, move = true) {
  selected = id;
  const node = nodes[id];
  const [row, k] = home[id];
  row.at = k;
  describe(row);
  const sent = messages(node);
  const passages = sent.flatMap((message) => message.pieces).filter((piece) => piece.span).map((piece) => piece.span);
  const spans = node.window ? [unitSpan(node.window)] : passages;
  markRead(spans.filter(([start, end]) => start < end));
  if (move && spans.length) {
    const inside = citations.find(({ span }) => spans[0][0] <= span[0] && span[1] <= spans[0][1]);
    jump(node.window && inside ? inside.span : spans[0]);
  }
  showCall(id, sent);
  tellSelected();
  draw();
}

function showCall(id, sent) {
  const node = nodes[id], what = kind(node), answer = reply(node);
  const head = h("div", { className: "head" }, h("h2", null, isolated(title(id))), h("span", { className: `badge ${what}` }, WORDS[what]));
  if (node.status === "malformed") head.append(h("span", { className: "badge lost" }, "malformed reply"));
  if (data.used.includes(id)) head.append(h("span", { className: "badge" }, "used in the answer"));
  const facts = h("dl", { className: "figures small" });
  const fact = (name, value) => facts.append(h("div", null, h("dt", null, name), h("dd", null, value)));
  if (node.window) {
    const [start, end] = unitSpan(node.window), { source, where } = place(start);
    const to = place(Math.max(start, end - 1)).where;
    const link = h("button", { type: "button", className: "link" }, isolated(`${data.sources.length > 1 ? `${source}, ` : ""}${where} to ${to}`));
    link.addEventListener("click", () => jump([start, end]));
    fact("window", link);
  }
  if (node.score !== undefined) fact("score", node.score.toFixed(3));
  if (node.usage) {
    fact("prompt", count(node.usage.prompt_tokens ?? 0, "token"));
    if (node.usage.cached_tokens) fact("of it cached", count(node.usage.cached_tokens, "token"));
    fact("reply", count(node.usage.completion_tokens ?? 0, "token"));
  }
  if (node.cached) fact("cost", "none, replayed");
  if (node.end !== undefined) fact("time", `${duration(node.end - node.start)} at ${duration(node.start)}`);
  const failure = data.answer?.coverage.failed_windows.find(
    (lost) => what === "lost" && lost.role === node.role && lost.channel === node.channel && String(lost.span) === String(node.window),
  );
  if (failure) fact("reason", isolated(failure.reason));
  $("call").replaceChildren(
    head, facts,
    related("needed", node.parents), related("led to", children[id]),
    section("Reply", answer === undefined ? null : [h("pre", { className: "reply" }, answer)], answer ?? "",
      node.key === undefined ? "No reply came." : "The reply is no longer in the cache."),
    section("Prompt", sent.map(showMessage), sent.map((message) => message.pieces.map((piece) => piece.text).join("")).join("\n\n")),
  );
}

function showMessage({ role, pieces: parts }) {
  const body = h("pre", { className: "prompt" });
  for (const piece of parts) {
    const span = h("span", { className: piece.kind }, piece.text);
    if (piece.span) span.addEventListener("click", () => getSelection().isCollapsed && jump(piece.span));
    if (piece.node !== undefined) span.addEventListener("click", () => getSelection().isCollapsed && select(piece.node));
    body.append(span);
  }
  return h("div", { className: "message" }, h("p", { className: "role" }, role), body);
}

function section(name, content, copied, missing) {
  const copy = h("button", { type: "button", className: "link" }, "copy");
  copy.setAttribute("aria-label", `Copy the ${name.toLowerCase()}`);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copied);
    copy.textContent = "copied";
  });
  if (!content) return h("div", { className: "part" }, h("h3", null, name), h("p", { className: "quiet" }, missing));
  return h("div", { className: "part" }, h("h3", null, name, copy), ...content);
}

function related(name, ids) {
  const line = h("p", { className: "related" }, h("span", null, name));
  const shown = ids.slice(0, 12);
  for (const id of shown) {
    const link = h("button", { type: "button", className: `chip ${kind(nodes[id])}` }, isolated(title(id)));
    link.addEventListener("click", () => select(id));
    line.append(link);
  }
  if (ids.length > shown.length) line.append(h("span", null, `and ${number.format(ids.length - shown.length)} more`));
  line.hidden = !ids.length;
  return line;
}

// ---- the report ----

function showReport() {
  const answer = data.answer;
  $("about").append(...["ConvMem", data.method, data.model, `seed ${data.seed}`].filter(Boolean).map((part) => h("span", null, isolated(part))));
  $("question").append(isolated(data.question));
  $("answer").append(isolated(answer ? answer.text : "The run ended without an answer."));
  $("answer").classList.toggle("none", !answer);
  citations.forEach((citation, i) => {
    const mark = h("button", { type: "button", className: "cite", "aria-label": `Show citation ${i + 1}` }, i + 1);
    mark.addEventListener("click", () => cite(i));
    if (answer) $("answer").append(mark);
    const { location } = citation.given;
    const where = location.page === null ? `line ${number.format(location.line)}` : `page ${number.format(location.page)}`;
    const passage = h("button", { type: "button", className: "passage" }, h("q", null, isolated(citation.given.quote)), h("cite", null, isolated(location.source), `, ${where}`));
    passage.addEventListener("click", () => cite(i));
    citation.item = h("li", null, passage);
    $("citations").append(citation.item);
  });
  $("warnings").append(...(answer?.warnings ?? []).map((warning) => h("li", null, isolated(warning))));
  const parts = answer?.sub_questions ?? [];
  $("parts").hidden = !parts.length;
  for (const part of parts) {
    const found = part.found ? isolated(part.answer) : "not found in the document";
    $("parts").querySelector("dl").append(h("dt", null, isolated(part.question)), h("dd", { className: part.found ? "" : "quiet" }, found));
  }
  const legend = $("evidence").querySelector(".legend");
  for (const name of ["direct", "background", "irrelevant", "plain", "lost"]) legend.append(h("span", { className: `key ${name}` }, WORDS[name]));
  legend.append(h("span", { className: "key used" }, "used in the answer"));
}

function showCost() {
  const { usage, coverage } = data.answer ?? {};
  $("cost").hidden = !data.answer;
  if (!data.answer) return;
  const figures = $("cost").querySelector("dl");
  const figure = (name, value) => figures.append(h("div", null, h("dt", null, name), h("dd", null, value)));
  figure("calls", number.format(usage.total.calls));
  figure("prompt tokens", number.format(usage.total.prompt_tokens));
  if (usage.total.cached_tokens) figure("of them cached", number.format(usage.total.cached_tokens));
  figure("reply tokens", number.format(usage.total.completion_tokens));
  if (usage.total.cache_hits) figure("replayed", number.format(usage.total.cache_hits));
  figure("depth", number.format(usage.depth));
  figure("time", duration(usage.seconds));
  const share = coverage.tokens ? coverage.read_tokens / coverage.tokens : 1;
  const gauge = h("meter", { min: 0, max: 1, value: share });
  const percent = share === 1 ? "All" : `${(Math.floor(share * 1000) / 10).toFixed(1)}%`;
  const notices = h("ul", { className: "notices" });
  for (const lost of coverage.failed_windows) {
    const link = h("button", { type: "button", className: "link" }, isolated(`${lost.location.source}, line ${number.format(lost.location.line)}`));
    const id = nodes.findIndex((node) => node.role === lost.role && node.channel === lost.channel && String(node.window) === String(lost.span));
    link.addEventListener("click", () => (id < 0 ? jump(unitSpan(lost.span)) : select(id)));
    notices.append(h("li", null, "Not read: ", link, " by ", isolated(`${lost.role} ${lost.channel}`), ", because ", isolated(lost.reason)));
  }
  for (const { what, tokens } of coverage.truncated) notices.append(h("li", null, "Left out: ", isolated(what), `, ${count(tokens, "token")}`));
  $("coverage").append(
    h("p", { className: "read" }, gauge, `${percent} of ${count(coverage.tokens, "token")} read, in ${count(coverage.windows, "window")}`), notices,
    table("By role", ["role", "calls", "prompt", "cached", "reply", "replayed"],
      Object.entries(usage.by_role).map(([role, t]) => [role, t.calls, t.prompt_tokens, t.cached_tokens, t.completion_tokens, t.cache_hits])),
    table("Configuration", ["field", "value"], Object.entries(data.config).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])),
  );
}

function table(name, columns, lines) {
  const cell = (value) => h("td", { className: typeof value === "number" ? "amount" : "" }, typeof value === "number" ? number.format(value) : isolated(value));
  return h("details", null, h("summary", null, name),
    h("table", null, h("thead", null, h("tr", null, ...columns.map((c) => h("th", { scope: "col" }, c)))),
      h("tbody", null, ...lines.map((line) => h("tr", null, ...line.map(cell))))));
}

// ---- start ----

async function start() {
  await unfold();
  blocks = cut();
  citations = (data.answer?.citations ?? []).map((given) => ({ given, span: unitSpan(given.span), marks: [] }));
  rows = arrange();
  showReport();
  showDocument();
  showTree();
  showCost();
  const turn = (step) => citations.length && cite((currentCitation + step + citations.length) % citations.length);
  $("current").textContent = citations.length ? count(citations.length, "citation") : "no citations";
  $("previous").disabled = $("next").disabled = !citations.length;
  $("previous").addEventListener("click", () => turn(currentCitation < 0 ? 0 : -1));
  $("next").addEventListener("click", () => turn(1));
  let waiting = false;
  $("text").addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      viewport();
    });
  }, { passive: true });
  const last = nodes.findLastIndex((node) => node.status === "ok");
  if (last >= 0) select(last, false);
  else {
    $("evidence").hidden = !nodes.length;
    draw();
  }
  if (citations.length) jump(citations[0].span);
  document.documentElement.dataset.ready = "";
}

start().catch((error) => {
  $("answer").textContent = `This page could not be shown: ${error.message}. It needs a browser of 2023 or later.`;
  throw error;
});
