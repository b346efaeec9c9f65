/**
 * For which versions of its server does a law hold, and what does a version really do wrong? The laws were derived from the
 * newest versions (`versions.ts`); those that are not named here hold for all, as far as their families are there.
 */
import type { Law } from "../pages/law.ts";
import type { ToldVersion, VersionId } from "../pages/versions.ts";

const V1: readonly VersionId[] = ["V1 to 0.11", "0.12 to 0.29", "0.30"];

/** vLLM's laws that V0 keeps: it counts per step and per sequence group, with swapped requests beside the queue. */
const KEPT_BY_V0 = ["V21", "V22", "V25", "V28", "V34", "V35"];

interface Holding {
  readonly is: (law: Law) => boolean;
  readonly versions: readonly VersionId[];
  readonly why: string;
}

const HOLDINGS: readonly Holding[] = [
  {
    is: ({ of, id }) => of === "vllm" && !KEPT_BY_V0.includes(id),
    versions: V1,
    why: "V0 counts otherwise",
  },
  {
    is: ({ id }) => id === "N05",
    versions: ["24.07"],
    why: "before core#377 there was one series, without reason",
  },
  {
    is: ({ id }) => id === "T01" || id === "T05",
    versions: ["with waiting"],
    why: "older groups have no waiting and no fraction",
  },
];

interface KnownBug {
  readonly law: string;
  readonly versions: readonly VersionId[];
  readonly thread: string;
}

const KNOWN_BUGS: readonly KnownBug[] = [
  {
    law: "V25",
    versions: ["V0"],
    thread: "vllm#8115: V0 may show more first tokens than requests (8060 against 3918 there)",
  },
];

/** The versions for which the law holds; null: all. */
export function holdsFor(law: Law): readonly VersionId[] | null {
  return HOLDINGS.find(({ is }) => is(law))?.versions ?? null;
}

/** Why the law is not looked at in this version; null where it holds. */
export function whyNotHeld(law: Law, version: ToldVersion | null): string | null {
  if (version === null) return null;
  const holding = HOLDINGS.find(({ is }) => is(law));
  if (holding === undefined || holding.versions.includes(version.id)) return null;
  return `not of ${version.of} ${version.id}: ${holding.why}`;
}

/** The thread of what this version really does wrong. */
export function knownBugOf(law: Law, version: ToldVersion | null): string | null {
  if (version === null) return null;
  return KNOWN_BUGS.find((bug) => bug.law === law.id && bug.versions.includes(version.id))?.thread ?? null;
}
