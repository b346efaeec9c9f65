/** Does an object fit its fields? Models, typed dictionaries, dataclasses and unions of pydantic 2.14. */

import type { Pieces } from "../../base/pieces.ts";
import { alternatives, type Checked, FAIL, type JsonSchema, type State, type Type } from "./types.ts";
import { get, isDict, type PythonDict, type PythonValue } from "./value.ts";

export interface Member {
  readonly type: Type<unknown>;
  /** Absent without an error. */
  readonly optional?: boolean;
  /** Name in the body where it differs. */
  readonly alias?: string;
}
export type Members = Readonly<Record<string, Member>>;

export const required = (type: Type<unknown>, alias?: string): Member =>
  alias === undefined ? { type } : { type, alias };
export const optional = (type: Type<unknown>, alias?: string): Member =>
  alias === undefined ? { type, optional: true } : { type, optional: true, alias };

/** Checks the members that are present, values to `checked`; unknown keys pass. False when one failed. */
function checkMembers(members: Members, value: PythonDict, state: State, checked?: Map<string, unknown>): boolean {
  const found = new Found(value, state, checked);
  for (const name in members) {
    const member = members[name] as Member;
    const item = found.at(name, member);
    if (item !== undefined) found.took(name, member, member.type.check(item, state));
    if (found.isOver) return false;
  }
  return found.fits();
}

/** As `checkMembers`, in pieces. */
function* memberPieces(
  members: Members,
  value: PythonDict,
  state: State,
  checked?: Map<string, unknown>,
): Pieces<boolean> {
  const found = new Found(value, state, checked);
  for (const name in members) {
    const member = members[name] as Member;
    const { type } = member;
    const item = found.at(name, member);
    if (item !== undefined) {
      const fitting = type.pieces === undefined ? type.check(item, state) : yield* type.pieces(item, state);
      found.took(name, member, fitting);
    }
    if (found.isOver) return false;
  }
  return found.fits();
}

/** What is known of an object whose members are being checked. */
class Found {
  readonly #value: PythonDict;
  readonly #state: State;
  readonly #checked: Map<string, unknown> | undefined;
  #fields = 0;
  #fits = true;
  /** Errors before the member at hand. */
  #before = 0;

  constructor(value: PythonDict, state: State, checked: Map<string, unknown> | undefined) {
    this.#value = value;
    this.#state = state;
    this.#checked = checked;
  }

  /** The member; undefined: it is not there, which may be an error. */
  at(name: string, { alias = name, optional: isOptional }: Member): PythonValue | undefined {
    const item = get(this.#value, alias);
    this.#before = this.#state.count;
    if (item !== undefined) this.#fields++;
    else if (!isOptional) {
      this.#state.fail("missing", "Field required", this.#value);
      this.#failed(alias);
    }
    return item;
  }

  /** The member was checked. */
  took(name: string, { alias = name }: Member, fitting: unknown): void {
    if (fitting === FAIL) this.#failed(alias);
    else this.#checked?.set(name, fitting);
  }

  /** One has failed, and nobody wants to know more. */
  get isOver(): boolean {
    return !this.#fits && this.#state.errors === null;
  }

  #failed(key: string): void {
    this.#fits = false;
    this.#state.prefix(this.#before, key);
  }

