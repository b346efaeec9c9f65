/** Types that check objects and unions like pydantic 2.14: models, typed dictionaries, dataclasses, smart-mode unions. */

import type { Pieces } from "../../base/pieces.ts";
import { alternatives, type CheckResult, FAIL, type JsonSchema, type State, type Type } from "./types.ts";
import { get, isDict, type PythonDict, type PythonValue } from "./value.ts";

/** One field of an object type. */
export interface Member {
  readonly type: Type<unknown>;
  /** True if the field may be absent. */
  readonly optional?: boolean;
  /** Name of the field in the body. Absent if it is the member's own name. */
  readonly alias?: string;
}
export type Members = Readonly<Record<string, Member>>;

export const required = (type: Type<unknown>, alias?: string): Member =>
  alias === undefined ? { type } : { type, alias };
export const optional = (type: Type<unknown>, alias?: string): Member =>
  alias === undefined ? { type, optional: true } : { type, optional: true, alias };

/** Checks the members of an object, and puts their values into `checked`. Ignores unknown keys. Returns false if one fails. */
function checkMembers(members: Members, value: PythonDict, state: State, checked?: Map<string, unknown>): boolean {
  const run = new MemberCheck(value, state, checked);
  for (const name in members) {
    const member = members[name] as Member;
    const item = run.memberValue(name, member);
    if (item !== undefined) run.record(name, member, member.type.check(item, state));
    if (run.isOver) return false;
  }
  return run.finish();
}

/** Like `checkMembers`, in pieces. */
function* memberPieces(
  members: Members,
  value: PythonDict,
  state: State,
  checked?: Map<string, unknown>,
): Pieces<boolean> {
  const run = new MemberCheck(value, state, checked);
  for (const name in members) {
    const member = members[name] as Member;
    const { type } = member;
    const item = run.memberValue(name, member);
    if (item !== undefined) {
      const result = type.pieces === undefined ? type.check(item, state) : yield* type.pieces(item, state);
      run.record(name, member, result);
    }
    if (run.isOver) return false;
  }
  return run.finish();
}

/** The state of the check of one object's members. */
class MemberCheck {
  #fields = 0;
  #fits = true;
  /** Number of errors before the current member. */
  #errorsBefore = 0;

  constructor(
    private readonly value: PythonDict,
    private readonly state: State,
    private readonly checked: Map<string, unknown> | undefined,
  ) {}

  /** Returns the member's value, or undefined if it is absent, which is an error unless it is optional. */
  memberValue(name: string, { alias = name, optional: isOptional }: Member): PythonValue | undefined {
    const item = get(this.value, alias);
    this.#errorsBefore = this.state.count;
    if (item !== undefined) this.#fields++;
    else if (!isOptional) {
      this.state.fail("missing", "Field required", this.value);
      this.#failed(alias);
    }
    return item;
  }

  /** Stores the value of a checked member, or notes that the member failed. */
  record(name: string, { alias = name }: Member, result: unknown): void {
    if (result === FAIL) this.#failed(alias);
    else this.checked?.set(name, result);
  }

  /** True if a member failed and errors are not collected, so that the check can end. */
  get isOver(): boolean {
    return !this.#fits && this.state.errors === null;
  }

  #failed(key: string): void {
    this.#fits = false;
    this.state.prefix(this.#errorsBefore, key);
  }

