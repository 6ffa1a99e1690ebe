// Text made safe to show, and the two ways of counting characters. Knows nothing of traces.
// Whatever comes from the data reaches the page as text nodes only, through `visible`.

"use strict";
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");

/** Control and direction characters as visible signs, one for one, so that offsets stay true. */
function visible(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c, at, whole) => {
      if (c === "\r") return whole[at + 1] === "\n" ? "\u200b" : "\n";
      const code = c.charCodeAt(0);
      if (code < 0x20) return String.fromCharCode(0x2400 + code);
      return code === 0x7f ? "\u2421" : "\ufffd";
    },
  );
}

/** From code points, which the data counts, to the UTF-16 units of this text. */
function unitsOf(text) {
  const astral = [];
  for (const match of text.matchAll(/[\u{10000}-\u{10ffff}]/gu)) astral.push(match.index - astral.length);
  return astral.length ? (point) => point + below(astral, point) : (point) => point;
}

/** How many entries of a sorted list are less than `value` (as `key` sees them). */
function below(sorted, value, key = (x) => x) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(sorted[middle]) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A long text cut at line ends where it has them, so that the browser need lay out only the parts in sight. */
function* chunks(text, size) {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + size, text.length);
    const line = text.lastIndexOf("\n", end - 1) + 1;
    if (end < text.length) end = line > at ? line : whole(text, end);
    yield text.slice(at, end);
    at = end;
  }
}

/** The offset, or the one before it where it would cut a character in two. */
const whole = (text, offset) => (/[\udc00-\udfff]/.test(text[offset]) ? offset - 1 : offset);

/** An element with properties, and children that are elements or text. */
function h(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : visible(String(child)))));
  return element;
}

const isolated = (text) => h("bdi", null, text);
const count = (n, one, many = one + "s") => `${number.format(n)} ${n === 1 ? one : many}`;

function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
