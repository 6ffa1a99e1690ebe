// The selected call: its prompt as it was sent, its reply, its cost, and what it is related to.

const LONGEST_STRETCH = 4000;

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
  const top = $("call").getBoundingClientRect().top;
  if (move && top > innerHeight - 240) scrollBy(0, top - innerHeight * 0.6);
  tellSelected();
  draw();
}

function showCall(id, sent) {
  const node = nodes[id], what = kind(node), answer = reply(node);
  const head = h("div", { className: "head" }, h("h2", null, isolated(title(id))));
  if (what !== "plain") head.append(h("span", { className: `badge ${what}` }, WORDS[what]));
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
    section("Reply", answer === undefined ? null : [h("pre", { className: "reply" }, ...stretches(answer))], () => answer,
      node.key === undefined ? "No reply came." : "The reply is no longer in the cache."),
    section("Prompt", sent.map(showMessage), () => sent.map((message) => message.pieces.map((piece) => piece.text).join("")).join("\n\n")),
  );
}

function showMessage({ role, pieces: parts }) {
  const body = h("pre", { className: "prompt" });
  for (const piece of parts) {
    const span = h("span", { className: piece.kind }, ...stretches(piece.text));
    if (piece.span) span.addEventListener("click", () => getSelection().isCollapsed && jump(piece.span));
    if (piece.node !== undefined) span.addEventListener("click", () => getSelection().isCollapsed && select(piece.node));
    body.append(span);
  }
  return h("div", { className: "message" }, h("p", { className: "role" }, role), body);
}

/** A text as it is, or in stretches that are laid out when they come into sight. */
function stretches(text) {
  if (text.length <= LONGEST_STRETCH) return [text];
  return [...chunks(text, LONGEST_STRETCH)].map((part) => h("span", { className: "stretch" }, part));
}

function section(name, content, copied, missing) {
  const copy = h("button", { type: "button", className: "link" }, "copy");
  copy.setAttribute("aria-label", `Copy the ${name.toLowerCase()}`);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copied());
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
