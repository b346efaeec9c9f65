/**
 * Builds the configuration of a server from the values of options. Each row of a table says which member of the configuration
 * gets its value. The compiler refuses a row with a path that does not exist, or with a value that the member does not take.
 */

import type { ServeConfig } from "../../app/config/serve-config.ts";
import { type OptionRow, sharing, type ValueOf } from "./option.ts";

declare const NOWHERE: unique symbol;
/** The type of a member that does not exist. */
export type Nowhere = typeof NOWHERE;

/** The members that have a name, of a member that may also be absent, null or a text. */
type Members<C> = Extract<C, object>;

/** The type of the member at a path such as `engine.maxNumSeqs`. `Nowhere` if there is no such member. */
export type MemberAt<C, Path extends string> = Path extends `${infer Head}.${infer Rest}`
  ? Head extends keyof Members<C>
    ? MemberAt<Members<C>[Head], Rest>
    : Nowhere
  : Path extends keyof Members<C>
    ? Members<C>[Path]
    : Nowhere;

/** What becomes of the value of an option. A row has one of `lands`, `feeds` and `outside`. */
export interface Landing {
  /** Path of the member of `ServeConfig` that gets the value. If several options land there, the last row given wins. */
  readonly lands?: string;
  /**
   * Converts the value for the member. Returns undefined if the member keeps its `initial`. Not a generic function, because the
   * compiler then loses the types of all rows of the group. Absent: the member gets the value.
   */
  readonly as?: (value: never) => unknown;
  /** Value of the member if the option is not given. Absent: the member is absent, or its owner completes it. */
  readonly initial?: unknown;
  /** Path of the member that a function makes from this option together with others. */
  readonly feeds?: string;
  /** Reason why no member of the configuration gets the value. */
  readonly outside?: string;
}

/** A row of the options of a server. */
export type LandingRow<T = unknown> = OptionRow<T> & Landing;
type LandingRows = Readonly<Record<string, LandingRow>>;
type Ungrouped = Readonly<Record<string, Omit<LandingRow, "group">>>;

/** The type that the member of a row gets. */
type Landed<Row> = Row extends { readonly as: (value: infer Taken) => infer Made }
  ? ValueOf<Row> extends Taken
    ? Exclude<Made, undefined>
    : Nowhere
  : ValueOf<Row>;

/** What is wrong with the destination of a row. `never` if nothing is. */
type Misfit<Row> = Row extends { readonly lands: infer Path extends string }
  ? MemberAt<ServeConfig, Path> extends Nowhere
    ? `the configuration has no ${Path}`
    : Landed<Row> extends Exclude<MemberAt<ServeConfig, Path>, undefined>
      ? Row extends { readonly initial: infer Initial }
        ? Initial extends MemberAt<ServeConfig, Path>
          ? never
          : `${Path} does not take this initial value`
        : never
      : `${Path} does not take this value`
  : Row extends { readonly feeds: infer Path extends string }
    ? MemberAt<ServeConfig, Path> extends Nowhere
      ? `the configuration has no ${Path}`
      : never
    : Row extends { readonly outside: string }
      ? never
      : "needs lands, feeds or outside";

/** The path of the member that a row or the function that it feeds makes. */
export type DestinationOf<Row> = Row extends { readonly lands: infer Path extends string }
  ? Path
  : Row extends { readonly feeds: infer Path extends string }
    ? Path
    : never;

/** Marks the rows that fit nowhere. */
type Fitting<R> = {
  readonly [Name in keyof R]: [Misfit<R[Name]>] extends [never] ? unknown : { readonly lands: Misfit<R[Name]> };
};

/** Rows of a server's options that the help lists under one heading. Does not compile if a row fits nowhere. */
export const serveGroup = <const R extends Ungrouped>(group: string, rows: R & Fitting<R>) =>
  sharing(rows as R, { group });

/** Like `serveGroup`, for options that the real server does not have. */
export const ourServeGroup = <const R extends Ungrouped>(group: string, rows: R & Fitting<R>) =>
  sharing(rows as R, { group, ours: true as const });

/** Help text and value of a member whose option is not given. */
export const initially = <const T>(initial: T) => ({ initial, default: String(initial) });

/** Conversions of values that several rows use. */
export const onlyTrue = (on: boolean) => on || undefined;
export const bytesOfMib = (mib: number) => Math.ceil(mib * 2 ** 20);
export const unlessEmpty =
  <T>() =>
  (items: readonly T[]) =>
    items.length > 0 ? items : undefined;

type Paths<R> = {
  [Name in keyof R]: R[Name] extends { readonly lands: infer Path extends string } ? Path : never;
}[keyof R];
type SurePaths<R> = {
  [Name in keyof R]: R[Name] extends { readonly lands: infer Path extends string; readonly initial: unknown }
    ? Path
    : never;
}[keyof R];

type Under<All extends string, Path extends string> = Extract<All, `${Path}.${string}`>;

/** The members of `C` where rows land. `Sure`: paths that have an initial value, whose members are never absent. */
type LandedAt<C, Prefix extends string, All extends string, Sure extends string> = {
  readonly [K in keyof C & string as `${Prefix}${K}` extends Sure
    ? K
    : [Under<Sure, `${Prefix}${K}`>] extends [never]
      ? never
      : K]-?: LandedMember<C[K], `${Prefix}${K}`, All, Sure>;
} & {
  readonly [K in keyof C & string as `${Prefix}${K}` extends Sure
    ? never
    : [Under<Sure, `${Prefix}${K}`>] extends [never]
      ? `${Prefix}${K}` extends All
        ? K
        : [Under<All, `${Prefix}${K}`>] extends [never]
          ? never
          : K
      : never]?: LandedMember<C[K], `${Prefix}${K}`, All, Sure>;
};

type LandedMember<T, Path extends string, All extends string, Sure extends string> = Path extends All
  ? Exclude<T, undefined>
  : LandedAt<Members<T>, `${Path}.`, All, Sure>;

/** The part of the configuration that follows from single options. */
export type LandedConfig<R> = LandedAt<ServeConfig, "", Paths<R>, SurePaths<R>>;

/** Puts each value, or the initial value if the option is not given, at the place that its row names. */
export function landed<const R extends LandingRows>(
  rows: R,
  values: { readonly [Name in keyof R]?: ValueOf<R[Name]> },
): LandedConfig<R> {
  const config: Tree = {};
  for (const [name, { lands, as, initial }] of Object.entries(rows)) {
    if (lands === undefined) continue;
    const value = values[name];
    const member = value === undefined || as === undefined ? value : as(value as never);
    if (member !== undefined || initial !== undefined) put(config, lands, member, initial);
  }
  return config as LandedConfig<R>;
}

interface Tree {
  [name: string]: unknown;
}

/** Without a `value` the member gets the initial one, unless another option gave it a value. */
function put(config: Tree, path: string, value: unknown, initial: unknown): void {
  const names = path.split(".");
  const last = names.pop()!;
  let tree = config;
  for (const name of names) {
    tree[name] ??= {};
    tree = tree[name] as Tree;
  }
  tree[last] = value === undefined ? (tree[last] ?? initial) : value;
}
