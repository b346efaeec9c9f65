/** Where are the package's own files? Found by the package's name, so that sources and compiled files look alike. Node and Bun. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Engine, type EngineParts } from "./engine.ts";
import type { EngineOptions } from "./options.ts";

const { resolve } = createRequire(import.meta.url);

let built: Promise<EngineParts> | undefined;

async function readBuilt(): Promise<EngineParts> {
  const [core, answers] = (await Promise.all(["core.wasm", "answers.bin"].map(readPart))) as [Uint8Array, Uint8Array];
  return { core, answers };
}

function readPart(name: string): Promise<Uint8Array> {
  return readFile(resolve(`llm-understudy/${name}`));
}

/** An engine with the defaults of `understudy serve`. Throws a TypeError for a wrong option. */
export async function createEngine(options: EngineOptions = {}, parts: Partial<EngineParts> = {}): Promise<Engine> {
  built ??= readBuilt();
  const { core, answers } = await built;
  return Engine.create(options, { core: parts.core ?? core, answers: parts.answers ?? answers, clock: parts.clock });
}

/** A file of the package, by its path from the package's root. */
export function packageFile(path: string): string {
  return join(dirname(resolve("llm-understudy/package.json")), path);
}

/** The Bun that came as a dependency. */
export function packagedBun(): string {
  return join(dirname(resolve("bun/package.json")), "bin/bun.exe");
}
