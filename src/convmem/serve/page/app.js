// The page: documents, the question, the ways of reading, and the runs that the address names, so that a reload loses nothing.

import { counted, find, make, short, twice } from "./dom.js";
import { open } from "./reader.js";
import { expected, labelled, show } from "./run.js";
import { get, post, Refused, remove, upload, useKey } from "./server.js";

const TYPING = 400;

let documents = [];
let chosen = null;

const shelf = {
  adding: null, // the document that is being uploaded: a question that is asked meanwhile is about that one

  async refresh(choose) {
    documents = (await get("/v1/documents")).data;
    chosen = [choose, chosen, documents[0]?.id].find((id) => documents.some((each) => each.id === id)) ?? null;
    find("shelf").replaceChildren(...documents.map((each) => make("div", { class: "book" },
      make("label", {},
        make("input", { type: "radio", name: "document", value: each.id, checked: each.id === chosen, onchange: () => { chosen = each.id; estimate(); } }),
        make("span", {}, each.name, make("small", {}, `${counted(each.characters, "character")}${each.warnings.length ? ` · ${each.warnings.join(" ")}` : ""}`))),
      twice("Delete", "Delete it with its answers?", each.name, () => attempt(() => shelf.drop(each))))));
    estimate();
  },

  async drop({ id, name }) {
    clearTimeout(estimate.timer);
    if (chosen === id) chosen = null; // nothing more is estimated for what goes
    await remove(`/v1/documents/${id}`);
    if (find("runs").querySelector(`[data-document="${id}"]`)) {
      history.replaceState(null, "", location.pathname);
      find("runs").replaceChildren();
    }
    await Promise.all([shelf.refresh(), listEarlier()]);
    say(`${name} is deleted.`);
    find("question").focus();
  },

  async add(files) {
    if (!files.length) return;
    const drop = find("drop");
    drop.dataset.busy = files.length === 1 ? `Reading ${files[0].name} …` : `Reading ${files.length} files …`;
    say(drop.dataset.busy);
    shelf.adding = attempt(async () => {
      const added = await upload(files);
      await shelf.refresh(added.id);
      say(`${added.name} is here: ${counted(added.characters, "character")}.`);
      find("question").focus();
      return added;
    });
    await shelf.adding;
    shelf.adding = null;
    delete drop.dataset.busy;
    find("files").value = "";
  },
};

const say = (words) => { find("news").textContent = words; };

// What goes wrong is said in the page, and no error is lost.
async function attempt(work) {
  find("trouble").textContent = "";
  try {
    return await work();
  } catch (error) {
    find("trouble").textContent = error instanceof Refused ? error.message : `The server can’t be reached: ${error.message}`;
    if (error.status === 401) unlock();
    return undefined;
  }
}

function unlock() {
  find("unlock").hidden = false;
  find("ask").hidden = true;
  find("key").focus();
}

// ---------------------------------------------------------------------------------------------- ways of reading

// What the presets of ConvMem mean to someone who reads no papers.
const PRESETS = { lean: "reads everything about once", paper: "as published: reads everything about thirty times" };

function way(method, preset, summary, checked) {
  const cost = make("small", { class: "estimate" });
  const box = make("input", { type: "checkbox", checked, onchange: () => estimate() });
  box.order = { method, preset };
  box.cost = cost;
  return make("label", { class: "way" }, box, make("span", {}, labelled({ method, preset }), make("small", {}, summary), cost));
}

const ways = () => [...find("reading").querySelectorAll("input[type=checkbox]")];

async function listWays() {
  const [methods, models] = await Promise.all([get("/v1/methods"), get("/v1/models")]);
  const own = methods.data.find((each) => each.name === "convmem");
  const others = methods.data.filter((each) => each !== own);
  find("ways").replaceChildren(...[...own.presets].sort().map((preset) => way("convmem", preset, PRESETS[preset] ?? own.summary, preset === "lean")));
  find("more-ways").replaceChildren(...others.map((each) => way(each.name, each.presets.includes("lean") ? "lean" : "", each.summary, false)));
  const names = models.data.map((each) => each.id);
  const alone = names.filter((name) => !own.presets.some((p) => name.endsWith(`:${p}`) && names.includes(name.slice(0, -p.length - 1))));
  find("model").replaceChildren(...alone.map((name) => make("option", {}, name)));
  find("with-model").hidden = alone.length < 2;
}

