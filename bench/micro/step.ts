/**
 * Measures how many tokens per second the core alone generates if all requests decode.
 *
 *   bun run bench step [--seconds 1] [--base REV [--pairs 5]] [--no-save]
 */
import { BASE_FLAGS, compareWithBase } from "../lib/base.ts";
import { bars, options, progress, save, table } from "../lib/bench.ts";
import { decode, loadDecoding, tokensThatFit } from "./decode.ts";

const { seconds } = options({ seconds: 1 }, BASE_FLAGS);
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

const core = await loadDecoding();
const rows = SEQUENCES.map((sequences) => {
  progress(`step: ${sequences} sequences`);
  const length = tokensThatFit(sequences);
  for (let round = 0; round < 3; round++) decode(core, sequences, length); // warm-up
  let [tokens, steps, ms, sum] = [0, 0, 0, 0];
  for (let round = 0; round < ROUNDS || ms < seconds * 1000; round++) {
    const run = decode(core, sequences, length);
    [tokens, steps, ms, sum] = [tokens + run.tokens, steps + run.steps, ms + run.ms, run.checksum];
  }
  const checksum = (sum >>> 0).toString(16);
  return { sequences, tokensPerSecond: (tokens / ms) * 1000, nsPerStep: (ms * 1e6) / steps, checksum };
});

table("The core alone, decode only", [
  ["sequences", "M tokens/s", "ns per step", "ns per token", "checksum"],
  ...rows.map(({ sequences, tokensPerSecond, nsPerStep, checksum }) => [
    ...[String(sequences), tokensPerSecond / 1e6, nsPerStep, nsPerStep / sequences, checksum],
  ]),
]);
const measured = rows.find(({ sequences }) => sequences === BAR.sequences)!.tokensPerSecond;
bars([`ns per token at ${BAR.sequences}`, 1e9 / measured, 1e9 / BAR.tokensPerSecond, "ns"]);
save("step", { rows });
