/**
 * Finds the keys that users may write in YAML files: fixtures, fault plans and scripts. To learn the keys of a part of a file,
 * it lets the reader read that part with a key that does not exist. The reader's error then names the keys that exist.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openFaultRules } from "../../src/text/canned/fixtures/fault-rules.ts";
import { readFixtures } from "../../src/text/canned/fixtures/form.ts";
import { SCRIPT_KEYS, SEQUENCE_KEYS } from "../../src/text/canned/script.ts";

const UNKNOWN = { "": 1 };
/** Fixtures that each have an unknown key, by the name of the part with the key. */
const FIXTURES: Readonly<Record<string, object>> = {
  fixture: UNKNOWN,
  "fixture, match": { match: UNKNOWN, answer: "x" },
  "fixture, match.user": { match: { user: UNKNOWN }, answer: "x" },
  "fixture, match.messages[]": { match: { messages: [UNKNOWN] }, answer: "x" },
  "fixture, match.body": { match: { body: { x: { present: true, ...UNKNOWN } } }, answer: "x" },
  "fixture, answer": { answer: UNKNOWN },
  "fixture, answer.error": { answer: { error: UNKNOWN } },
};

/** Returns the accepted keys that the error about an unknown key lists. Throws if the reader does not throw such an error. */
function keysIn(part: string, read: () => unknown): string[] {
  try {
    read();
  } catch (error) {
    const [, keys] = /not known; it takes (.*)$/.exec((error as Error).message) ?? [];
    if (keys !== undefined) return keys.split(", ");
    throw error;
  }
  throw new Error(`${part}: an unknown key is accepted`);
}

function faultRuleKeys(): string[] {
  const folder = mkdtempSync(join(tmpdir(), "understudy-keys-"));
  const file = join(folder, "faults.yaml");
  try {
    writeFileSync(file, JSON.stringify({ faults: [UNKNOWN] }));
    return keysIn("fault plan", () =>
      openFaultRules(
        file,
        () => 0,
        () => {},
      ),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export function yamlKeys(): [name: string, meaning: string][] {
  const fixtures = Object.entries(FIXTURES).map(([part, fixture]) => {
    const read = () => readFixtures(JSON.stringify(fixture), { vocabularySize: 100, plays: [] });
    return [part, keysIn(part, read)] as const;
  });
  const parts = [
    ...fixtures,
    ["fault plan", faultRuleKeys()] as const,
    ["script", SCRIPT_KEYS] as const,
    ["script, sequences[]", SEQUENCE_KEYS] as const,
  ];
  return parts.flatMap(([part, keys]) => keys.map((key) => [`${part}: ${key}`, "accepted"] as [string, string]));
}