function order(box) {
  const budget = find("budget").valueAsNumber;
  return {
    document: chosen, question: find("question").value.trim() || "?", model: find("with-model").hidden ? "" : find("model").value,
    ...box.order, settings: budget > 0 ? { budget } : {},
  };
}

// What each chosen way would cost, a moment after the last change.
function estimate() {
  clearTimeout(estimate.timer);
  estimate.timer = setTimeout(async () => {
    for (const box of ways()) {
      box.cost.textContent = "";
      if (!box.checked || !chosen) continue;
      const asked = JSON.stringify(order(box));
      const plan = await post("/v1/plan", order(box)).catch((error) => ({ trouble: error.message }));
      if (asked !== JSON.stringify(order(box))) return;
      box.cost.textContent = plan.trouble ?? `about ${expected(plan)}, for a document of ${short(plan.tokens)} tokens`;
    }
  }, TYPING);
}

// ---------------------------------------------------------------------------------------------- asking

async function ask() {
  if (shelf.adding && !(await shelf.adding)) return;
  const boxes = ways().filter((box) => box.checked);
  if (!chosen) throw new Refused(400, "Add a document first.");
  if (!boxes.length) throw new Refused(400, "Choose at least one way of reading.");
  const begun = await Promise.allSettled(boxes.map((box) => post("/v1/runs", order(box))));
  const records = begun.filter((each) => each.status === "fulfilled").map((each) => each.value);
  const refused = begun.find((each) => each.status === "rejected");
  if (records.length) {
    history.pushState(null, "", `#${records.map((record) => record.id).join(",")}`);
    find("runs").replaceChildren();
    await show(records, true);
  }
  if (refused) throw refused.reason;
}

// What the address names: runs, or a place in a document, to which the citations of a chat lead.
async function showNamed() {
  const named = location.hash.slice(1);
  const ids = named.split(",").filter((id) => /^run_[0-9a-f]+$/.test(id));
  find("runs").replaceChildren();
  if (ids.length) {
    const records = await Promise.all(ids.map((id) => get(`/v1/runs/${id}`)));
    find("question").value = records[0].question;
    await show(records);
    await shelf.refresh(records[0].document);
    return;
  }
  const at = new URLSearchParams(named);
  if (!at.get("document")) return;
  const document_ = await get(`/v1/documents/${encodeURIComponent(at.get("document"))}`);
  await open(document_, { source: at.get("source"), start: Number(at.get("start")), end: Number(at.get("end")) });
}

async function listEarlier() {
  const { data } = await get("/v1/runs");
  find("earlier").hidden = !data.length;
  find("earlier-runs").replaceChildren(...data.map((run) =>
    make("li", {}, make("a", { href: `#${run.id}` }, run.question), make("small", {}, ` ${labelled(run)} · ${run.answer?.answer ?? run.status}`))));
}

async function begin() {
  await Promise.all([listWays(), shelf.refresh()]);
  find("unlock").hidden = true;
  find("ask").hidden = false;
  await Promise.all([showNamed(), listEarlier()]);
}

find("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(find("key").value.trim());
  attempt(begin);
});

find("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  find("go").disabled = true;
  await attempt(ask);
  find("go").disabled = false;
});

find("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    find("ask").requestSubmit();
  }
});

for (const id of ["question", "budget", "model"]) find(id).addEventListener("input", estimate);
find("files").addEventListener("change", () => shelf.add([...find("files").files]));
addEventListener("hashchange", () => attempt(showNamed));
find("earlier").addEventListener("toggle", () => attempt(listEarlier));

const hovering = (over) => find("drop").classList.toggle("over", over);
addEventListener("dragover", (event) => { event.preventDefault(); hovering(true); });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) hovering(false); });
addEventListener("drop", (event) => {
  event.preventDefault();
  hovering(false);
  shelf.add([...event.dataTransfer.files]);
});

attempt(begin);
