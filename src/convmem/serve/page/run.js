// One run as a card: what it would cost, what it reads as it reads it, the answer with its passages, what it did cost.

import { counted, duration, find, make, place, short, twice } from "./dom.js";
import { Map } from "./map.js";
import { open } from "./reader.js";
import { download, events, get, hasKey, post, remove } from "./server.js";

const WORDS = {
  running: "Reading …", done: "Answered", failed: "Failed", cancelled: "Cancelled",
  interrupted: "Interrupted: the server stopped",
};
const VERDICTS = { supported: "supported by its passages", contradicted: "contradicted by its passages", unsupported: "not supported by its passages" };
const NEWS = 5000;

export class Run {
  constructor(record, document_, label) {
    this.record = record;
    this.document = document_;
    this.parts = {
      status: make("p", { class: "status" }),
      bar: make("progress", { "aria-label": `Progress of ${label}` }),
      canvas: make("canvas", { class: "map", role: "img" }),
      legend: make("p", { class: "legend", "aria-hidden": "true" },
        ...["irrelevant", "background", "direct"].map((name, r) => make("span", { class: name }, ["not relevant", "background", "evidence"][r]))),
      answer: make("div", { class: "answer" }),
      notes: make("ul", { class: "notes" }),
      cost: make("p", { class: "cost" }),
      actions: make("div", { class: "row actions" }),
    };
    const { status, bar, canvas, legend, answer, notes, cost, actions } = this.parts;
    const title = make("h3", {}, label);
    this.element = make("article", { class: "run", "data-document": document_.id, "aria-label": `${label}: ${record.question}` },
      make("header", {}, title, status), bar, answer, canvas, legend, notes, cost, actions);
    this.label = label;
    this.map = new Map(canvas, document_.sources, (at) => open(this.document, at));
    this.said = 0;
    this.restart();
  }

  restart() {
    this.plan = null;
    this.calls = { expected: {}, ended: 0, failed: 0, tokens: 0 };
    this.windows = 0;
    this.best = "";
    this.warnings = new Set();
    this.began = this.record.created * 1000;
    this.map.clear();
  }

  // Follows the run to its end; what happens often is drawn once a frame.
  async follow() {
    this.abort?.abort();
    this.abort = new AbortController();
    this.render();
    try {
      for await (const event of events(this.record.id, this.abort.signal)) {
        this.hear(event);
        this.drawing ??= requestAnimationFrame(() => { this.drawing = null; this.render(); });
      }
    } catch (error) {
      this.record.status = "failed";
      this.record.error = { message: error.message };
    }
    this.render();
  }

  hear(event) {
    const { calls } = this;
    switch (event.type) {
      case "planned": this.plan = event.plan; break;
      case "layer_started": calls.expected[event.layer] = (calls.expected[event.layer] ?? 0) + event.calls; break;
      case "call_ended":
        calls.ended += 1;
        calls.failed += event.failed;
        calls.tokens += event.prompt_tokens + event.completion_tokens;
        break;
      case "window_read":
        if (event.layer === 0) {
          this.windows += 1;
          this.map.light(event.at, event.relevance);
          this.news(`${counted(this.windows, "reading")}, ${this.map.relevant} relevant`);
        }
        break;
      case "best_answer":
        this.best = event.text;
        this.news(`So far: ${event.text}`);
        break;
      case "warned": this.warnings.add(event.text); break;
      case "resumed":
        this.record.status = "running";
        this.restart();
        break;
      case "done": Object.assign(this.record, { status: "done", answer: event.answer }); break;
      case "failed": Object.assign(this.record, { status: "failed", error: event.error }); break;
      case "cancelled": this.record.status = "cancelled"; break;
    }
    if (event.type === "done") this.news(`Answered: ${event.answer.answer}`, true);
    if (event.type === "failed") this.news(`Failed: ${event.error.message}`, true);
  }

  // For those who listen: now and then what happens, and at once how it ended.
  news(words, now = false) {
    if (now || Date.now() - this.said > NEWS) {
      this.said = Date.now();
      find("news").textContent = `${this.label}. ${words}`;
    }
  }

  render() {
    const { status, answer, error } = this.record;
    const { parts } = this;
    const running = status === "running";
    this.element.dataset.status = status;
    parts.status.textContent = running ? this.progress() : WORDS[status];
    parts.bar.hidden = !running;
    const expected = Math.max(this.plan?.calls ?? 0, Object.values(this.calls.expected).reduce((a, b) => a + b, 0));
    if (expected) Object.assign(parts.bar, { max: expected, value: Math.min(this.calls.ended, expected) });
    parts.canvas.setAttribute("aria-label", `The document as a map: ${counted(this.windows, "reading")} of its windows, ${this.map.relevant} relevant`);
    parts.canvas.hidden = parts.legend.hidden = !this.windows;
    if (answer) this.answered(answer);
    else if (error) parts.answer.replaceChildren(make("p", { class: "trouble" }, error.message));
    else parts.answer.replaceChildren(this.best ? make("p", { class: "best" }, make("small", {}, "So far"), this.best) : "");
    const warnings = answer ? answer.warnings : [...this.warnings];
    parts.notes.replaceChildren(...warnings.map((text) => make("li", {}, text)), ...this.gaps(answer));
    parts.cost.textContent = this.costs(answer);
    if (parts.actions.dataset.status !== status) this.act(status);
  }