  /** Ends the check. Adds the number of set fields to the state, for the ranking of unions. Returns true if all fit. */
  finish(): boolean {
    if (this.#fits || this.state.errors !== null) this.state.fields = Math.max(this.state.fields, 0) + this.#fields;
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

/** Differences between `TypedDict`, `BaseModel` and dataclasses. `R`: result of a check. */
interface ObjectKind<R> {
  /** Adds the error for a value that is not an object. Returns `FAIL`. */
  readonly refuse: (value: PythonValue, state: State, name: string) => typeof FAIL;
  /** Makes the result of an object that fits. `checked`: its coerced members, without absent ones. */
  readonly result: (value: PythonDict, checked: ReadonlyMap<string, unknown>) => R;
  /** False if the result needs no coerced members. */
  readonly coerces: boolean;
}

function objectType<R>(name: string, members: Members, { refuse, result, coerces }: ObjectKind<R>): Type<R> {
  const newMap = () => (coerces ? new Map<string, unknown>() : undefined);
  return {
    name,
    schema: schemaOf(name, members),
    check(value, state) {
      if (!isDict(value)) return refuse(value, state, name);
      const checked = newMap();
      return checkMembers(members, value, state, checked) ? result(value, checked!) : FAIL;
    },
    *pieces(value, state) {
      if (!isDict(value)) return refuse(value, state, name);
      const checked = newMap();
      return (yield* memberPieces(members, value, state, checked)) ? result(value, checked!) : FAIL;
    },
  };
}

const noModel: ObjectKind<unknown>["refuse"] = (value, state) =>
  state.fail("model_attributes_type", "Input should be a valid dictionary or object to extract fields from", value);
const TYPED_DICT: ObjectKind<PythonDict> = {
  refuse: (value, state) => state.fail("dict_type", "Input should be a valid dictionary", value),
  result: (value) => value,
  coerces: false,
};

/** A `TypedDict`. The result is the value itself. */
export const typedDict = (name: string, members: Members): Type<PythonDict> => objectType(name, members, TYPED_DICT);

/** A `BaseModel`. The result is the value itself, without coercions. It lacks `pieces`, because its check never takes long. */
export function model(name: string, members: Members): Type<PythonDict> {
  const { pieces: _, ...type } = objectType(name, members, { ...TYPED_DICT, refuse: noModel });
  return type;
}

/** A `BaseModel`. The result has the coerced members, without absent ones. */
export const record = (name: string, members: Members): Type<ReadonlyMap<string, unknown>> =>
  objectType(name, members, { refuse: noModel, result: (_, checked) => checked, coerces: true });

/** A pydantic dataclass. Its result has the coerced members, without absent ones. `after`: `__post_init__`, may throw `RefusedRequest`. */
export function dataclass(
  name: string,
  members: Members,
  after: (checked: ReadonlyMap<string, unknown>) => void,
): Type<ReadonlyMap<string, unknown>> {
  return objectType(name, members, {
    refuse: (value, state) =>
      state.fail("dataclass_type", `Input should be a dictionary or an instance of ${name}`, value, {
        class_name: name,
      }),
    result(_, checked) {
      after(checked);
      return checked;
    },
    coerces: true,
  });
}

/** One type of a union. */
export interface Branch<V> {
  readonly type: Type<V>;
  /** First part of the location of the branch's errors. Absent for pydantic's own labels (`str`, `list[...]`). */
  readonly label?: string;
}

/** The branch of a union that fits best. */
interface BranchChoice<V> {
  /** Index of the branch, or -1 if none fits. */
  readonly index: number;
  /** The branch's result, or `FAIL`. */
  readonly value: CheckResult<V>;
}

/** Finds the best branch of a union. One object per value, because a dictionary may check a union for each of its values. */
class BestBranch<V> implements BranchChoice<V> {
  index = -1;
  value: CheckResult<V> = FAIL;
  readonly #outerFields: number;
  readonly #outerExact: boolean;
  readonly #errorsBefore: number;
  #fields = -1;
  #exact = false;

  constructor(private readonly state: State) {
    this.#outerFields = state.fields;
    this.#outerExact = state.exact;
    this.#errorsBefore = state.count;
  }

  /** Prepares the check of the next branch. Returns the number of errors so far. */
  startBranch(): number {
    this.state.fields = -1;
    this.state.exact = true;
    return this.state.count;
  }

  /** Compares the branch's result with the best so far. Returns true if no later branch can be better. */
  record(index: number, checked: CheckResult<V>, { label }: Branch<V>, before: number): boolean {
    const state = this.state;
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

  /** Ends the choice: restores the outer state, adds the best branch's numbers, and drops the errors if a branch fits. */
  finish(): BranchChoice<V> {
    const state = this.state;
    state.fields = this.#outerFields;
    state.exact = this.#outerExact;
    if (this.index < 0) return this;
    state.cut(this.#errorsBefore);
    if (this.#fields >= 0) state.fields = Math.max(this.#outerFields, 0) + this.#fields;
    state.exact &&= this.#exact;
    return this;
  }
}

/**
 * Returns the branch of a smart-mode union that pydantic picks: the one with most fields set, then one that needs no coercion,
 * then the first. Its index is -1 if no branch fits.
 */
export function pick<V>(branches: readonly Branch<V>[], value: PythonValue, state: State): BranchChoice<V> {
  const best = new BestBranch<V>(state);
  for (let index = 0; index < branches.length; index++) {
    const branch = branches[index]!;
    const before = best.startBranch();
    if (best.record(index, branch.type.check(value, state), branch, before)) break;
  }
  return best.finish();
}

/** Like `pick`, in pieces. */
export function* pickPieces<V>(
  branches: readonly Branch<V>[],
  value: PythonValue,
  state: State,
): Pieces<BranchChoice<V>> {
  const best = new BestBranch<V>(state);
  for (let index = 0; index < branches.length; index++) {
    const branch = branches[index]!;
    const { type } = branch;
    const before = best.startBranch();
    const checked = type.pieces === undefined ? type.check(value, state) : yield* type.pieces(value, state);
    if (best.record(index, checked, branch, before)) break;
  }
  return best.finish();
}

/** The union `A | B | …`. The result is that of the branch that fits best. */
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
