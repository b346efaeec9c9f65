/**
 * Measures how many tokens per second the core alone generates if all requests decode.
 *
 *   bun run bench step [--seconds 1] [--base REV [--pairs 5]] [--no-save]
 */
import { BASE_FLAGS, compareWithBase } from "../lib/base.ts";
import { number, rejectUnknown } from "../lib/options.ts";
import { bar, progress, table } from "../lib/report.ts";
import { save } from "../lib/results.ts";
import { decode, loadDecoding, tokensThatFit } from "./decode.ts";

rejectUnknown(["--seconds", "--no-save", ...BASE_FLAGS]);
interface Row {
  readonly sequences: number;
  readonly nsPerStep: number;
}
await compareWithBase({
  name: "step",
  script: "bench/micro/step.ts",
  costs: ({ rows }: { readonly rows: readonly Row[] }) =>
    Object.fromEntries(rows.map((row) => [`ns per step of ${row.sequences}`, row.nsPerStep])),
});

const SEQUENCES = [1, 64, 256, 1024];
const BAR = { sequences: 256, tokensPerSecond: 50e6 };
const ROUNDS = 5;

const seconds = number("--seconds", 1);
const core = await loadDecoding();
const rows: { sequences: number; tokensPerSecond: number; nsPerStep: number; checksum: string }[] = [];
for (const sequences of SEQUENCES) {
  progress(`step: ${sequences} sequences`);
  const length = tokensThatFit(sequences);
  for (let round = 0; round < 3; round++) decode(core, sequences, length); // warm-up
  let best = 0;
  let [tokens, steps, ms, sum] = [0, 0, 0, 0];
  for (let round = 0; round < ROUNDS || ms < seconds * 1000; round++) {
    const run = decode(core, sequences, length);
    tokens += run.tokens;
    steps += run.steps;
    ms += run.ms;
    sum = run.checksum;
    best = Math.max(best, (run.tokens / run.ms) * 1000);
  }
  rows.push({
    sequences,
    tokensPerSecond: (tokens / ms) * 1000,
    nsPerStep: (ms * 1e6) / steps,
    checksum: (sum >>> 0).toString(16),
  });
  progress(`step: ${sequences} sequences, best ${(best / 1e6).toFixed(0)} M tokens/s`);
}

table("The core alone, decode only", [
  ["sequences", "M tokens/s", "ns per step", "ns per token", "checksum"],
  ...rows.map(({ sequences, tokensPerSecond, nsPerStep, checksum }) => [
    ...[String(sequences), tokensPerSecond / 1e6, nsPerStep, nsPerStep / sequences, checksum],
  ]),
]);
const measured = rows.find(({ sequences }) => sequences === BAR.sequences)!.tokensPerSecond;
console.log(`  ${bar(`ns per token at ${BAR.sequences}`, 1e9 / measured, 1e9 / BAR.tokensPerSecond, "ns")}`);
save("step", { rows });
