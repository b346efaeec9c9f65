/** What is wrong with an answer? As the recordings' own `compare.py`: exact but for ranges, placeholders and what has no order. */
import type { Dict, Json, Step } from "./recordings.ts";

const isDict = (value: unknown): value is Dict => typeof value === "object" && value !== null && !Array.isArray(value);

interface How {
  /** The order of keys in a body is free. */
  readonly free: boolean;
  /** A host that has other work may be late: what took too long is no difference. */
  readonly late: boolean;
  /** Who cancels late has read more. */
  readonly more: boolean;
}

/** Up to some differences; empty: none. `late`: upper bounds of times are not looked at. */
export function differences(step: Step, got: Json, late: boolean): string[] {
  const out: string[] = [];
  const more = late && step.grpc?.cancel_after_ms !== undefined;
  same(step.expect ?? null, got, "", out, { free: step.compare === "json", late, more });
  return out;
}

function same(want: Json, got: Json, path: string, out: string[], how: How): void {
  if (isDict(want) && "recorded" in want) {
    range(want, got, path, out, how.late);
    return;
  }
  if (isDict(want) && isDict(got)) {
    for (const key of new Set([...Object.keys(want), ...Object.keys(got)])) {
      if (!(key in got)) out.push(`${path}.${key}: missing, wanted ${short(want[key]!)}`);
      else if (!(key in want)) out.push(`${path}.${key}: not wanted, got ${short(got[key]!)}`);
      else same(want[key]!, got[key]!, `${path}.${key}`, out, how);
    }
    return;
  }
  if (Array.isArray(want) && Array.isArray(got)) {
    if (path.endsWith(".samples")) samples(want, got, path, out, how);
    else {
      const isMore = how.more && path === ".responses" && got.length > want.length;
      if (want.length !== got.length && !isMore) out.push(`${path}: ${want.length} wanted, ${got.length} got`);
      for (const [at, one] of want.entries()) if (at < got.length) same(one, got[at]!, `${path}[${at}]`, out, how);
    }
    return;
  }
  if (want === got) return;
  if (how.free && path.endsWith(".body") && sameJson(want, got)) return;
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

function samples(want: readonly Json[], got: readonly Json[], path: string, out: string[], how: How): void {
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
    else same(wanted.get(key)!, found.get(key)!, `${path}${key}`, out, how);
  }
}

/** Times and counts of gRPC's messages, where each number stands by itself. */
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

/** Puts the recordings' placeholders where a value differs from run to run. `repository`: the path of the models. */
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
