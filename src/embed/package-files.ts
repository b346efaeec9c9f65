/** Finds the engine's files next to the code, in the sources and in the packages. For Node and Bun. */
import { readFile } from "node:fs/promises";
import { Engine, type EngineParts } from "./engine.ts";
import type { EngineOptions } from "./engine-option-types.ts";

let built: Promise<readonly [core: Uint8Array, answers: Uint8Array]> | undefined;

/** Creates an engine with the defaults of `understudy serve`. Throws a TypeError for a wrong option. */
export async function createEngine(options: EngineOptions = {}, parts: Partial<EngineParts> = {}): Promise<Engine> {
  built ??= Promise.all([
    readFile(new URL("../../build/core.wasm", import.meta.url)),
    readFile(new URL("../../build/answers.bin", import.meta.url)),
  ]);
  const [core, answers] = await built;
  return Engine.create(options, { core: parts.core ?? core, answers: parts.answers ?? answers, clock: parts.clock });
}
