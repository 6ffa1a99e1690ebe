// The document itself, open at a place: the cited words are marked, and pages begin where the file's did.

import { find, make, place } from "./dom.js";
import { get } from "./server.js";

const AROUND = 4000;

let shown = null;

export async function open(document_, at) {
  find("reader-place").textContent = at.line ? place(at) : at.source;
  const text = find("reader-text");
  text.replaceChildren(make("p", { class: "quiet" }, "Opening …"));
  if (!find("reader").open) find("reader").showModal();
  const source = document_.sources.find((each) => each.name === at.source);
  shown = { document_, source, at, start: Math.max(0, at.start - AROUND), end: at.end + AROUND };
  await show();
  const mark = text.querySelector("mark");
  if (mark) mark.scrollIntoView({ block: "center" });
}

async function show() {
  const now = shown;
  const { document_, source, at } = now;
  const query = new URLSearchParams({ source: source.name, start: now.start, end: now.end });
  const slice = await get(`/v1/documents/${document_.id}/text?${query}`);
  if (now !== shown) return;
  [now.start, now.end] = [slice.start, slice.end];
  if (!at.line) find("reader-place").textContent = place(slice);
  find("reader-text").replaceChildren(
    further("Earlier", slice.start > 0, () => (now.start = Math.max(0, now.start - AROUND))),
    ...paged(slice, source.pages ?? [], at),
    further("Later", slice.end < source.characters, () => (now.end += AROUND)),
  );
}

function further(words, there, move) {
  const more = async () => {
    const before = find("reader-text").scrollHeight;
    move();
    await show();
    if (words === "Earlier") find("reader-text").scrollTop += find("reader-text").scrollHeight - before;
  };
  return there ? make("button", { type: "button", class: "further", onclick: more }, words) : null;
}

// The slice's text in paragraphs of its pages, with what is cited in a mark.
function paged(slice, pages, at) {
  const cuts = pages.filter((start) => start > slice.start && start < slice.end);
  const edges = [slice.start, ...cuts, slice.end];
  const characters = [...slice.text]; // the server counts characters, a string's own indices count halves of some
  return edges.slice(0, -1).flatMap((start, index) => {
    const end = edges[index + 1];
    const part = (from, to) =>
      characters.slice(Math.max(from, start) - slice.start, Math.max(Math.min(to, end), start) - slice.start).join("");
    const marked = part(at.start, at.end);
    const text = make("div", { class: "text" }, part(start, at.start), marked ? make("mark", {}, marked) : null, part(Math.max(at.end, start), end));
    return pages.includes(start) ? [make("h3", {}, `Page ${pages.indexOf(start) + 1}`), text] : [text];
  });
}
