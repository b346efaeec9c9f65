/** Records a stream of the server as a template, which the C server (anchor.c) replays. */
import { complete, read } from "../lib/reader.ts";
import { root } from "../lib/results.ts";
import { dumped, eventsIn, packed, units } from "../lib/template.ts";

export interface Template {
  /** Path from the repository's root, because results on other machines contain it, too. */
  readonly path: string;
  readonly units: number;
  readonly events: number;
  readonly bytes: number;
}

/** Records the answer to `body`. Throws if a chunk in mid-stream has several events, because then the server merged events. */
export async function capture(port: number, body: unknown, name: string): Promise<Template> {
  const dump = `${root}build/bench/${name}.dump`;
  complete(await read({ port, body, dump }), 1);
  const response = dumped(dump);
  const parts = units(response);
  // The first chunk may also have the role's event, and the last chunk the end mark.
  const merged = parts.slice(1, -1).filter((part) => eventsIn(part) !== 1).length;
  if (merged > 0)
    throw new Error(`${merged} chunks of the recorded stream have several events: the reader was too slow`);
  const path = `build/bench/${name}.template`;
  await Bun.write(root + path, packed(parts));
  return { path, units: parts.length, events: eventsIn(response), bytes: response.length };
}
