// Lines of what a reader gives, one after another: what DSPy's runner imports from deno.land, which may be out of reach.
export async function* readLines(reader) {
  const decoder = new TextDecoder();
  const chunk = new Uint8Array(65536);
  let rest = "";
  for (let size; (size = await reader.read(chunk)) !== null;) {
    const lines = (rest + decoder.decode(chunk.subarray(0, size), { stream: true })).split("\n");
    rest = lines.pop();
    yield* lines;
  }
  if (rest) yield rest;
}
