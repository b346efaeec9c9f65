/** Nodes of a parsed JSON document, with the types that Triton's parser distinguishes. Strings have one character per byte. */

/** A number that is not an integer of at most 64 bits. */
export class Real {
  constructor(readonly value: number) {}
}

export class JsonMembers {
  /** Names and values in turn. Not a `#` field, because the initializer of such a field takes time for every object of a body. */
  private readonly list: JsonNode[];

  constructor() {
    this.list = [];
  }

  add(name: string, value: JsonNode): void {
    this.list.push(name, value);
  }

  /** Number of members. Counts every occurrence of a repeated name. */
  get size(): number {
    return this.list.length / 2;
  }

  /** Returns all members in document order. A repeated name occurs several times. */
  get members(): (readonly [string, JsonNode])[] {
    const list = this.list;
    return Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at] as string, list[2 * at + 1]!]);
  }

  get(name: string): JsonNode | undefined {
    const list = this.list;
    const { length } = name;
    for (let at = 0; at < list.length; at += 2) {
      const own = list[at] as string;
      // Most names differ in their length, which is faster to compare.
      if (own.length === length && own === name) return list[at + 1];
    }
    return undefined;
  }
}

/** A JSON value. Integers beyond 2^53 are bigints. */
export type JsonNode =
  | null
  | boolean
  | string
  | LongText
  | number
  | bigint
  | Real
  | JsonMembers
  | LongList
  | readonly JsonNode[];

/** A longer string of a large body is a `LongText`. */
export const SHORT_TEXT_BYTES = 2 ** 20;

/** A long string of a large body. Its bytes stay in the body's memory. */
export class LongText {
  constructor(readonly bytes: Buffer) {}

  get length(): number {
    return this.bytes.length;
  }

  /** Copies the whole string. */
  get text(): string {
    return this.bytes.toString("latin1");
  }
}

/** Most items of a list that is stored as one array. */
export const SHORT_LIST = 1024;
/** Items per part of a longer list. */
export const PART_ITEMS = 4096;

/** A part of a list that contains only numbers and no bigint. */
export class NumberPart {
  readonly values = new Float64Array(PART_ITEMS);
  /** 1 for an item that was a `Real`, else 0. */
  readonly reals = new Uint8Array(PART_ITEMS);
  length = 0;

  /** Appends a number. Returns false if the part is full or the node is not such a number. */
  take(node: JsonNode): boolean {
    const at = this.length;
    if (at === PART_ITEMS) return false;
    if (typeof node === "number") this.values[at] = node;
    else if (node instanceof Real) {
      this.values[at] = node.value;
      this.reals[at] = 1;
    } else return false;
    this.length++;
    return true;
  }

  item(at: number): number | Real {
    const value = this.values[at]!;
    return this.reals[at] === 1 ? new Real(value) : value;
  }
}

/**
 * A list of more than `SHORT_LIST` items from a large body. One array with a million objects would make the garbage collector
 * pause for long.
 */
export class LongList {
  readonly parts: (NumberPart | JsonNode[])[] = [];
  length = 0;

  push(node: JsonNode): void {
    this.length++;
    const last = this.parts.at(-1);
    if (
      last instanceof NumberPart ? last.take(node) : last !== undefined && last.length < PART_ITEMS && last.push(node)
    )
      return;
    const numbers = new NumberPart();
    this.parts.push(numbers.take(node) ? numbers : [node]);
  }

  /** Copies all items into one array. */
  whole(): JsonNode[] {
    return this.parts.flatMap((part) =>
      part instanceof NumberPart ? Array.from({ length: part.length }, (_, at) => part.item(at)) : part,
    );
  }
}
