/** Compares the events that we would publish with those of recorded runs of vLLM's scheduler. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { recordingsAt } from "../golden/places.ts";
import { figure, sampled } from "../size.ts";
import { playedEvents } from "./recorded-events.ts";

const golden = join(import.meta.dir, "../golden");
const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build/core.wasm")));
const recordings = [...recordingsAt(["vllm-0.33", "random", "recorded"].map((name) => join(golden, name)))];

setDefaultTimeout(120_000);

test("events of recorded runs are those of vLLM, in their order", () => {
  let events = 0;
  for (const { name, load } of sampled("kv-events", recordings, 40)) {
    const recording = load();
    const { ours, recorded, unmade } = playedEvents(recording, module);
    const isTrace = recording.rows.some((row) => row.t === "s");
    expect({ name, unmade }).toEqual({ name, unmade: 0 });
    if (isTrace) expect({ name, events: ours }).toEqual({ name, events: [...recorded] });
    events += ours.length;
  }
  expect(events).toBeGreaterThan(100);
  figure("events of recorded traces", events);
});
