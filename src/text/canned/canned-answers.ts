/** Opens the answers that the operator prepared: `--script`, `--fixtures`, `--dataset`, and the fault rules of `--fault-plan`. */
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { UserError } from "../../base/start-errors.ts";
import type { Vocabulary } from "../tokens/types.ts";
import type { AnswerDataset, DatasetFile } from "./dataset/dataset.ts";
import type { FaultRules } from "./fixtures/fault-rules.ts";
import type { Fixtures, FixturesHost } from "./fixtures/fixtures.ts";
import { type Plays, readPlays } from "./script.ts";

/** The sources of prepared answers. Absent if their option is not set. */
export interface CannedAnswers {
  readonly plays?: Plays;
  readonly fixtures?: Fixtures;
  readonly dataset?: AnswerDataset;
  readonly faultRules?: FaultRules;
}

/** Opens all sources that are named. Rejects with a `UserError` if a file or folder cannot be used. */
export async function openCannedAnswers(
  sources: {
    readonly script?: string;
    readonly fixtures?: string;
    readonly dataset?: DatasetFile;
    readonly faultPlan?: string;
  },
  vocabulary: Vocabulary,
  host: FixturesHost & { /** The server's clock. */ nowUs(): number },
): Promise<CannedAnswers> {
  const plays = sources.script === undefined ? null : playsOf(sources.script);
  // The readers are imported only if their option is set.
  const dataset =
    sources.dataset && (await import("./dataset/dataset.ts")).openDataset(sources.dataset, vocabulary, host.say);
  const { faultPlan } = sources;
  const faultRules =
    faultPlan === undefined
      ? null
      : (await import("./fixtures/fault-rules.ts")).openFaultRules(faultPlan, host.nowUs, host.say);
  const opened = {
    ...(plays ? { plays } : {}),
    ...(dataset ? { dataset } : {}),
    ...(faultRules ? { faultRules } : {}),
  };
  if (sources.fixtures === undefined) return opened;
  const { openFixtures } = await import("./fixtures/fixtures.ts");
  const names = [...(plays?.named.keys() ?? [])];
  const start = { folder: sources.fixtures, vocabularySize: vocabulary.size, plays: names };
  return { ...opened, fixtures: await openFixtures(start, host) };
}

function playsOf(file: string): Plays {
  try {
    return readPlays(textAtMost(file, NAMED_FILE_BYTES_MOST));
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw new UserError(`--script ${file}`, code ? `cannot be read (${code})` : message);
  }
}
