// Elements and numbers in words. Whatever a document or a model says is set as text, never as markup.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// A button for what can't be undone: pressed once it asks, pressed again it does it.
export function twice(words, question, what, act) {
  let asked = false;
  const name = (said) => [said, make("span", { class: "unseen" }, ` ${what}`)];
  const ask = (again) => {
    asked = again;
    button.replaceChildren(...name(again ? question : words));
  };
  const button = make("button", { type: "button", class: "quietly", onclick: () => (asked ? act() : ask(true)), onblur: () => ask(false) }, ...name(words));
  return button;
}

export const find = (id) => document.getElementById(id);

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export function short(number) {
  if (number < 1000) return String(Math.round(number));
  const [size, unit] = number < 999_500 ? [number / 1e3, "k"] : [number / 1e6, "M"];
  return `${size < 9.95 ? size.toFixed(1) : Math.round(size)}${unit}`;
}

export function duration(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export const place = (at) => [at.source, at.page ? `page ${at.page}` : `line ${at.line}`].join(", ");
