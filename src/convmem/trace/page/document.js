// The document beside the report: all of it in blocks, cited and read spans marked. Knows citations, not calls.

const CHARACTERS_A_BLOCK = 700, LINES_A_BLOCK = 30, LONGEST_BLOCK = 3000;
let blocks, citations, currentCitation = -1;

/** The document in blocks, of whole paragraphs or at least whole lines where these are short enough: unit offsets, source, page and line. */
function cut() {
  const out = [];
  let base = 0;
  data.sources.forEach((source, index) => {
    const end = Math.min(base + source.text.length + data.joint.length, text.length);
    const toUnits = source.pages ? unitsOf(source.text) : null;
    const pages = (source.pages || []).map((page) => base + toUnits(page));
    let at = base, line = 1, page = 0;
    while (at < end) {
      while (page < pages.length && pages[page] <= at) page++;
      const limit = page < pages.length ? pages[page] : end;
      const block = { start: at, source: index, page, line, base };
      let lines = 0;
      const ended = () => at - block.start >= CHARACTERS_A_BLOCK && /\n\r?\n$/.test(text.slice(at - 3, at));
      while (at < limit && at - block.start < 2 * CHARACTERS_A_BLOCK && lines < LINES_A_BLOCK && !ended()) {
        const found = text.indexOf("\n", at);
        const stop = Math.min(found < 0 ? limit : found + 1, limit);
        if (stop - at > LONGEST_BLOCK) {
          const space = text.lastIndexOf(" ", at + LONGEST_BLOCK);
          at = space > at + LONGEST_BLOCK / 2 ? space + 1 : whole(text, at + LONGEST_BLOCK);
          break;
        }
        at = stop;
        if (stop === found + 1) lines++;
      }
      block.end = at;
      block.lines = lines;
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

/**
 * The text with the breaks of hard-wrapped prose as spaces, one for one, so that it fills whatever width there is.
 *
 * A paragraph was wrapped where every line is prose, all but the last are nearly as long as the longest, and some line
 * goes on in the middle of a sentence. Verse, code, lists and records keep their lines.
 */
function unwrapped(text) {
  const out = [];
  let done = 0, lines = [];
  const paragraph = () => {
    const width = Math.max(...lines.map(([start, end]) => end - start));
    const full = lines.slice(0, -1).every(([start, end]) => {
      return end - start > 0.8 * width && /^\S+ \S+ \S/.test(text.slice(start, end));
    });
    if (width >= 50 && width <= 200 && full && lines.slice(1).some(([start]) => /\p{Ll}/u.test(text[start]))) {
      for (const [, end] of lines.slice(0, -1)) {
        out.push(text.slice(done, end), " ");
        done = end + 1;
      }
    }
    lines = [];
  };
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf("\n", start), end = found < 0 ? text.length : found;
    const prose = end - start < 300 && /^[\p{L}\p{N}"'“‘(*_]/u.test(text.slice(start, end));
    if (prose) lines.push([start, end]);
    if (!prose || lines.length === 60) paragraph();
    start = end + 1;
  }
  paragraph();
  return out.join("") + text.slice(done);
}

/** All blocks, with cited spans marked. What is out of sight is neither laid out nor painted (content-visibility). */
function showDocument() {
  const shown = unwrapped(visible(text));
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
