// A document as a map: its characters run through the rows, and each window that was read lights up in its place.

const ROW = 14;
const GAP = 3;
const SHOWN = 40_000;

export class Map {
  constructor(canvas, sources, open) {
    this.canvas = canvas;
    this.starts = {};
    this.size = 0;
    for (const source of sources) {
      this.starts[source.name] = this.size;
      this.size += source.characters;
    }
    this.size = Math.max(this.size, 1);
    this.sources = sources;
    this.windows = [];
    this.relevant = 0;
    canvas.addEventListener("click", (event) => open(this.placeOf(event)));
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  clear() {
    this.windows = [];
    this.relevant = 0;
    this.draw();
  }

  light(at, relevance) {
    const start = (this.starts[at.source] ?? 0) + at.start;
    const window = { start, end: start + at.end - at.start, relevance: relevance ?? 1 };
    if (this.windows.length < SHOWN) this.windows.push(window);
    this.relevant += window.relevance > 0;
    if (this.context) this.paint(window);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    const scale = devicePixelRatio;
    Object.assign(this.canvas, { width: width * scale, height: height * scale });
    this.rows = Math.max(1, Math.floor((height + GAP) / (ROW + GAP)));
    this.width = width;
    this.context = this.canvas.getContext("2d");
    this.context.scale(scale, scale);
    const style = getComputedStyle(this.canvas);
    this.colours = ["--irrelevant", "--background", "--direct"].map((name) => style.getPropertyValue(name));
    this.context.fillStyle = style.getPropertyValue("--unread");
    for (let row = 0; row < this.rows; row++) this.context.fillRect(0, row * (ROW + GAP), width, ROW);
    for (const level of [0, 1, 2]) for (const window of this.windows) if (window.relevance === level) this.paint(window);
  }

  paint({ start, end, relevance }) {
    const along = this.width * this.rows / this.size;
    const [from, to] = [start * along, Math.max(end * along, start * along + 1)];
    this.context.fillStyle = this.colours[relevance];
    for (let row = Math.floor(from / this.width); row * this.width < to && row < this.rows; row++) {
      const left = Math.max(from - row * this.width, 0);
      const right = Math.min(to - row * this.width, this.width);
      this.context.fillRect(left, row * (ROW + GAP), Math.max(right - left - 0.5, 0.75), ROW);
    }
  }

  placeOf(event) {
    const row = Math.min(Math.floor(event.offsetY / (ROW + GAP)), this.rows - 1);
    let at = Math.floor((row + event.offsetX / this.width) / this.rows * this.size);
    const source = this.sources.findLast((each) => this.starts[each.name] <= at);
    at = Math.min(at - this.starts[source.name], Math.max(source.characters - 1, 0));
    return { source: source.name, start: at, end: at };
  }
}