  progress() {
    const { ended, failed, tokens } = this.calls;
    const spent = `${counted(ended, "call")}, ${short(tokens)} tokens, ${duration((Date.now() - this.began) / 1000)}`;
    return `${WORDS.running} ${spent}${failed ? `, ${failed} failed` : ""}`;
  }

  answered(answer) {
    const cite = (citation, number) => make("li", {}, make("button", { type: "button", class: "citation", onclick: () => open(this.document, citation) },
      make("q", {}, citation.quote), make("cite", {}, `[${number + 1}] ${place(citation)}`)));
    const claims = answer.claims?.length
      ? [make("h4", {}, "Checked"), make("ul", { class: "claims" }, ...answer.claims.map((claim) => make("li", { class: claim.verdict }, claim.text, make("b", {}, ` ${VERDICTS[claim.verdict]}`))))]
      : [];
    const parts = answer.sub_questions.length
      ? [make("details", {}, make("summary", {}, counted(answer.sub_questions.length, "sub-question")),
          make("dl", {}, ...answer.sub_questions.flatMap((each) => [make("dt", {}, each.question), make("dd", {}, each.answer)])))]
      : [];
    const opened = [...this.parts.answer.querySelectorAll("details")].some((each) => each.open);
    if (this.shownAnswer === answer) return;
    this.shownAnswer = answer;
    this.parts.answer.replaceChildren(
      make("p", { class: "final" }, answer.answer), ...claims,
      ...(answer.citations.length ? [make("h4", {}, "Where it says so"), make("ol", { class: "citations" }, ...answer.citations.map(cite))] : []), ...parts);
    if (opened) this.parts.answer.querySelector("details").open = true;
  }

  gaps(answer) {
    if (!answer) return [];
    const { tokens, read_tokens, failed_windows, truncated } = answer.coverage;
    const words = [];
    if (read_tokens < tokens) words.push(`Read ${short(read_tokens)} of the document’s ${short(tokens)} tokens.`);
    if (failed_windows.length) words.push(`${counted(failed_windows.length, "window")} could not be read.`);
    words.push(...truncated.map(({ what, tokens: cut }) => `Left out: ${short(cut)} tokens of ${what}.`));
    return words.map((text) => make("li", {}, text));
  }

  costs(answer) {
    const before = this.plan ?? answer?.plan;
    const said = before ? `Expected ${expected(before)}` : "";
    if (!answer) return said;
    const { calls, prompt_tokens, completion_tokens, cache_hits, seconds } = answer.usage;
    const used = `Used ${counted(calls, "call")}, ${short(prompt_tokens + completion_tokens)} tokens, ${duration(seconds)}`;
    return `${used}${cache_hits ? ` (${counted(cache_hits, "reply", "replies")} from the store)` : ""}. ${said}.`;
  }

  async attempt(work) {
    try {
      await work();
    } catch (error) {
      this.parts.status.textContent = error.message;
    }
  }

  // Gone from the server, from the page, and from the address that would bring it back.
  async remove() {
    await remove(`/v1/runs/${this.record.id}`);
    const left = location.hash.slice(1).split(",").filter((id) => id !== this.record.id);
    history.replaceState(null, "", left.length ? `#${left.join(",")}` : location.pathname);
    const section = this.element.closest(".asked");
    this.element.remove();
    if (!section.querySelector(".run")) section.remove();
    find("news").textContent = `${this.label} is deleted.`;
    find("question").focus();
  }

  act(status) {
    const { actions } = this.parts;
    const held = actions.contains(document.activeElement);
    const button = (words, act) => make("button", { type: "button", class: "quietly", onclick: act }, words);
    const page = `/v1/runs/${this.record.id}/trace.html`;
    const again = (what) => this.attempt(async () => {
      Object.assign(this.record, await post(`/v1/runs/${this.record.id}/${what}`));
      if (what === "resume") this.follow();
    });
    actions.dataset.status = status;
    actions.replaceChildren(
      ...(status === "running" ? [button("Cancel", () => again("cancel"))] : []),
      ...(["failed", "cancelled", "interrupted"].includes(status) ? [button("Go on", () => again("resume"))] : []),
      ...(status === "running" ? [] : [hasKey()
        ? button("Save the evidence page", () => download(page, `${this.record.id}.html`))
        : make("a", { href: page, target: "_blank", rel: "noopener" }, "Evidence page: every window, call and reply"),
        twice("Delete", "Delete this answer?", this.label, () => this.attempt(() => this.remove()))]),
    );
    if (held) actions.querySelector("button, a")?.focus();
  }
}

export const expected = (plan) =>
  `${counted(plan.calls, "call")}, ${short(plan.prompt_tokens + plan.completion_tokens)} tokens` +
  (plan.seconds == null ? "" : `, ${duration(plan.seconds)}`);

export const labelled = ({ method, preset, model }) => [method || "convmem", preset, model].filter(Boolean).join(" · ");

// The runs of one question side by side, under it.
export async function show(records, focus = false) {
  const document_ = await get(`/v1/documents/${records[0].document}`);
  const runs = records.map((record) => new Run(record, document_, labelled(record)));
  const heading = make("h2", { tabindex: "-1" }, records[0].question);
  find("runs").prepend(make("section", { class: "asked" }, heading, make("p", { class: "about" }, document_.name),
    make("div", { class: "side-by-side" }, ...runs.map((run) => run.element))));
  if (focus) heading.focus();
  for (const run of runs) run.follow();
  return document_;
}
