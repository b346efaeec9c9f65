/** Reads the Dockerfile, for tests that look at its instructions or carry them out without an image builder. */
import { readFileSync } from "node:fs";

const root = new URL("../../", import.meta.url).pathname;

export interface Instruction {
  /** Name of the instruction, in capitals. */
  readonly name: string;
  /** Text after the name, with continuation lines joined. */
  readonly text: string;
}

/** Returns the instructions of a Dockerfile, in their order. Leaves out comments, also those between continuation lines. */
export function instructionsOf(text: string): Instruction[] {
  const lines = text.replace(/^\s*#.*\n/gm, "").replaceAll(/\s*\\\n\s*/g, " ");
  return lines
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", rest = ""] = /^\s*(\w+)\s+(.*)$/.exec(line) ?? [];
      return { name: name.toUpperCase(), text: rest.trim() };
    });
}

export const dockerfile = instructionsOf(readFileSync(`${root}Dockerfile`, "utf8"));

/** Returns the default of an ARG instruction. */
export function argument(name: string): string {
  const value = dockerfile.find(({ name: kind, text }) => kind === "ARG" && text.startsWith(`${name}=`));
  if (value === undefined) throw new Error(`the Dockerfile has no ARG ${name}`);
  return value.text.slice(name.length + 1);
}

/** Splits the instructions into stages. Each stage begins with its FROM; the ARGs before the first FROM belong to none. */
export function stages(): Instruction[][] {
  const all: Instruction[][] = [];
  for (const instruction of dockerfile) {
    if (instruction.name === "FROM") all.push([]);
    all.at(-1)?.push(instruction);
  }
  return all;
}

/** Facts of the image, as a builder writes them into it. */
export interface ImageConfig {
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  /** Lines `NAME=value`. */
  readonly environment: readonly string[];
  readonly ports: readonly number[];
  readonly health: { readonly command: readonly string[]; readonly intervalMs: number };
  readonly labels: Readonly<Record<string, string>>;
}

/** Returns the facts that the last stage of the Dockerfile states, with these values of its arguments. */
export function configOf(values: Readonly<Record<string, string>> = {}): ImageConfig {
  const last = stages().at(-1)!;
  const texts = (name: string) => last.filter((instruction) => instruction.name === name).map(({ text }) => text);
  const [check = ""] = texts("HEALTHCHECK");
  const filled = (text: string) => text.replace(/\$\{(\w+)\}/g, (_, name) => values[name] ?? argument(name));
  return {
    user: texts("USER")[0] ?? "",
    entrypoint: JSON.parse(texts("ENTRYPOINT")[0]!),
    command: JSON.parse(texts("CMD")[0]!),
    environment: texts("ENV"),
    ports: texts("EXPOSE").flatMap((text) => text.split(/\s+/).map(Number)),
    health: {
      command: JSON.parse(/ CMD (\[.*\])$/.exec(check)![1]!),
      intervalMs: Number(/--interval=(\d+)s/.exec(check)![1]) * 1000,
    },
    labels: Object.fromEntries(
      texts("LABEL").flatMap((text) =>
        [...text.matchAll(/([\w.]+)="([^"]*)"/g)].map(([, name, value]) => [name!, filled(value!)] as const),
      ),
    ),
  };
}
