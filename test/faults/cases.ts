/** Plans that show each fault in each of its ways, and the answers on which they act. */

import type { FaultRow } from "../../src/faults/plan/types.ts";
import { actsOn } from "../../src/faults/rows/row.ts";
import { FAULT_ROWS } from "../../src/faults/table.ts";

/** Text with characters of 1 to 4 bytes, joined characters and line ends. */
export const SAID = "Grüße, 🦔 and 👩‍👩‍👧 again\r\nBye → now";

const tools = ["first", "second"].map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } },
}));
const message = { role: "user", content: "Say it" };

/** Requests by the kind of their answer. */
export const ASKED: Readonly<Record<string, { readonly path: string; readonly body: object; readonly order: object }>> =
  {
    chat: { path: "/v1/chat/completions", body: { messages: [message] }, order: { script: SAID } },
    calls: {
      path: "/v1/chat/completions",
      body: { messages: [message], tools, seed: 4 },
      order: { call: ["first", "second"] },
    },
    reasoned: {
      path: "/v1/chat/completions",
      body: { messages: [message] },
      order: { script: { parts: [{ reasoning: "First, the umlauts." }, { content: SAID }] } },
    },
    completions: { path: "/v1/completions", body: { prompt: "Say it", max_tokens: 60 }, order: { script: SAID } },
    messages: { path: "/v1/messages", body: { messages: [message], max_tokens: 60 }, order: { script: SAID } },
    responses: { path: "/v1/responses", body: { input: "Say it" }, order: { script: SAID } },
  };

/** Short times, so that no test waits for minutes. */
const SHORT: Readonly<Record<string, string>> = {
  S5: "for=60ms,every=20ms",
  T7: "for=60ms,every=20ms",
  T1: "for=60ms",
  T2: "for=150ms",
  T3: "rate=200000",
  T4: "pause=30ms",
  T5: "median=300us",
  E3: "for=150ms",
  E7: "after=20ms",
  H7: "bytes=100",
  H9: "before=20ms",
  S13: "bytes=100KB",
};

export interface FaultCase {
  readonly plan: string;
  readonly id: string;
  readonly asked: keyof typeof ASKED;
  /** False if the answer is requested in one piece. */
  readonly streams: boolean;
}

/** Returns every fault that an answer over this protocol can have, with each of its words. */
export function faultCases(over: "1.1" | "2" = "1.1"): FaultCase[] {
  return [...FAULT_ROWS.values()].filter((row) => row.stage !== "client" && actsOn(row, over)).flatMap(casesOf);
}

const casesOf = (row: FaultRow): FaultCase[] =>
  plansOf(row).flatMap((plan) => asked(row).map((dialect) => ({ plan, id: row.id, asked: dialect, streams: true })));

/** Returns a plan per word of the fault. */
export function plansOf(row: FaultRow): string[] {
  const first = row.parameters.find(({ type }) => type === "word");
  const ways = first?.type === "word" ? first.words : [""];
  return ways.map((way) => [`${row.id}${placeFor(row, way)}`, way, SHORT[row.id] ?? ""].filter(Boolean).join(","));
}

/** Returns a position that every answer has. */
function placeFor({ id, position }: FaultRow, way: string): string {
  if (id === "E1" && way === "bare") return "";
  return position === "?" ? "@e3" : "";
}

function asked({ id, stage, dialects }: FaultRow): FaultCase["asked"][] {
  if (id === "J7" || id === "J16") return ["calls"];
  if (id === "J19") return ["reasoned"];
  if (stage === "events") return dialects.filter((dialect) => dialect !== "generate");
  return ["chat"];
}
