/** Records a stream of the server as a template, and starts the C server (anchor.c), which replays it. */

import { root } from "../lib/bench.ts";
import { complete, read } from "../lib/client.ts";
import { flagsOf, inTurns, program, type RunningServer, serve, start } from "../lib/servers.ts";
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

/** Records an answer of a new server with these flags. */
export async function templateOf(flags: readonly string[], body: unknown, name: string): Promise<Template> {
  await using server = await serve(flags);
  return await capture(server.port, body, name);
}

interface LoopOptions {
  /** Number of events per answer. Default: as recorded. */
  readonly events?: number;
  /** Number of streams that must be open before the first event. */
  readonly wait?: number;
  readonly periodUs?: number;
  readonly log?: string;
}

/** Starts the C server. */
export const startLoop = (template: Template, options: LoopOptions): Promise<RunningServer> =>
  start([program("anchor"), "--template", root + template.path, ...flagsOf(options)]);

/** Measures new servers of ours and new C servers in turns, and ends each after its measurement. */
export async function againstLoop<Run>(
  name: string,
  rounds: number,
  ours: () => Promise<RunningServer>,
  loop: () => Promise<RunningServer>,
  measure: (server: RunningServer) => Promise<Run>,
) {
  const measured = (begin: () => Promise<RunningServer>) => async () => {
    await using server = await begin();
    return await measure(server);
  };
  const runs = await inTurns(name, rounds, { ours: measured(ours), loop: measured(loop) });
  return { ...runs, pairs: runs.ours.map((run, round) => ({ ours: run, loop: runs.loop[round]! })) };
}
