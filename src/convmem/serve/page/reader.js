// The document itself, open at a place: the cited words are marked, and pages begin where the file's did.

import { find, make, place } from "./dom.js";
import { get } from "./server.js";

const AROUND = 4000;
const FULL = 0.8; // of the page's width: a line so long goes on in the next one

let shown = null;

// `at` has the source, start and end of a place; its line and page are asked for where it has none.
export async function open(document_, at) {
  const text = find("reader-text");
  text.replaceChildren(make("p", { class: "quiet" }, "Opening …"));
  find("reader-place").textContent = at.source;
  if (!find("reader").open) find("reader").showModal();
  const source = document_.sources.find((each) => each.name === at.source) ?? document_.sources[0];
  if (!at.line) at = { ...(await slice(document_, source, at.start, at.end)), end: at.end };
  find("reader-place").textContent = place(at);
  shown = { document_, source, at, start: Math.max(0, at.start - AROUND), end: at.end + AROUND };
  await show();
  text.querySelector("mark")?.scrollIntoView({ block: "center" });
}

const slice = (document_, source, start, end) =>
  get(`/v1/documents/${document_.id}/text?${new URLSearchParams({ source: source.name, start, end })}`);

async function show() {
  const now = shown;
  const { document_, source, at } = now;
  const found = await slice(document_, source, now.start, now.end);
  if (now !== shown) return;
  [now.start, now.end] = [found.start, found.end];
  find("reader-text").replaceChildren(
    further("Earlier", found.start > 0, () => (now.start = Math.max(0, now.start - AROUND))),
    ...paged(found, source, at),
    further("Later", found.end < source.characters, () => (now.end += AROUND)),
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

// A slice's text in paragraphs of its pages, with what is cited in a mark.
function paged(found, source, at) {
  const pages = source.pages ?? [];
  const cuts = pages.filter((start) => start > found.start && start < found.end);
  const edges = [found.start, ...cuts, found.end];
  const characters = [...found.text]; // the server counts characters, a string's own indices count halves of some
  return edges.slice(0, -1).flatMap((start, index) => {
    const end = edges[index + 1];
    const whole = characters.slice(start - found.start, end - found.start).join("");
    const page = [...(source.pages ? flowing(whole) : whole)];
    const part = (from, to) => page.slice(Math.max(from, start) - start, Math.max(Math.min(to, end), start) - start).join("");
    const marked = part(at.start, at.end);
    const text = make("div", { class: "text" }, part(start, at.start), marked ? make("mark", {}, marked) : null, part(Math.max(at.end, start), end));
    return pages.includes(start) ? [make("h3", {}, `Page ${pages.indexOf(start) + 1}`), text] : [text];
  });
}

// A printed page ends every line with a break. Those inside a paragraph become spaces, one for one, so that every place
// in the text stays where it was.
function flowing(text) {
  const lines = text.split("\n");
  const widths = lines.map((line) => line.trimEnd().length);
  const sorted = widths.filter(Boolean).sort((a, b) => a - b);
  const full = FULL * (sorted[Math.floor(0.9 * sorted.length)] ?? 0);
  return lines.reduce((said, line, index) => said + (widths[index - 1] >= full && widths[index] ? " " : "\n") + line);
}
