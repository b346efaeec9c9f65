/**
 * Says for which versions of its server a law holds, and which versions are known to break it. The laws come from the newest
 * versions (`versions.ts`). A law that this file does not name holds for all versions that have its families.
 */
import type { Law } from "../pages/law.ts";
import type { PageVersion, VersionId } from "../pages/versions.ts";

const V1: readonly VersionId[] = ["V1 to 0.11", "0.12 to 0.29", "vllm-rs", "0.30"];

/**
 * vLLM's laws that also hold for V0. The others do not, because V0 counts per step and per sequence group, and has swapped
 * requests in addition to waiting ones.
 */
const KEPT_BY_V0 = ["V21", "V22", "V25", "V28", "V34", "V35"];

interface VersionScope {
  readonly applies: (law: Law) => boolean;
  readonly versions: readonly VersionId[];
  readonly why: string;
}

const SCOPES: readonly VersionScope[] = [
  {
    applies: ({ of, id }) => of === "vllm" && !KEPT_BY_V0.includes(id),
    versions: V1,
    why: "V0 counts otherwise",
  },
  {
    applies: ({ id }) => id === "N05",
    versions: ["24.07"],
    why: "before core#377 there was one series, without reason",
  },
  {
    applies: ({ id }) => id === "T01" || id === "T05",
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

/** Returns the versions for which the law holds. Null means all. */
export function holdsFor(law: Law): readonly VersionId[] | null {
  return SCOPES.find(({ applies }) => applies(law))?.versions ?? null;
}

/** Returns why the law does not hold for this version. Null if it does. */
export function whyNotHeld(law: Law, version: PageVersion | null): string | null {
  if (version === null) return null;
  const holding = SCOPES.find(({ applies }) => applies(law));
  if (holding === undefined || holding.versions.includes(version.id)) return null;
  return `not of ${version.of} ${version.id}: ${holding.why}`;
}

/** Returns the public issue about this version breaking the law. Null if there is none. */
export function knownBugOf(law: Law, version: PageVersion | null): string | null {
  if (version === null) return null;
  return KNOWN_BUGS.find((bug) => bug.law === law.id && bug.versions.includes(version.id))?.thread ?? null;
}
