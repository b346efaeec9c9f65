/** The LoRA adapters that a front end has loaded, with the numbers that our engines give them. */
import { ADAPTERS_MOST } from "../../base/core-limits.ts";
import type { LoraRequest } from "./messages/request.ts";

export class EngineAdapters {
  /** Numbers by name. A name keeps its number, because requests may still run with it. */
  readonly #numbers = new Map<string, number>();
  /** Names of the loaded adapters by the front end's ids. */
  readonly #loaded = new Map<number, string>();

  /** `named`: names of adapters that have the first numbers. `onName`: called after an adapter has got a number, with all names by number minus one. */
  constructor(
    named: readonly string[],
    private readonly onName: (names: readonly string[]) => void,
  ) {
    for (const [at, name] of named.entries()) this.#numbers.set(name, at + 1);
  }

  /** Ids of the loaded adapters. */
  get ids(): readonly number[] {
    return [...this.#loaded.keys()];
  }

  /** Names of all adapters by number minus one, with those that are not loaded any more. */
  get names(): readonly string[] {
    return [...this.#numbers.keys()];
  }

  has(id: number): boolean {
    return this.#loaded.has(id);
  }

  /** Loads an adapter, if it is not loaded. Returns its number, or null if there is no number left. */
  load({ id, name }: LoraRequest): number | null {
    const known = this.#numbers.get(name);
    if (known === undefined && this.#numbers.size >= ADAPTERS_MOST) return null;
    const number = known ?? this.#numbers.size + 1;
    this.#loaded.set(id, name);
    if (known !== undefined) return number;
    this.#numbers.set(name, number);
    this.onName(this.names);
    return number;
  }

  /** Returns false if no adapter with this id is loaded. */
  remove(id: number): boolean {
    return this.#loaded.delete(id);
  }
}