  /** All members have been checked. */
  fits(): boolean {
    if (this.#fits || this.#state.errors !== null) this.#state.fields = Math.max(this.#state.fields, 0) + this.#fields;
    return this.#fits;
  }
}

function schemaOf(title: string, members: Members): JsonSchema {
  const entries = Object.entries(members).map(([name, member]) => ({ key: member.alias ?? name, ...member }));
  const needed = entries.filter(({ optional }) => !optional).map(({ key }) => key);
  return {
    type: "object",
    title,
    properties: Object.fromEntries(entries.map(({ key, type }) => [key, type.schema])),
    ...(needed.length > 0 ? { required: needed } : {}),
  };
}

/** A `TypedDict`. The value is handed on as it came. */
export function typedDict(name: string, members: Members): Type<PythonDict> {
  return {
    name,
    schema: schemaOf(name, members),
    check(value, state) {
      if (!isDict(value)) return state.fail("dict_type", "Input should be a valid dictionary", value);
      return checkMembers(members, value, state) ? value : FAIL;
    },
    *pieces(value, state) {
      if (!isDict(value)) return state.fail("dict_type", "Input should be a valid dictionary", value);
      return (yield* memberPieces(members, value, state)) ? value : FAIL;
    },
  };
}

/** A `BaseModel`. */
export function model(name: string, members: Members): Type<PythonDict> {
  return {
    name,
    schema: schemaOf(name, members),
    check(value, state) {
      if (!isDict(value)) {
        const message = "Input should be a valid dictionary or object to extract fields from";
        return state.fail("model_attributes_type", message, value);
      }
      return checkMembers(members, value, state) ? value : FAIL;
    },
  };
}

/** A `BaseModel` whose members are wanted coerced: those that were given. */
export function record(name: string, members: Members): Type<ReadonlyMap<string, unknown>> {
  const raw = model(name, {});
  return {
    name,
    schema: schemaOf(name, members),
    check(value, state) {
      if (!isDict(value)) return raw.check(value, state) as typeof FAIL;
      const checked = new Map<string, unknown>();
      return checkMembers(members, value, state, checked) ? checked : FAIL;
    },
    *pieces(value, state) {
      if (!isDict(value)) return raw.check(value, state) as typeof FAIL;
      const checked = new Map<string, unknown>();
      return (yield* memberPieces(members, value, state, checked)) ? checked : FAIL;
    },
  };
}

/** A pydantic dataclass: the members given, coerced; `after` is its `__post_init__` and may throw a refusal. */
export function dataclass(
  name: string,
  members: Members,
  after: (checked: ReadonlyMap<string, unknown>) => void,
): Type<ReadonlyMap<string, unknown>> {
  return {
    name,
    schema: schemaOf(name, members),
    check(value, state) {
      if (!isDict(value)) {
        const message = `Input should be a dictionary or an instance of ${name}`;
        return state.fail("dataclass_type", message, value, { class_name: name });
      }
      const checked = new Map<string, unknown>();
      if (!checkMembers(members, value, state, checked)) return FAIL;
      after(checked);
      return checked;
    },
  };
}

export interface Branch<V> {
  readonly type: Type<V>;
  /** Stands in the location of the branch's errors; pydantic's own labels (`str`, `list[...]`) are left out. */
  readonly label?: string;
}

export interface Picked<V> {
  readonly index: number;
  readonly value: Checked<V>;
}

/** The best branch of a union so far. One object for all that is tried: dictionaries have a union for each of their values. */
class Best<V> implements Picked<V> {
  index = -1;
  value: Checked<V> = FAIL;
  readonly #state: State;
  readonly #outerFields: number;
  readonly #outerExact: boolean;
  readonly #begin: number;
  #fields = -1;
  #exact = false;

  constructor(state: State) {
    this.#state = state;
    this.#outerFields = state.fields;
    this.#outerExact = state.exact;
    this.#begin = state.count;
  }

  /** The next branch is about to be checked; errors so far. */
  tries(): number {
    this.#state.fields = -1;
    this.#state.exact = true;
    return this.#state.count;
  }

  /** What the branch has given; true: none that follows can be better. */
  took(index: number, checked: Checked<V>, { label }: Branch<V>, before: number): boolean {
    const state = this.#state;
    if (checked === FAIL) {
      if (label !== undefined) state.prefix(before, label);
      return false;
    }
    const better =
      this.#fields >= 0 && state.fields >= 0 && this.#fields !== state.fields
        ? this.#fields < state.fields
        : !this.#exact && state.exact;
    if (this.index < 0 || better) {
      this.index = index;
      this.value = checked;
      this.#fields = state.fields;
      this.#exact = state.exact;
    }
    return this.#exact && this.#fields < 0;
  }

  /** All branches have been tried that matter. */
  picked(): Picked<V> {
    const state = this.#state;
    state.fields = this.#outerFields;
    state.exact = this.#outerExact;
    if (this.index < 0) return this;
    state.cut(this.#begin);
    if (this.#fields >= 0) state.fields = Math.max(this.#outerFields, 0) + this.#fields;
    state.exact &&= this.#exact;
    return this;
  }
}

/**
 * The branch of a smart-mode union that pydantic takes, with its value; -1 when none fits. More fields set win, then
 * values that needed no coercion, then the order.
 */
export function pick<V>(branches: readonly Branch<V>[], value: PythonValue, state: State): Picked<V> {
  const best = new Best<V>(state);
  for (let index = 0; index < branches.length; index++) {
    const branch = branches[index]!;
    const before = best.tries();
    if (best.took(index, branch.type.check(value, state), branch, before)) break;
  }
  return best.picked();
}

/** Picks in pieces; see `pick`. */
export function* pickPieces<V>(branches: readonly Branch<V>[], value: PythonValue, state: State): Pieces<Picked<V>> {
  const best = new Best<V>(state);
  for (let index = 0; index < branches.length; index++) {
    const branch = branches[index]!;
    const { type } = branch;
    const before = best.tries();
    const checked = type.pieces === undefined ? type.check(value, state) : yield* type.pieces(value, state);
    if (best.took(index, checked, branch, before)) break;
  }
  return best.picked();
}

/** `A | B | …`. */
export function union<V>(...branches: (Branch<V> | Type<V>)[]): Type<V> {
  const all = branches.map((branch) => ("type" in branch ? branch : { type: branch }));
  return {
    name: all.map((branch) => branch.type.name).join(" or "),
    schema: { anyOf: all.flatMap((branch) => alternatives(branch.type.schema)) },
    check: (value, state) => pick(all, value, state).value,
    *pieces(value, state) {
      return (yield* pickPieces(all, value, state)).value;
    },
  };
}
