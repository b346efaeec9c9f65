/** The configuration of the text of answers. */

import type { OutputLengths } from "./answers/length-forms.ts";
import type { ReasoningFormat, ToolFormat } from "./grammar/parsers.ts";

/** A table of a SQLite file. */
interface DatasetConfig {
  readonly file: string;
  readonly table: string;
  /** True if the file is read into memory at the start. */
  readonly inMemory: boolean;
}

/** Returns undefined if there is no file, and so no dataset. */
export function datasetOf({
  file,
  ...others
}: Omit<DatasetConfig, "file"> & Partial<DatasetConfig>): DatasetConfig | undefined {
  return file === undefined ? undefined : { file, ...others };
}

/** The sources of the text of answers. */
export interface TextConfig {
  /** A model's folder, for its tokenizer. */
  readonly tokenizer?: string;
  /** A file of scripted answers. */
  readonly script?: string;
  /** A folder of answers to requests of some kind. */
  readonly fixtures?: string;
  /** Times of recorded answers; absent: their own. */
  readonly replayTiming?: "recorded" | "scheduled";
  /** A table of answers by the hash of their prompt. */
  readonly dataset?: DatasetConfig;
  /** Whoever orders nothing gets back what was said last. */
  readonly echo?: boolean;
  /** True if prompts that ask for JSON in words get it. */
  readonly promptedJson?: boolean;
  /** When answers end by themselves. */
  readonly outputTokens: OutputLengths;
  /** The format of reasoning; absent: no reasoning parser. */
  readonly reasoningParser?: ReasoningFormat;
  /** The format of tool calls; absent: no tool parser. */
  readonly toolCallParser?: ToolFormat;
}
