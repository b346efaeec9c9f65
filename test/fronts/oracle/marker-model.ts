/** A copy of the tests' model whose vocabulary also has the marks of other models' tool calls, as tokens of their own. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MODEL } from "../vllm-rs.ts";
import { tokens } from "./vocabulary.ts";

interface AddedToken {
  readonly id: number;
  readonly content: string;
}

export interface MarkerModel {
  readonly folder: string;
  /** Returns the tokens of a text, with a token per mark. */
  tokens(text: string): number[];
}

export function markerModel(marks: readonly string[]): MarkerModel {
  const folder = mkdtempSync(join(tmpdir(), "understudy-marks-"));
  cpSync(MODEL, folder, { recursive: true });
  const edit = <T>(name: string, change: (json: T) => void) => {
    const json = JSON.parse(readFileSync(join(folder, name), "utf8")) as T;
    change(json);
    writeFileSync(join(folder, name), JSON.stringify(json));
  };
  const ids = new Map<string, number>();
  edit<{ added_tokens: AddedToken[] }>("tokenizer.json", ({ added_tokens }) => {
    const next = 1 + Math.max(...added_tokens.map(({ id }) => id));
    for (const { id, content } of added_tokens) if (marks.includes(content)) ids.set(content, id);
    const missing = marks.filter((mark) => !ids.has(mark));
    for (const [at, content] of missing.entries()) {
      ids.set(content, next + at);
      const kind = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: false };
      added_tokens.push({ id: next + at, content, ...kind } as AddedToken);
    }
    edit<{ vocab_size: number }>("config.json", (config) => {
      config.vocab_size = Math.max(config.vocab_size, next + missing.length);
    });
  });
  const escaped = marks.map((mark) => mark.replace(/[|.*+?^${}()[\]\\]/g, "\\$&"));
  const split = marks.length === 0 ? null : new RegExp(`(${escaped.join("|")})`);
  return {
    folder,
    tokens: (text) =>
      (split ? text.split(split) : [text]).flatMap((part) => (ids.has(part) ? [ids.get(part)!] : tokens(part))),
  };
}
