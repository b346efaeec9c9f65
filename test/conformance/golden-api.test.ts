/** Checks that a live server repeats the recorded answers of the real one, and that a wrong byte would be noticed. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type Folder, readFolder } from "./api/cases.ts";
import { compact, slice } from "./api/json-slices.ts";
import { mutated } from "./api/mutate.ts";
import { playAll, type Verdict } from "./api/play.ts";

setDefaultTimeout(240_000);

const here = new URL("./", import.meta.url).pathname;
const namesIn = (list: string) =>
  readFileSync(`${here}lists/${list}.txt`, "utf8").replace(/#.*$/gm, "").split(/\s+/).filter(Boolean);
const openai = namesIn("openai");

const SEED = 1;
const listed = new Set([...openai, ...namesIn("dialects-and-tools")]);
const recorded = readFolder(`${here}recorded`, listed);
const corners = readFolder(`${here}recorded-corners`, null);
const dialects = readFolder(`${here}recorded-dialects`, null);
const namesOf = ({ cases }: Folder) => new Set(cases.map(({ name }) => name));

const played = new Map<Folder, Promise<Verdict[]>>();
/** Compares each answer with its recording, and with the recording after one change. A folder is played only once. */
async function verdicts(folder: Folder, names: ReadonlySet<string>): Promise<Verdict[]> {
  const play = async () => {
    const all: Verdict[] = [];
    const tell = (verdict: Verdict) => all.push(verdict);
    await playAll(folder, tell, (testCase) => mutated(testCase, SEED));
    return all;
  };
  if (!played.has(folder)) played.set(folder, play());
  return (await played.get(folder)!).filter(({ name }) => names.has(name));
}
/**
 * Played together, because each group of flags needs a server. The dialects' corner cases need its prefix cache in the state
 * that they left.
 */
const listedAndCorners: Folder = { ...recorded, cases: [...recorded.cases, ...corners.cases] };

/** Expects every case as recorded, and every change noticed. */
function expectRepeated(all: readonly Verdict[]): void {
  expect(all.filter(({ wrong }) => wrong !== null)).toEqual([]);
  expect(all.filter(({ noticed }) => noticed === null)).toEqual([]);
}

test("a folder without recorded exchanges fails", () => {
  const script = `${here}golden-api.ts`;
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, script, `${here}lists`]);
  expect(stderr.toString()).toStartWith(`golden api: no recorded exchanges in ${here}lists\n`);
  expect([exitCode, stdout.toString()]).toEqual([2, ""]);
});

test("no name is in both folders", () => {
  expect(namesOf(listedAndCorners).size).toBe(468 + 402);
});

test("a live server repeats every listed case byte by byte, with the order of header lines, and no changed case passes", async () => {
  const all = await verdicts(listedAndCorners, new Set(openai));
  expect(all.map(({ name }) => name).sort()).toEqual([...openai].sort());
  expectRepeated(all);
});

// Recorded with the same recorder and server as the others, where our behaviour had been a guess.
test("corner cases are repeated: batches, invocations, stops inside steps, bursts, CORS, sleep, adapters, death", async () => {
  const all = await verdicts(listedAndCorners, namesOf(corners));
  expect(all.length).toBe(402);
  expectRepeated(all);
});

/** Cases of the second list that are about tools and constraints. */
const TOOLS =
  /^(?:tools-(?!messages|responses)|chat-(?:json|structured|tools|response)|err-(?:response-format|structured|tool))/;

test("tools and constraints: every listed case is repeated, and no changed case passes", async () => {
  const names = new Set(namesIn("dialects-and-tools").filter((name) => TOOLS.test(name)));
  expect(names.size).toBe(62);
  const all = await verdicts(listedAndCorners, names);
  expect(all.map(({ name }) => name).sort()).toEqual([...names].sort());
  expectRepeated(all);
});

test("responses, messages, thinking: every listed case is repeated, and no changed case passes", async () => {
  const names = new Set(namesIn("dialects-and-tools").filter((name) => !TOOLS.test(name)));
  expect(names.size).toBe(60);
  const all = await verdicts(listedAndCorners, names);
  expect(all.map(({ name }) => name).sort()).toEqual([...names].sort());
  expectRepeated(all);
});

// Recorded like the corner cases: unexpected tags, histories, stores, tool choices, single fields.
test("corner cases of responses, messages and thinking are repeated", async () => {
  const all = await verdicts(dialects, namesOf(dialects));
  expect(all.length).toBe(425);
  expectRepeated(all);
});

test("golden api --mutate: no changed case passes", () => {
  // A few cases are enough, because the tests above try all.
  const some = openai.filter((_, i) => i % 64 === 0);
  const words = [`${here}golden-api.ts`, `${here}recorded`, "--only", some.join(), "--mutate", String(SEED)];
  const { exitCode, stdout } = Bun.spawnSync([process.execPath, ...words]);
  expect([exitCode, stdout.toString()]).toEqual([0, `0 passed, ${some.length} failed\n`]);
});

test("each case is in exactly one list", () => {
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
