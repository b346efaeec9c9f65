/** Which answers has the operator laid down beforehand? The file of `--script`, the folder of `--fixtures`. */
import { readFileSync } from "node:fs";
import type { Fixtures, FixturesHost } from "./fixtures/fixtures.ts";
import { type Plays, readPlays } from "./script.ts";

export interface LaidDown {
  readonly plays?: Plays;
  readonly fixtures?: Fixtures;
}

/** The file that a user named cannot be played: one line. */
export class UnusableScript extends Error {
  override readonly name = "UnusableScript";
}

/** `host` is for the fixtures. Rejects with `UnusableScript` or `UnusableFixtures`. */
export async function laidDown(
  wire: { readonly script?: string; readonly fixtures?: string },
  vocabularySize: number,
  host: FixturesHost,
): Promise<LaidDown> {
  const plays = wire.script === undefined ? null : playsOf(wire.script);
  const found = plays === null ? {} : { plays };
  if (wire.fixtures === undefined) return found;
  // Only who names a folder loads what reads it.
  const { openFixtures } = await import("./fixtures/fixtures.ts");
  const names = [...(plays?.named.keys() ?? [])];
  return { ...found, fixtures: await openFixtures({ folder: wire.fixtures, vocabularySize, plays: names }, host) };
}

function playsOf(file: string): Plays {
  try {
    return readPlays(readFileSync(file, "utf8"));
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw new UnusableScript(code ? `cannot be read (${code})` : message);
  }
}
