/**
 * `npx bun run golden triton DIR [--only LIST] [--mutate SEED]` plays recordings of a real Triton against our servers, with a
 * new server per scenario. DIR contains `http/`, `grpc/`, `metrics/` or the recordings themselves. LIST is names or parts of
 * names, separated by commas, or a file with one per line. Each answered step, each metrics scenario, and each name without a
 * recording counts as one case. `--mutate` first changes one value of each expectation; then every case must fail.
 */
import { commandLine, usage, verdict } from "../golden/exchanges-command.ts";
import { mutated } from "./golden/mutate.ts";
import { playAll } from "./golden/play.ts";
import { readRecordings } from "./golden/recordings.ts";

const { dir, only, seed } = commandLine("triton");
const { scenarios, models } = readRecordings(dir);
const parts = only && [...only];
const wanted = parts ? scenarios.filter(({ name }) => parts.some((part) => name.includes(part))) : scenarios;
if (wanted.length === 0) usage("triton", `no recordings${parts ? ` of ${parts.join(", ")}` : ""} in ${dir}`);
const missing = (parts ?? []).filter((part) => !wanted.some(({ name }) => name.includes(part)));
const { add, end } = verdict(missing, seed !== null);
const all = wanted.map((one) => (seed === null ? one : mutated(one, seed)));
for await (const result of playAll(all, models, console.log, { once: seed !== null })) add(result);
await end();
