/** The LoRA adapters that a front end has loaded, with the numbers that our engines give them. */
import { ADAPTERS_MOST } from "../../base/core-limits.ts";
import type { LoraRequest } from "./messages/request.ts";

/** An adapter, as KV events name it. */
type NamedAdapter = Pick<LoraRequest, "name" | "path">;

/** vLLM's block hashes cover both. */
const keyOf = ({ name, path }: NamedAdapter): string => JSON.stringify([name, path]);

export class EngineAdapters {
  /** Adapters by number minus one. */
  readonly #adapters: NamedAdapter[] = [];
  /** Numbers by name and path. An adapter keeps its number, because requests may still run with it. */
  readonly #numbers = new Map<string, number>();
  /** The front end's ids of loaded adapters, the oldest first. */
  readonly #loaded = new Set<number>();

  /** `known`: adapters that have the first numbers. `onName`: called after an adapter has got a number, with all names by number minus one. */
  constructor(
    known: readonly NamedAdapter[],
    private readonly onName: (names: readonly string[]) => void,
  ) {
    for (const adapter of known) this.#add(adapter);
  }

  /** Ids of the loaded adapters. */
  get ids(): readonly number[] {
    return [...this.#loaded];
  }

  /** Names of all adapters by number minus one, with those that are not loaded any more. */
  get names(): readonly string[] {
    return this.#adapters.map(({ name }) => name);
  }

  has(id: number): boolean {
    return this.#loaded.has(id);
  }

  /** Returns the adapter with a number, or null if there is none. */
  byNumber(number: number): NamedAdapter | null {
    return this.#adapters[number - 1] ?? null;
  }

  /** Loads an adapter, if it is not loaded. Returns its number, or null if there is no number left. */
  load({ id, name, path }: LoraRequest): number | null {
    const known = this.#numbers.get(keyOf({ name, path }));
    if (known === undefined && this.#adapters.length >= ADAPTERS_MOST) return null;
    this.#loaded.add(id);
    if (this.#loaded.size > ADAPTERS_MOST)
      for (const oldest of [...this.#loaded].slice(0, 1)) this.#loaded.delete(oldest);
    if (known !== undefined) return known;
    const number = this.#add({ name, path });
    this.onName(this.names);
    return number;
  }

  /** Forgets which adapters are loaded. */
  clear(): void {
    this.#loaded.clear();
  }

  #add(adapter: NamedAdapter): number {
    const number = this.#adapters.push(adapter);
    this.#numbers.set(keyOf(adapter), number);
    return number;
  }

  /** Returns false if no adapter with this id is loaded. */
  remove(id: number): boolean {
    return this.#loaded.delete(id);
  }
}
