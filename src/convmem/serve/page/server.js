// The server's paths, with the key where it asks for one. Knows nothing of the page.

import { make } from "./dom.js";

const LAST = new Set(["done", "failed", "cancelled"]);
const AGAIN = 1000;

let key = sessionStorage.getItem("convmem-key") ?? "";

export const hasKey = () => key !== "";

export function useKey(value) {
  key = value;
  sessionStorage.setItem("convmem-key", key);
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, { headers = {}, ...options } = {}) {
  const answer = await fetch(path, { ...options, headers: key ? { ...headers, authorization: `Bearer ${key}` } : headers });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  throw new Refused(answer.status, said?.error?.message ?? `The server answered ${answer.status}.`);
}

export const get = async (path) => (await send(path)).json();

export async function post(path, body = {}) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return (await send(path, options)).json();
}

export const remove = async (path) => (await send(path, { method: "DELETE" })).json();

export async function upload(files) {
  const form = new FormData();
  for (const file of files) form.append("files", file, file.name);
  return (await send("/v1/documents", { method: "POST", body: form })).json();
}

export async function download(path, name) {
  const url = URL.createObjectURL(await (await send(path)).blob());
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), AGAIN);
}

// The events of a run from its first to its last, through lost connections. Ends early when `signal` aborts.
export async function* events(run, signal) {
  let seen = 0;
  let last = null;
  while (!signal.aborted) {
    try {
      const answer = await send(`/v1/runs/${run}/events?after=${seen}`, { signal });
      for await (const [number, event] of parsed(answer.body)) {
        [seen, last] = [number, event.type];
        yield event;
      }
      if (LAST.has(last)) return; // only where nothing follows: a run that was resumed goes on behind its first end
    } catch (error) {
      if (error instanceof Refused && error.status < 500) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
  }
}

async function* parsed(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (held + value).split("\n\n");
      held = parts.pop();
      for (const part of parts) {
        const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s, 2)));
        if (fields.data) yield [Number(fields.id), JSON.parse(fields.data)];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
