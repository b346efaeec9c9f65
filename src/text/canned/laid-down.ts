/** Which answers has the operator laid down beforehand? The file of `--script`, the folder of `--fixtures`, the rows of `--dataset`. */
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { UserError } from "../../base/start-errors.ts";
import type { Vocabulary } from "../tokens/types.ts";
import type { AnswerDataset, DatasetFile } from "./dataset/dataset.ts";
import type { FaultRules } from "./fixtures/fault-rules.ts";
import type { Fixtures, FixturesHost } from "./fixtures/fixtures.ts";
import { type Plays, readPlays } from "./script.ts";

export interface LaidDown {
  readonly plays?: Plays;
  readonly fixtures?: Fixtures;
  readonly dataset?: AnswerDataset;
  readonly faultRules?: FaultRules;
}

/** `host` is for fixtures and dataset. Rejects with a `UserError` for a file or folder that cannot be used. */
export async function laidDown(
  wire: {
    readonly script?: string;
    readonly fixtures?: string;
    readonly dataset?: DatasetFile;
    readonly faultPlan?: string;
  },
  vocabulary: Vocabulary,
  host: FixturesHost & { /** The server's clock. */ nowUs(): number },
): Promise<LaidDown> {
  const plays = wire.script === undefined ? null : playsOf(wire.script);
  // Only who names a file or a folder loads what reads it.
  const dataset =
    wire.dataset && (await import("./dataset/dataset.ts")).openDataset(wire.dataset, vocabulary, host.say);
  const { faultPlan } = wire;
  const faultRules =
    faultPlan === undefined
      ? null
      : (await import("./fixtures/fault-rules.ts")).openFaultRules(faultPlan, host.nowUs, host.say);
  const found = {
    ...(plays ? { plays } : {}),
    ...(dataset ? { dataset } : {}),
    ...(faultRules ? { faultRules } : {}),
  };
  if (wire.fixtures === undefined) return found;
  const { openFixtures } = await import("./fixtures/fixtures.ts");
  const names = [...(plays?.named.keys() ?? [])];
  const start = { folder: wire.fixtures, vocabularySize: vocabulary.size, plays: names };
  return { ...found, fixtures: await openFixtures(start, host) };
}

function playsOf(file: string): Plays {
  try {
    return readPlays(textAtMost(file, NAMED_FILE_BYTES_MOST));
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw new UserError(`--script ${file}`, code ? `cannot be read (${code})` : message);
  }
}
