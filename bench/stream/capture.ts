/** One real stream of the server, as the anchor's template. */
import { complete, read } from "../lib/reader.ts";
import { root } from "../lib/results.ts";
import { dumped, eventsIn, packed, units } from "../lib/template.ts";

export interface Template {
  /** From the repository's root: it is kept with the figures. */
  readonly path: string;
  readonly units: number;
  readonly events: number;
  readonly bytes: number;
}

/** Captures the answer to `body`. Throws where one chunk carries several events in mid-stream: the server had merged. */
export async function capture(port: number, body: unknown, name: string): Promise<Template> {
  const dump = `${root}build/bench/${name}.dump`;
  complete(await read({ port, body, dump }), 1);
  const response = dumped(dump);
  const parts = units(response);
  // The role's event may share the first chunk, the end mark the last.
  const merged = parts.slice(1, -1).filter((part) => eventsIn(part) !== 1).length;
  if (merged > 0) throw new Error(`${merged} chunks of the captured stream are merged ones: the reader was too slow`);
  const path = `build/bench/${name}.template`;
  await Bun.write(root + path, packed(parts));
  return { path, units: parts.length, events: eventsIn(response), bytes: response.length };
}
