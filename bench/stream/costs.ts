/** Reads the costs to compare between revisions from a line of bench/results/stream.jsonl. Omits parts that did not run. */
import type { Costs } from "../lib/compared.ts";

interface Line {
  readonly cpu?: { readonly ratio?: number; readonly ours?: { readonly cpuUs: number } };
  readonly sends?: { readonly sendsPerEvent?: number };
  readonly paced?: readonly {
    readonly streams: number;
    readonly isVoid: boolean;
    readonly writeRatio: number;
    readonly ours: {
      readonly cpuUs: number;
      readonly steps: { readonly lateP50Us: number; readonly lateP99Us: number };
    };
  }[];
}

export function costs({ cpu, sends, paced = [] }: Line): Costs {
  const all: [string, number | undefined][] = [
    ["CPU per token, us", cpu?.ours?.cpuUs],
    ["CPU per token, times the C loop", cpu?.ratio],
    ["sends per event", sends?.sendsPerEvent],
  ];
  for (const { streams, isVoid, writeRatio, ours } of paced) {
    // The machine was too busy for a valid result.
    if (isVoid) continue;
    all.push([`${streams} streams: CPU per event, us`, ours.cpuUs]);
    all.push([`${streams} streams: writing, times the C loop`, writeRatio]);
    all.push([`${streams} streams: late, p50, us`, ours.steps.lateP50Us]);
    all.push([`${streams} streams: late, p99, us`, ours.steps.lateP99Us]);
  }
  return Object.fromEntries(all.filter((pair): pair is [string, number] => pair[1] !== undefined));
}
