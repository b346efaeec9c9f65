/**
 * Checks docs/reference/stability.md: nothing that the recorded list promises disappears or changes its meaning unless the
 * changelog says so. Each kind of removal is noticed.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { changeText, surfaceAdditions, surfaceChanges, untold } from "../../scripts/surface/compare.ts";
import { currentSurface, flagsOf, KINDS, type Kind, readTypes, type Surface } from "../../scripts/surface/surface.ts";
import { serveOptions } from "../../src/cli/options/serve-options.ts";

const root = new URL("../../", import.meta.url).pathname;
const read = (path: string) => readFileSync(root + path, "utf8");
const recorded: Surface = JSON.parse(read("test/docs/surface.json"));
const current = await currentSurface();

test("each name of the recorded list has its meaning, or the changelog names the change", () => {
  expect(untold(surfaceChanges(recorded, current), read("CHANGELOG.md")).map(changeText)).toEqual([]);
});

test("the recorded list is complete (cure: npx bun run docs)", () => {
  expect(surfaceAdditions(recorded, current)).toEqual([]);
  expect(surfaceChanges(recorded, current).map(changeText)).toEqual([]);
});

/** Returns the surface without some names, or with other meanings. */
const changed = (kind: Kind, rows: Readonly<Record<string, string>>): Surface => ({ ...current, [kind]: rows });
const without = (kind: Kind, name: string): Surface => {
  const { [name]: meaning, ...rest } = current[kind];
  expect([name, typeof meaning]).toEqual([name, "string"]);
  return changed(kind, rest);
};
/** Makes a changelog in which the version after the recorded one has a line under a heading. */
const changelog = (line: string, heading = "Changed") =>
  `# Changelog\n\n## 0.2.0\n\n### ${heading}\n\n- ${line}\n\n## 0.1.0\n\n### Changed\n\n- \`all\`\n`;

/** A name of each kind, and the word by which the changelog names it. */
const REMOVALS: readonly (readonly [kind: Kind, name: string, word: string])[] = [
  ["commands", "health", "`health`"],
  ["flags", "serve --max-num-seqs", "`--max-num-seqs`"],
  ["flags", "load --json", "`--json`"],
  ["flags", "serve --role triton --http-port", "`--http-port`"],
  ["YAML keys", "fixture, match: user", "`user`"],
  ["YAML keys", "fault plan: burst", "`burst`"],
  ["exit codes", "check: 1", "exit code 1"],
  ["JSON keys", "check --json: targets[].report.laws[].verdict", "`targets[].report.laws[].verdict`"],
  ["JSON keys", "load --json: understudy.counts.sent", "`understudy.counts.sent`"],
  ["JSON keys", "truth log, RequestLine: endUs", "`endUs`"],
  ["routes", "/understudy/requests", "`/understudy/requests`"],
  ["metric families", "understudy_requests_total", "`understudy_requests_total`"],
  ["types", "Server.close", "`Server.close`"],
  ["types", "EngineOptions.maxNumSeqs", "`EngineOptions.maxNumSeqs`"],
];

test.each(REMOVALS)("%s: without %s, the check fails until the changelog names it", (kind, name, word) => {
  const changes = surfaceChanges(current, without(kind, name));
  expect(changes.map(changeText)).toEqual([`${kind}: ${name} has disappeared`]);
  expect(untold(changes, changelog("Something else."))).toHaveLength(1);
  expect(untold(changes, changelog(`${word} is new.`, "Added"))).toHaveLength(1);
  expect(untold(changes, changelog(`Removed: ${word}.`))).toEqual([]);
});

test.each(REMOVALS)("%s: another meaning of %s is a change", (kind, name) => {
  const changes = surfaceChanges(current, changed(kind, { ...current[kind], [name]: "another" }));
  expect(changes).toMatchObject([{ kind, name, now: "another" }]);
});

test("every kind has a removal, and an addition is no change", () => {
  expect([...new Set(REMOVALS.map(([kind]) => kind))].sort()).toEqual([...KINDS].sort());
  const smaller = without("flags", "serve --max-num-seqs");
  expect(surfaceChanges(smaller, current)).toEqual([]);
  expect(surfaceAdditions(smaller, current)).toEqual(["flags: serve --max-num-seqs"]);
});

test("a line about a removed type covers its members, but not those of a type that stays", () => {
  const rest = Object.entries(current.types).filter(([name]) => !/^VirtualClock(\.|$)/.test(name));
  const changes = surfaceChanges(current, changed("types", Object.fromEntries(rest)));
  expect(changes.length).toBeGreaterThan(3);
  expect(untold(changes, changelog("Removed: `VirtualClock`."))).toEqual([]);
  expect(untold(surfaceChanges(current, without("types", "Server.close")), changelog("`Server`"))).toHaveLength(1);
});

test("the list follows its sources: an option table, the source of an exit code, a declaration", async () => {
  const { "max-num-seqs": _, ...table } = serveOptions;
  expect(flagsOf("serve", serveOptions).length).toBe(flagsOf("serve", table).length + 1);
  const source = (path: string) => read(path).replace("NOTHING_MEASURED = 1", "NOTHING_MEASURED = 3");
  const types = (path: string) =>
    path.endsWith("embed/server.d.ts") ? readTypes(path).replace(/^ {4}close\(.*\n/m, "") : readTypes(path);
  const changes = surfaceChanges(current, await currentSurface({ source, types, json: current["JSON keys"] }));
  expect(changes.map(changeText)).toEqual([
    "exit codes: load: 1 has disappeared",
    "types: Server.close has disappeared",
  ]);
});
