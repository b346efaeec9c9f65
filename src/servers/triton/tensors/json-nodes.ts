/** What is in a document of JSON, as Triton's parser tells it apart? Texts are texts of bytes, one character each. */

/** A number that was not written as a whole one of 64 bits. */
export class Real {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

export class JsonMembers {
  /** Each name, and its value behind it. */
  readonly #list: JsonNode[] = [];

  add(name: string, value: JsonNode): void {
    this.#list.push(name, value);
  }

  /** Number of members, those of the same name included. */
  get size(): number {
    return this.#list.length / 2;
  }

  /** In their order, the same name as often as it stands there. */
  get members(): (readonly [string, JsonNode])[] {
    const list = this.#list;
    return Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at] as string, list[2 * at + 1]!]);
  }

  get(name: string): JsonNode | undefined {
    const list = this.#list;
    for (let at = 0; at < list.length; at += 2) if (list[at] === name) return list[at + 1];
    return undefined;
  }
}

/** Whole numbers beyond 2^53 are bigints. */
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

/** A longer text of a large body is a `LongText`. */
export const SHORT_TEXT_BYTES = 2 ** 20;

/** A long text of a large body. Its bytes stand in the body. */
export class LongText {
  constructor(readonly bytes: Buffer) {}

  get length(): number {
    return this.bytes.length;
  }

  /** The text in one go. */
  get text(): string {
    return this.bytes.toString("latin1");
  }
}

/** Items of a list that stands in one piece. */
export const SHORT_LIST = 1024;
/** Items of a part of a longer one. */
export const PART_ITEMS = 4096;

/** Numbers, none of which is a bigint. */
export class NumberPart {
  readonly values = new Float64Array(PART_ITEMS);
  /** 1: a `Real`. */
  readonly reals = new Uint8Array(PART_ITEMS);
  length = 0;

  /** False: no place, or no such number. */
  take(one: JsonNode): boolean {
    const at = this.length;
    if (at === PART_ITEMS) return false;
    if (typeof one === "number") this.values[at] = one;
    else if (one instanceof Real) {
      this.values[at] = one.value;
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

/** A list of more than `SHORT_LIST` items of a large body: a million objects in one array would be a long collection of garbage. */
export class LongList {
  readonly parts: (NumberPart | JsonNode[])[] = [];
  length = 0;

  push(one: JsonNode): void {
    this.length++;
    const last = this.parts.at(-1);
    if (last instanceof NumberPart ? last.take(one) : last !== undefined && last.length < PART_ITEMS && last.push(one))
      return;
    const numbers = new NumberPart();
    this.parts.push(numbers.take(one) ? numbers : [one]);
  }

  /** All of it in one go. */
  whole(): JsonNode[] {
    return this.parts.flatMap((part) =>
      part instanceof NumberPart ? Array.from({ length: part.length }, (_, at) => part.item(at)) : part,
    );
  }
}
