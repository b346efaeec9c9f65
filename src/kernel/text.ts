/** Loads the text of a server: vocabulary and encoder, prepared answers, lengths of answers. */

import { open } from "node:fs/promises";
import { availableParallelism } from "node:os";
import type { DueTime } from "../base/time/due-time.ts";
import type { EngineConfig } from "../engine/config/engine-config.ts";
import { coreName } from "../engine/trtllm-setup.ts";
import { type NaturalLength, naturalLength } from "../text/answers/answers.ts";
import { type CannedAnswers, openCannedAnswers } from "../text/canned/canned-answers.ts";
import type { TextConfig } from "../text/text-config.ts";
import { builtInText, folderText, type TextModel } from "../text/text-model.ts";
import type { KernelConfig } from "./kernel-config.ts";

/** A file that the build made. */
const built = (name: string) => Bun.file(new URL(`../../build/${name}`, import.meta.url));

/** Reads a file of the build into memory that threads share, so that the thread of the encoder needs no copy. */
async function shared(name: string): Promise<Uint8Array> {
  if (Bun.isStandaloneExecutable) {
    // Bun 1.4.5 does not open a file that is embedded in the program, it only reads it as a whole.
    const embedded = await built(name).bytes();
    const bytes = new Uint8Array(new SharedArrayBuffer(embedded.length));
    bytes.set(embedded);
    return bytes;
  }
  const file = await open(new URL(`../../build/${name}`, import.meta.url));
  try {
    const bytes = new Uint8Array(new SharedArrayBuffer((await file.stat()).size));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Rejects with one line if the build is not complete. */
async function read(name: string) {
  const [core, vocabulary, answers] = await Promise.all([
    built(`${name}.wasm`).arrayBuffer(),
    shared("vocabulary.bin"),
    built("answers.bin").bytes(),
  ]).catch(() => {
    throw new Error("build/ is not complete: bun run build");
  });
  return { core, vocabulary, answers };
}

/** Files by the name of the core. Servers of the same process share them. */
const files = new Map<string, ReturnType<typeof read>>();

export function builtFiles(engine: EngineConfig): ReturnType<typeof read> {
  const name = coreName(engine);
  const found = files.get(name) ?? read(name);
  files.set(name, found);
  found.catch(() => files.delete(name));
  return found;
}

/** Rejects with a `UserError` if the folder of a model cannot be used. */
export async function textOf(
  given: Pick<TextConfig, "tokenizer" | "reasoningParser">,
  built: Awaited<ReturnType<typeof builtFiles>>,
  due: DueTime,
): Promise<TextModel> {
  if (given.tokenizer) return folderText(given.tokenizer);
  // With several processors the two threads do not wait for each other.
  const shared = availableParallelism() === 1 ? due.shared : null;
  return builtInText(built.vocabulary, built.answers, given.reasoningParser !== undefined, shared);
}

/** Opens the prepared answers like `openCannedAnswers`. `host.first`: true for the one process that logs about them. */
export function laidFor(
  given: Parameters<typeof openCannedAnswers>[0],
  { vocabulary }: TextModel,
  host: { first: boolean; log: (line: string) => void; gap: () => Promise<void>; nowUs: () => number },
): Promise<CannedAnswers> {
  return openCannedAnswers(given, vocabulary, { ...host, say: host.first ? host.log : () => {} });
}

/** Rejects with a `UserError` if lengths come from a trace that cannot be read. */
export async function lengthsOf({ text: { outputTokens } }: KernelConfig): Promise<NaturalLength> {
  if (outputTokens.kind !== "trace") return naturalLength(outputTokens, null);
  const { readOutputLengths } = await import("../workloads/output-lengths.ts");
  return naturalLength(outputTokens, readOutputLengths(outputTokens.file));
}
