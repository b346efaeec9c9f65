/**
 * Compares the names that semantic versioning covers with the recorded list, and finds the changes that the changelog does not
 * name.
 */
import { KINDS, type Kind, type Surface } from "./surface.ts";

export interface SurfaceChange {
  readonly kind: Kind;
  readonly name: string;
  /** Meaning of the name in the recorded list, for example `number` for a JSON key. */
  readonly was: string;
  /** Meaning of the same name in today's code. Null if today's code lacks the name. */
  readonly now: string | null;
}

/**
 * Reports whether a meaning has stayed the same. The type of a JSON value that was null is not known, so it equals any type.
 */
const isSame = (kind: Kind, was: string, now: string): boolean =>
  was === now || (kind === "JSON keys" && (was === "null" || now === "null"));

/** Returns the names of the recorded list that today's code lacks, or that have another meaning in it. */
export function surfaceChanges(recorded: Surface, current: Surface): SurfaceChange[] {
  return KINDS.flatMap((kind) =>
    Object.entries(recorded[kind] ?? {}).flatMap(([name, was]) => {
      const now = current[kind][name] ?? null;
      return now !== null && isSame(kind, was, now) ? [] : [{ kind, name, was, now }];
    }),
  );
}

/** Returns the names of today's code that the recorded list lacks. */
export const surfaceAdditions = (recorded: Surface, current: Surface): string[] =>
  KINDS.flatMap((kind) =>
    Object.keys(current[kind]).flatMap((name) => (name in (recorded[kind] ?? {}) ? [] : [`${kind}: ${name}`])),
  );

/** Returns the word by which the changelog must name a change: a flag, a path of keys, a code, a type or its member. */
function wordOf({ kind, name }: SurfaceChange): string {
  if (kind === "flags") return name.slice(name.lastIndexOf(" ") + 1);
  if (kind.endsWith("keys")) return name.slice(name.indexOf(": ") + 2);
  if (kind === "exit codes") return `exit code ${name.slice(name.lastIndexOf(" ") + 1)}`;
  return name;
}

/** Returns the changelog's lines about the next version, under all headings except Added. */
function toldIn(changelog: string): string {
  const section = changelog.split(/^## /m)[1] ?? "";
  return section
    .split(/^### /m)
    .slice(1)
    .filter((part) => !part.startsWith("Added"))
    .join("\n");
}

/** Returns the changes that no line of the changelog names. A line that names a disappeared type also covers its members. */
export function untold(changes: readonly SurfaceChange[], changelog: string): SurfaceChange[] {
  const told = toldIn(changelog);
  const names = (word: string) => told.includes(`\`${word}\``) || (word.startsWith("exit code") && told.includes(word));
  const gone = new Set(changes.filter(({ now }) => now === null).map(wordOf));
  return changes.filter((change) => {
    const word = wordOf(change);
    const parents = word.split(".").map((_, at, parts) => parts.slice(0, at).join("."));
    return !names(word) && !parents.some((parent) => gone.has(parent) && names(parent));
  });
}

export const changeText = ({ kind, name, was, now }: SurfaceChange): string =>
  now === null ? `${kind}: ${name} has disappeared` : `${kind}: ${name} was "${was}" and is now "${now}"`;

/** Returns the recorded list as text. */
export const surfaceText = (surface: Surface): string => `${JSON.stringify(surface, null, 2)}\n`;
