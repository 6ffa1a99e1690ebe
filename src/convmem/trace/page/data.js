// The export (its format is described in export.py): unfolded, and prompts rebuilt from their pieces. Shows nothing.

let data, nodes, children, text, units, replyUnits;

async function unfold() {
  const packed = atob($("data").textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function take(exported) {
  data = exported;
  nodes = data.nodes;
  children = nodes.map(() => []);
  nodes.forEach((node, i) => node.parents.forEach((parent) => children[parent].push(i)));
  text = data.sources.map((source) => source.text).join(data.joint);
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
