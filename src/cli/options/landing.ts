/**
 * Builds the configuration of a server from the values of options. Each row of a table of options says which member of the
 * configuration gets its value. A row does not compile if its path does not exist, or if the member cannot have the value.
 */

import type { ServeConfig } from "../../app/config/serve-config.ts";
import { type OptionRow, type PlainRow, sharing, toggle, type ValueOf } from "./option.ts";

declare const NOWHERE: unique symbol;
/** Type that stands for a member that does not exist. */
export type Nowhere = typeof NOWHERE;

/** The object types of a union such as `Tls | null | string`. Only object types have named members. */
type Members<C> = Extract<C, object>;

/** Type of the member at a path such as `engine.maxNumSeqs`. `Nowhere` if the path does not exist. */
export type MemberAt<C, Path extends string> = Path extends `${infer Head}.${infer Rest}`
  ? Head extends keyof Members<C>
    ? MemberAt<Members<C>[Head], Rest>
    : Nowhere
  : Path extends keyof Members<C>
    ? Members<C>[Path]
    : Nowhere;

/** Destination of an option's value in the configuration. A row has exactly one of `lands`, `feeds` and `outside`. */
export interface Landing {
  /**
   * Path of the member of `ServeConfig` that gets the value. If several options have the same path, the last row whose option
   * is given wins.
   */
  readonly lands?: string;
  /**
   * Converts the value for the member. Returns undefined to keep the member's `initial`. Absent: the member gets the value as
   * it is. Not a generic function, because the compiler then loses the types of all rows of the group.
   */
  readonly as?: (value: never) => unknown;
  /**
   * Value of the member if the option is not given. Absent: the member is absent, or the code that uses the member fills it in.
   */
  readonly initial?: unknown;
  /** Path of a member that a function computes from this option and other options. */
  readonly feeds?: string;
  /** Reason why the value of the option is not part of the configuration. */
  readonly outside?: string;
}

/** A row of the table of a server's options. */
export type LandingRow<T = unknown> = OptionRow<T> & Landing;
type LandingRows = Readonly<Record<string, LandingRow>>;
type PlainRows = Readonly<Record<string, PlainRow & Landing>>;

/** Type of a row's value after the conversion by `as`. */
type Conversion<Row> = Row extends { readonly as: (value: infer Input) => infer Output }
  ? ValueOf<Row> extends Input
    ? Exclude<Output, undefined>
    : Nowhere
  : ValueOf<Row>;

/** Error message about a row whose destination is wrong, as a type. `never` if the destination is right. */
type Misfit<Row> = Row extends { readonly lands: infer Path extends string }
  ? MemberAt<ServeConfig, Path> extends Nowhere
    ? `the configuration has no ${Path}`
    : Conversion<Row> extends Exclude<MemberAt<ServeConfig, Path>, undefined>
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

/**
 * Path of the configuration's member that an option sets. A row of the option table states it as `lands` if the value is copied,
 * and as `feeds` if the member is computed from it.
 */
export type DestinationOf<Row> = Row extends { readonly lands: infer Path extends string }
  ? Path
  : Row extends { readonly feeds: infer Path extends string }
    ? Path
    : never;

/** Type that rejects each row whose destination is wrong, so that the compiler prints the message of `Misfit`. */
type DestinationCheck<R> = {
  readonly [Name in keyof R]: [Misfit<R[Name]>] extends [never] ? unknown : { readonly refused: Misfit<R[Name]> };
};

/** Puts rows of a server's options under one heading of the help text. A row whose destination is wrong does not compile. */
export const serveGroup = <const R extends PlainRows>(group: string, rows: R & DestinationCheck<R>) =>
  sharing(rows as R, { group });

/** Like `serveGroup`, for options that the real server lacks. */
export const ourServeGroup = <const R extends PlainRows>(group: string, rows: R & DestinationCheck<R>) =>
  sharing(rows as R, { group, ours: true as const });

/** Makes the default of an option: the member's initial value, which the help text also shows. */
export const initially = <const T>(initial: T) => ({ initial, default: String(initial) });

export const onAtStart = { ...toggle, ...initially(true) };
export const offAtStart = { ...toggle, ...initially(false) };

/** Converts false to undefined, so that the configuration lacks the member. */
export const onlyTrue = (on: boolean) => on || undefined;
/** Converts MiB to bytes, and rounds up. */
export const bytesOfMib = (mib: number) => Math.ceil(mib * 2 ** 20);
/** Converts an empty list to undefined, so that the configuration lacks the member. */
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

/** Type of the members of `C` that rows set. `Sure`: paths that have an initial value, so that their members are never absent. */
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

/** Type of the part of the configuration in which each member gets the value of a single option. */
export type LandedConfig<R> = LandedAt<ServeConfig, "", Paths<R>, SurePaths<R>>;

/**
 * Builds the configuration. Stores the value of each option at the path of its row, or the row's initial value if the option is
 * not given.
 */
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

/** Stores `value` at `path`. If `value` is undefined, stores `initial`, unless another option has already set the member. */
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
