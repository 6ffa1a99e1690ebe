// Shows /openapi.json. Everything in it is set as text.
"use strict";

const make = (tag, text = "", ...children) => {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...children);
  return element;
};

const code = (text) => make("code", text);

const paragraphs = (text) => text.split(/\n\s*\n/).map((each) => make("p", each.replaceAll("\n", " ").replaceAll("`", "")));

function kind(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${kind(schema.items) || "anything"}`;
  return schema.format === "binary" || schema.contentMediaType ? "file" : schema.type ?? "anything";
}

function table(rows) {
  const body = make("tbody", "", ...rows.map((row) => make("tr", "", code(row[0]), ...row.slice(1).map((cell) => make("td", cell)))));
  for (const row of body.rows) row.firstChild.replaceWith(make("td", "", row.firstChild.cloneNode(true)));
  const scroll = make("div", "", make("table", "", body));
  scroll.className = "scroll";
  return scroll;
}

const fields = (schema) => Object.entries(schema.properties ?? {}).map(([name, field]) =>
  [name, kind(field) + ((schema.required ?? []).includes(name) ? ", required" : ""), field.description ?? ""]);

function operation(method, path, said) {
  const section = make("section", "", make("h3", "", make("b", method.toUpperCase()), ` ${path}`), ...paragraphs(said.description ?? ""));
  section.id = said.operationId;
  const parameters = (said.parameters ?? []).map((p) => [p.name, `${kind(p.schema)}, in ${p.in}${p.required ? ", required" : ""}`, p.description ?? ""]);
  if (parameters.length) section.append(table(parameters));
  for (const [type, content] of Object.entries(said.requestBody?.content ?? {})) {
    section.append(make("p", `Body: ${kind(content.schema)} (${type})`));
  }
  const answers = Object.entries(said.responses).map(([status, answer]) =>
    `${status} ${Object.values(answer.content ?? {}).map((content) => kind(content.schema)).join(", ")}`.trim());
  section.append(make("p", `Answers: ${answers.join("; ")}`));
  return section;
}

async function show() {
  const said = await (await fetch("/openapi.json")).json();
  document.getElementById("about").replaceWith(...paragraphs(said.info.description));
  const list = make("ul");
  for (const [path, methods] of Object.entries(said.paths)) {
    for (const [method, each] of Object.entries(methods)) {
      const link = make("a", `${method.toUpperCase()} ${path}`);
      link.href = `#${each.operationId}`;
      list.append(make("li", "", link));
      document.getElementById("paths").append(operation(method, path, each));
    }
  }
  document.getElementById("contents").append(list);
  for (const [name, schema] of Object.entries(said.components.schemas)) {
    const section = make("section", "", make("h3", name), ...paragraphs(schema.description ?? ""), table(fields(schema)));
    document.getElementById("schemas").append(section);
  }
}

show();
