/** `understudy proxy --to URL`: forwards requests to a real server, applies faults to its answers, and records them. */

import { epochSeconds, WallClock } from "../../base/clock.ts";
import { takeOverOutput } from "../../base/output.ts";
import { whenOrphaned } from "../../base/parent.ts";
import { UserError } from "../../base/start-errors.ts";
import { BrokenPlan, parsePlan, planByChance } from "../../faults/order.ts";
import type { Plan } from "../../faults/plan/types.ts";
import { openFaultRules } from "../../text/canned/fixtures/fault-rules.ts";
import type { Question } from "../../text/canned/fixtures/match.ts";
import { Recorder } from "../../tools/proxy/recorder.ts";
import { ProxyServer } from "../../tools/proxy/server.ts";
import { onInterrupt } from "../interrupt.ts";
import { takeOptions } from "../options/take-options.ts";
import { printErrorLine, printText } from "../print.ts";
import { takeBackReady, writeReady } from "../ready-file.ts";
import { refuser } from "../refuse.ts";
import { type ProxyValues, proxyHelp, proxyOptions } from "./proxy-options.ts";

const refuse = refuser("proxy");

export async function runProxy(argv: readonly string[]): Promise<void> {
  const taken = takeOptions(proxyOptions, argv);
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(proxyHelp());
  if (rest.length > 0) return refuse(`${rest[0]}: unknown (understudy proxy --help)`);
  if (values.to === undefined) return refuse("needs --to URL, the address of the server (understudy proxy --help)");
  const unready = takeBackReady(values["ready-file"]);
  if (unready) return refuse(unready);
  try {
    await proxy(values.to, values);
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    if (error instanceof BrokenPlan) return refuse(`--fault ${values.fault}: ${message}`);
    if (error instanceof UserError) return refuse(error.fullMessage);
    if (code === "EADDRINUSE") return refuse(`--port ${values.port}: is in use; choose another port`);
    if (code === "EACCES" || code === "EEXIST" || code === "ENOTDIR")
      return refuse(`--record ${values.record}: ${code}`);
    throw error;
  }
}

async function proxy(to: URL, values: ProxyValues): Promise<void> {
  takeOverOutput("understudy proxy");
  const { host = "127.0.0.1", port = 8080, record } = values;
  const clock = new WallClock();
  const say = (line: string) => printErrorLine(`understudy proxy: ${line}`);
  const planFor = planForOf(values, () => clock.now(), say);
  const ready = values["ready-file"];
  const recorder = record === undefined ? null : new Recorder(record, say);
  const server = new ProxyServer({ to, host, port, planFor, recorder, clock, epochSeconds, say });
  const end = () => {
    void server.close();
    clock.close();
    process.exit(0);
  };
  // Listen for signals before printing the message, because a program that reads the message may send a signal at once.
  onInterrupt(end);
  if (values["exit-with-parent"]) whenOrphaned(clock, end);
  printText(`understudy proxy: ${server.url} forwards to ${to.href}`);
  if (ready !== undefined) writeReady(ready, { url: server.url, pid: process.pid });
}

/**
 * Returns the function that chooses a plan for each request. Returns null if no faults are ordered. Throws `BrokenPlan` for a
 * malformed plan.
 */
function planForOf(
  { fault, "fault-plan": file, "fault-rate": rate = 0, faults = [], seed = 0 }: ProxyValues,
  nowUs: () => number,
  say: (line: string) => void,
): ((question: Question, key: string) => Plan | null) | null {
  if (fault !== undefined) {
    const plan = parsePlan(fault);
    return () => plan;
  }
  const rules = file === undefined ? null : openFaultRules(file, nowUs, say);
  if (rules === null && rate === 0) return null;
  return (question, key) =>
    rules?.planFor(question, key) ?? (rate === 0 ? null : planByChance(rate / 100, faults, seed, key));
}
