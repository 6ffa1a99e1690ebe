// What the run led to and what it cost; and the start of the page.

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
  for (const claim of answer?.claims ?? []) $("claims").append(claimItem(claim));
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

/** A claim with its verdict, the passages that this rests on, and those that say otherwise. */
function claimItem(claim) {
  const leadsTo = (passage) => {
    const i = citations.findIndex(({ given }) => String(given.span) === String(passage.span));
    const link = h("button", { type: "button", className: "cite" }, i < 0 ? isolated(`line ${number.format(passage.location.line)}`) : i + 1);
    link.addEventListener("click", () => (i < 0 ? jump(unitSpan(passage.span)) : cite(i)));
    return link;
  };
  const against = claim.against.length ? [h("span", { className: "otherwise" }, "otherwise says ", ...claim.against.map(leadsTo))] : [];
  const verdict = h("strong", null, claim.verdict);
  return h("li", { className: claim.verdict }, verdict, h("span", null, isolated(claim.text), ...claim.citations.map(leadsTo), ...against));
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
    h("p", { className: "share" }, gauge, `${percent} of ${count(coverage.tokens, "token")} read, in ${count(coverage.windows, "window")}`), notices,
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

async function start() {
  take(await unfold());
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
  const last = nodes.findLastIndex((node) => node.status === "ok" && node.role !== "verify");
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
