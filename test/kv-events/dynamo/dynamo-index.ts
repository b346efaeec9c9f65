/** Dynamo's index of KV events, in a program that is built from the crate dynamo-kv-router. */
import { findToolchain, missingLine, TOOLCHAINS } from "../../clients/toolchains.ts";
import { linesOf } from "../python.ts";

const root = new URL("../../../", import.meta.url).pathname;
/** Folder that the repository ignores. */
const TARGET = `${root}build/kv-events/dynamo`;

/** Dynamo tells apart only salts with this prefix, which its front ends add. Source: `src/zmq_wire/extra_keys.rs` of the crate. */
export const SALT_PREFIX = "dynamo-cache-salt:";

export interface IndexPrompt {
  /** As the request has it, with the prefix. "": none. */
  readonly salt: string;
  readonly tokens: Uint32Array;
}

/** Builds the program. The first time takes a minute, and fetches the crates. Returns null, and prints why, without Rust. */
export function builtIndex(): string | null {
  const cargo = findToolchain(TOOLCHAINS.rust);
  if (cargo === null) {
    console.log(missingLine(TOOLCHAINS.rust, ["Dynamo's index of KV events"]));
    return null;
  }
  const command = [cargo, "build", "--release", "--quiet", "--locked", "--target-dir", TARGET];
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd: import.meta.dir });
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
  return `${TARGET}/release/index`;
}

export class DynamoIndex {
  readonly #child: Bun.Subprocess<"pipe", "pipe", "inherit">;
  readonly #lines: AsyncGenerator<string>;
  #unsent: Uint8Array[] = [];
  #expected: string[] = [];
  /** Batches that the index has taken. */
  batches = 0;
  /** Prompts that were looked up, by the number of matching blocks. */
  readonly matches: number[] = [];

  constructor(program: string, blockSize: number) {
    this.#child = Bun.spawn([program, `${blockSize}`], { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = linesOf(this.#child.stdout);
  }

  /**
   * Adds a batch, and what the index must have after it: the low 32 bits of the hashes of all blocks, and how many blocks of
   * each prompt match.
   */
  add(payload: Uint8Array, stored: readonly number[], prompts: readonly (readonly [IndexPrompt, matching: number])[]) {
    const { length } = stored;
    const sum = stored.reduce((all, low32) => all + low32, 0);
    this.#expected.push([length, sum, 0, ...prompts.map(([, matching]) => matching)].join(" "));
    this.#unsent.push(u32(payload.length), payload, u32(prompts.length));
    for (const [{ salt, tokens }, matching] of prompts) {
      const text = Buffer.from(salt.replace(SALT_PREFIX, ""));
      this.#unsent.push(
        u32(text.length),
        text,
        u32(tokens.length),
        new Uint8Array(tokens.buffer, 0, tokens.byteLength),
      );
      this.matches[matching] = (this.matches[matching] ?? 0) + 1;
    }
  }

  /** Gives the program what was added. Returns the answers that are not as expected, at most one. */
  async compare(): Promise<{ batch: number; answer: string; expected: string } | null> {
    this.#child.stdin.write(Buffer.concat([...this.#unsent.splice(0), u32(0)]));
    this.#child.stdin.flush();
    for (const expected of this.#expected.splice(0)) {
      const { value, done } = await this.#lines.next();
      if (done) throw new Error(`Dynamo's index ended at batch ${this.batches}`);
      if (value !== expected) return { batch: this.batches, answer: value, expected };
      this.batches++;
    }
    return null;
  }

  async stop(): Promise<void> {
    this.#child.stdin.end();
    await this.#child.exited;
  }
}

const u32 = (value: number) => new Uint8Array(Uint32Array.of(value).buffer);
