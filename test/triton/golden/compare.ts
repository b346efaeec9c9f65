/**
 * Compares an answer with a recording, like the recordings' own `compare.py`: exactly, except for ranges, placeholders and
 * unordered values.
 */
import type { Dict, Json, Step } from "./recordings.ts";

const isDict = (value: unknown): value is Dict => typeof value === "object" && value !== null && !Array.isArray(value);

/** Tolerances of a comparison. */
interface Tolerances {
  /** True if the order of keys in a body does not matter. */
  readonly free: boolean;
  /** True on a busy machine: upper bounds of times are ignored. */
  readonly late: boolean;
  /** True if the answer may have additional responses, because the client may cancel late. */
  readonly more: boolean;
}

/** Returns the differences, empty if there are none. `late`: ignores upper bounds of times. */
export function differences(step: Step, got: Json, late: boolean): string[] {
  const out: string[] = [];
  const more = late && step.grpc?.cancel_after_ms !== undefined;
  same(step.expect ?? null, got, "", out, { free: step.compare === "json", late, more });
  return out;
}

function same(want: Json, got: Json, path: string, out: string[], tolerances: Tolerances): void {
  if (isDict(want) && "recorded" in want) {
    range(want, got, path, out, tolerances.late);
    return;
  }
  if (isDict(want) && isDict(got)) {
    for (const key of new Set([...Object.keys(want), ...Object.keys(got)])) {
      if (!(key in got)) out.push(`${path}.${key}: missing, wanted ${short(want[key]!)}`);
      else if (!(key in want)) out.push(`${path}.${key}: not wanted, got ${short(got[key]!)}`);
      else same(want[key]!, got[key]!, `${path}.${key}`, out, tolerances);
    }
    return;
  }
  if (Array.isArray(want) && Array.isArray(got)) {
    if (path.endsWith(".samples")) samples(want, got, path, out, tolerances);
    else {
      const isMore = tolerances.more && path === ".responses" && got.length > want.length;
      if (want.length !== got.length && !isMore) out.push(`${path}: ${want.length} wanted, ${got.length} got`);
      for (const [at, one] of want.entries())
        if (at < got.length) same(one, got[at]!, `${path}[${at}]`, out, tolerances);
    }
    return;
  }
  if (want === got) return;
  if (tolerances.free && path.endsWith(".body") && sameJson(want, got)) return;
  out.push(`${path}: wanted ${short(want)}, got ${short(got)}`);
}

const short = (value: Json) => JSON.stringify(value).slice(0, 300);

function sameJson(want: Json, got: Json): boolean {
  try {
    return Bun.deepEquals(JSON.parse(String(want)), JSON.parse(String(got)));
  } catch {
    return false;
  }
}

function range(want: Dict, got: Json, path: string, out: string[], late: boolean): void {
  if (want.any === true || isDict(want.recorded)) return;
  const { ge = -Infinity, le = Infinity } = want as { ge?: number; le?: number };
  if (typeof got !== "number" || got < ge || (got > le && !late))
    out.push(`${path}: wanted ${ge}..${le}, got ${short(got)}`);
}

function samples(
  want: readonly Json[],
  got: readonly Json[],
  path: string,
  out: string[],
  tolerances: Tolerances,
): void {
  const byKey = (all: readonly Json[]) =>
    new Map(
      (all as readonly Dict[]).map((one) => [
        `${String(one.name ?? "")}{${Object.entries(one.labels as Dict)
          .map((pair) => pair.join("="))
          .sort()}}`,
        one.value!,
      ]),
    );
  const [wanted, found] = [byKey(want), byKey(got)];
  for (const key of new Set([...wanted.keys(), ...found.keys()])) {
    if (!found.has(key)) out.push(`${path}: series missing ${key}`);
    else if (!wanted.has(key)) out.push(`${path}: series not wanted ${key}`);
    else same(wanted.get(key)!, found.get(key)!, `${path}${key}`, out, tolerances);
  }
}

/** Replaces times in messages of gRPC, where numbers are strings. */
function normalDict(value: Dict, repository: string): Dict {
  const made: Record<string, Json> = Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, normal(one, repository)]),
  );
  if ((made.last_inference ?? "0") !== "0") made.last_inference = "<ms>";
  const isTime = Object.keys(made).every((key) => key === "count" || key === "ns");
  if (isTime && (made.count ?? "0") !== "0") made.ns = "<ns>";
  return made;
}

const TRACEBACK = /(\\n\\nAt:\\n)(?:[^"\\]|\\.)*/g;

/** Replaces values that differ between runs by the recordings' placeholders. `repository`: path of the models. */
export function normal(value: Json, repository: string): Json {
  if (Array.isArray(value)) return value.map((one) => normal(one, repository));
  if (isDict(value)) return normalDict(value, repository);
  if (typeof value !== "string") return value;
  return value
    .replaceAll(repository, "<repo>")
    .replaceAll(/("count":[1-9]\d*,)"ns":\d+/g, '$1"ns":"<ns>"')
    .replaceAll(/"last_inference":[1-9]\d*/g, '"last_inference":"<ms>"')
    .replaceAll(TRACEBACK, "$1<traceback>")
    .replace(/(\n\nAt:\n)[^"]*/, "$1<traceback>");
}
