/** The configuration of the text of prompts and answers. */

import type { OutputLengths } from "./answers/length-forms.ts";
import type { ReasoningFormat, ToolFormat } from "./grammar/parsers.ts";

/** A table of a SQLite file. */
interface DatasetConfig {
  readonly file: string;
  readonly table: string;
  /** True if the file is read into memory at the start. */
  readonly inMemory: boolean;
}

/** Returns the configuration of a dataset, or undefined if no file is named. */
export function datasetOf({
  file,
  ...others
}: Omit<DatasetConfig, "file"> & Partial<DatasetConfig>): DatasetConfig | undefined {
  return file === undefined ? undefined : { file, ...others };
}

/** The sources of the text of answers. */
export interface TextConfig {
  /** Path of a model's folder, for its tokenizer. */
  readonly tokenizer?: string;
  /** Path of a file with scripts. */
  readonly script?: string;
  /** Path of a folder with fixtures: answers to requests that meet conditions. */
  readonly fixtures?: string;
  /** Times of recorded answers: those of the recording (default), or those of the scheduler. */
  readonly replayTiming?: "recorded" | "scheduled";
  /** Table of answers by the hash of their prompts. */
  readonly dataset?: DatasetConfig;
  /** True if answers echo the last message, unless something else sets them. */
  readonly echo?: boolean;
  /** True if prompts that ask for JSON in words get JSON. */
  readonly promptedJson?: boolean;
  /** Lengths of answers that nothing else ends. */
  readonly outputTokens: OutputLengths;
  /** Format of reasoning. Absent: no reasoning parser. */
  readonly reasoningParser?: ReasoningFormat;
  /** Format of tool calls. Absent: no tool parser. */
  readonly toolCallParser?: ToolFormat;
}
