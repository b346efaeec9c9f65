/** Generates a trace like Mooncake's from a fixed seed: growing conversations, in bursts every three seconds. */
import { seeded } from "../../src/base/random.ts";
import { TRACE_BLOCK } from "../../src/workloads/trace.ts";

const LONGEST_BLOCKS = 240;
const CONVERSATIONS = 500;

/** Returns the trace as JSON Lines. */
export function mooncakeTrace(requests: number): string {
  const random = seeded(1);
  const below = (limit: number) => random() % limit;
  const open: number[][] = [];
  let next = 1;
  const lines: string[] = [];
  for (let i = 0; i < requests; i++) {
    const old = open.length > 0 && below(2) === 0 ? open[below(open.length)]! : below(2) === 0 ? [0] : [];
    const ids = [...old];
    for (let more = 1 + below(30); more > 0 && ids.length < LONGEST_BLOCKS; more--) ids.push(next++);
    open[open.length < CONVERSATIONS ? open.length : below(CONVERSATIONS)] = ids.slice(0, -1);
    const line = {
      timestamp: Math.floor(i / 10) * 3000,
      input_length: (ids.length - 1) * TRACE_BLOCK + 1 + below(TRACE_BLOCK),
      output_length: 1 + below(700),
      hash_ids: ids,
    };
    lines.push(JSON.stringify(line));
  }
  return `${lines.join("\n")}\n`;
}
