/** Does a live server repeat what the real one was recorded to say, and would a wrong byte be noticed? */
import { expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { readFolder } from "./api/cases.ts";
import { compact, slice } from "./api/json-slices.ts";
import { mutated } from "./api/mutate.ts";
import { playAll, type Verdict } from "./api/play.ts";

setDefaultTimeout(240_000);

const here = new URL("./", import.meta.url).pathname;
const namesIn = (list: string) =>
  readFileSync(`${here}lists/${list}.txt`, "utf8").replace(/#.*$/gm, "").split(/\s+/).filter(Boolean);
const openai = namesIn("openai");

async function verdicts(names: ReadonlySet<string> | null, seed: number | null, dir = "recorded"): Promise<Verdict[]> {
  const folder = readFolder(`${here}${dir}`, names);
  const cases = seed === null ? folder.cases : folder.cases.map((one) => mutated(one, seed));
  const all: Verdict[] = [];
  await playAll({ ...folder, cases }, (verdict) => all.push(verdict));
  return all;
}

test("a folder without recorded exchanges is not a folder that passes", () => {
  const script = `${here}golden-api.ts`;
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, script, `${here}lists`]);
  expect(stderr.toString()).toStartWith(`golden:api: no recorded exchanges in ${here}lists\n`);
  expect([exitCode, stdout.toString()]).toEqual([2, ""]);
});

test("every listed case is repeated to the byte by a live server, header lines in their order", async () => {
  const all = await verdicts(new Set(openai), null);
  expect(all.map(({ name }) => name).sort()).toEqual([...openai].sort());
  expect(all.filter(({ wrong }) => wrong !== null)).toEqual([]);
});

// Made with the recorder of the other recordings, of the same server, where what we did had to be guessed.
test("corners: batches, invocations, stops inside steps, bursts, CORS, sleep, adapters, death", async () => {
  const all = await verdicts(null, null, "recorded-corners");
  expect(all.length).toBe(402);
  expect(all.filter(({ wrong }) => wrong !== null)).toEqual([]);
});

/** Those of the second list that are about tools and constraints. */
const TOOLS =
  /^(?:tools-(?!messages|responses)|chat-(?:json|structured|tools|response)|err-(?:response-format|structured|tool))/;

test("tools and constraints: every listed case, and none with one thing changed", async () => {
  const names = new Set(namesIn("dialects-and-tools").filter((name) => TOOLS.test(name)));
  expect(names.size).toBe(62);
  const all = await verdicts(names, null);
  expect(all.map(({ name }) => name).sort()).toEqual([...names].sort());
  expect(all.filter(({ wrong }) => wrong !== null)).toEqual([]);
  const changed = await verdicts(names, 1);
  expect(changed.filter(({ wrong }) => wrong === null)).toEqual([]);
});

test("responses, messages, thinking: every listed case, and none with one thing changed", async () => {
  const names = new Set(namesIn("dialects-and-tools").filter((name) => !TOOLS.test(name)));
  expect(names.size).toBe(60);
  const all = await verdicts(names, null);
  expect(all.map(({ name }) => name).sort()).toEqual([...names].sort());
  expect(all.filter(({ wrong }) => wrong !== null)).toEqual([]);
  const changed = await verdicts(names, 1);
  expect(changed.filter(({ wrong }) => wrong === null)).toEqual([]);
});

// Made as the corners: tags where they are not expected, histories, stores, choices of tools, single fields.
test("corners of responses, messages and thinking", async () => {
  const all = await verdicts(null, null, "recorded-dialects");
  expect(all.length).toBe(425);
  expect(all.filter(({ wrong }) => wrong !== null)).toEqual([]);
});

test("with one thing of each recording changed, no case passes", async () => {
  // A part of them: what is compared is the same for all.
  const some = openai.filter((_, i) => i % 8 === 0);
  const all = await verdicts(new Set(some), 1);
  expect(all.length).toBe(some.length);
  expect(all.filter(({ wrong }) => wrong === null)).toEqual([]);
});

test("a case is in one list, and what is recorded here is in a list", () => {
  const others = namesIn("dialects-and-tools");
  expect(openai.filter((name) => others.includes(name))).toEqual([]);
  expect(new Set([...openai, ...others]).size).toBe(468);
  const recorded = readdirSync(`${here}recorded`).filter((file) => file.endsWith(".json"));
  const known = new Set([...openai, ...others]);
  const strange = recorded.map((file) => file.slice(0, -5)).filter((name) => !known.has(name));
  expect(strange.filter((name) => !name.startsWith("vllm-0.33-"))).toEqual([]);
});

test("a body is sent in the spelling of its recording", () => {
  const text = '{ "request": { "body": { "b": 1.0, "10": [ 1e3, "a \\" : , b" ], "2": 9223372036854775808 } } }';
  const body = slice(text).members.get("request")!.members.get("body")!;
  expect(compact(text.slice(body.from, body.to))).toBe('{"b":1.0,"10":[1e3,"a \\" : , b"],"2":9223372036854775808}');
});
