/**
 * Gives the families of a page the names that their dialect defines, so that its laws apply. Removes a foreign prefix
 * (`ray_vllm:`), adds a missing one (NIM, trtllm-serve before 1.3), and applies the caller's mapping (`--names`). Reports show
 * the names as the page wrote them. Sources: ray#52719 (Ray Serve), NVIDIA's NIM documentation ("Observability"), TensorRT-LLM
 * `tensorrt_llm/metrics/collector.py` (no prefix before #11243), dynamo#3676 (`trtllm:`, later `trtllm_`).
 */

import { isInProgress } from "./catalogue.ts";
import { type CheckedDialect, recogniseByPrefix } from "./dialects.ts";
import type { Exposition, ScrapedFamily, ScrapedLabels, ScrapedSample } from "./exposition.ts";
import { baseName, baseNames, routerOnly } from "./families.ts";
import type { DialectName } from "./law.ts";
import { type MappedName, mappedName, type NameMap } from "./name-map.ts";

/** A page with the names that the laws use. */
export interface NamedPage {
  /** The page with canonical names, which the dialects define. */
  readonly exposition: Exposition;
  /** The page with its names as written. */
  readonly written: Exposition;
  /** Dialects of the page. */
  readonly dialects: readonly CheckedDialect[];
  /** Families that the caller's mapping named. Null without a mapping. */
  readonly mapped: MappedDialect | null;
  /** Replaces canonical names in a text by those of the page. */
  readonly toPageNames: (text: string) => string;
  /** True for a gauge of running work, which is 0 if no request is under way. */
  readonly isUnderWay: (name: string, labels: ScrapedLabels) => boolean;
  /** Names of the caller's mapping and rest gauges that the page has. */
  readonly usedNames: readonly string[];
}

/** Families to which the caller's mapping gave names of a dialect. */
export interface MappedDialect {
  /** Dialect whose laws apply to these families. */
  readonly name: DialectName;
  /** Canonical names of the families. */
  readonly families: ReadonlySet<string>;
}

/** Naming options of the caller. */
export interface NamingOptions {
  readonly names?: NameMap | undefined;
  /** Gauges of running work, by their names on the page. */
  readonly restGauges?: readonly string[] | undefined;
}

interface PrefixRule {
  /** Prefix on the page. "" if the dialect's prefix is missing. */
  readonly written: string;
  /** Prefix that the dialect defines. */
  readonly canonical: string;
  /** Base names to which the rule applies. Null for all. */
  readonly only: ReadonlySet<string> | null;
}

interface Marker {
  readonly pattern: RegExp;
  readonly canonical: string;
  readonly of: readonly DialectName[];
}

const marker = (text: string, canonical: string, ...of: readonly DialectName[]): Marker => ({
  pattern: new RegExp(`^((?:[\\w:]*?[_:])?${text})(.+)$`),
  canonical,
  of,
});
const MARKERS: readonly Marker[] = [
  marker("vllm[:_]", "vllm:", "vllm", "vllm-router"),
  marker("trtllm[:_]", "trtllm_", "trtllm-serve"),
  marker("nv_", "nv_", "triton", "trtllm"),
  marker("dynamo_frontend_", "dynamo_frontend_", "dynamo-frontend"),
];
const ROUTER = "vllm_router:";
/**
 * Minimum number of known families with a foreign prefix, and without any prefix, that make a page count as the server's. Custom engines
 * may have one or two such names by chance.
 */
const FOREIGN_LEAST = 2;
const BARE_LEAST = { vllm: 3, "trtllm-serve": 2 } as const;
/** Labels of which the server's series have at least one. */
const BARE_LABELS = { vllm: ["model_name", "engine"], "trtllm-serve": ["engine_type"] } as const;

/** Matches prefixes of Ray Serve, which collects the families one by one. */
const THROUGH_RAY = /^ray_/;
const RAY_LABELS = ["WorkerId", "ReplicaId"];

const namesOf = ({ families, byName }: Exposition): ReadonlySet<string> =>
  new Set([...families.keys(), ...byName.keys()]);

/** Returns the page with canonical names. Returns the same object if its names are canonical already. */
export function namedPage(written: Exposition, { names, restGauges = [] }: NamingOptions = {}): NamedPage {
  const rules = prefixRules(written);
  const renamed = new Renaming(written, rules, names);
  const { exposition } = renamed;
  const isCollected = rules.some(({ written: prefix }) => THROUGH_RAY.test(prefix));
  const spoken = recogniseByPrefix(exposition).map((dialect): CheckedDialect => {
    if (dialect.name !== "vllm" || !isCollected) return dialect;
    return { ...dialect, groupBy: [...dialect.groupBy, ...RAY_LABELS], collected: true };
  });
  const gauges = new Set(restGauges.map((name) => renamed.nameOf(name)));
  return {
    exposition,
    written,
    dialects: spoken,
    mapped: names === undefined ? null : { name: names.dialect, families: renamed.mapped },
    toPageNames: (text) => renamed.toPageNames(text),
    isUnderWay: (name, labels) => gauges.has(name) || isInProgress(name, labels),
    usedNames: [...renamed.usedNames, ...restGauges.filter((name) => written.byName.has(name))],
  };
}

/** Returns the dialects of a page, whatever its prefixes. */
export const recognise = (exposition: Exposition): readonly CheckedDialect[] => namedPage(exposition).dialects;

function prefixRules(page: Exposition): PrefixRule[] {
  const all = namesOf(page);
  const rules: PrefixRule[] = [];
  const isThere = (canonical: string) => rules.some((rule) => rule.canonical === canonical);
  for (const candidate of MARKERS) {
    const rule = foreignPrefix(all, candidate);
    if (rule !== null) rules.push(rule);
  }
  if (![...all].some((name) => name.startsWith("trtllm_")) && !isThere("trtllm_")) {
    const rule = barePrefix(page, all, "trtllm-serve", "trtllm_");
    if (rule !== null) return [...rules, rule];
  }
  if (![...all].some((name) => name.startsWith("vllm:")) && !isThere("vllm:")) {
    const rule = barePrefix(page, all, "vllm", "vllm:");
    if (rule !== null) rules.push(rule);
  }
  return withRouter(page, all, rules);
}

/**
 * Returns the rule for a foreign prefix, if several known families share one and no family has the server's own prefix. Else
 * null.
 */
function foreignPrefix(all: ReadonlySet<string>, { pattern, canonical, of }: Marker): PrefixRule | null {
  const basesByPrefix = new Map<string, Set<string>>();
  for (const name of all) {
    const [, prefix, rest] = pattern.exec(name) ?? [];
    if (prefix === undefined || rest === undefined) continue;
    const base = baseName(rest);
    if (!of.some((dialect) => baseNames[dialect]!.has(base))) continue;
    if (prefix === canonical) return null;
    basesByPrefix.set(prefix, (basesByPrefix.get(prefix) ?? new Set()).add(base));
  }
  const [most] = [...basesByPrefix].sort(([, a], [, b]) => b.size - a.size);
  if (most === undefined) return null;
  const [prefix, bases] = most;
  const least = prefix.endsWith(":") || THROUGH_RAY.test(prefix) ? 1 : FOREIGN_LEAST;
  return bases.size < least ? null : { written: prefix, canonical, only: null };
}

/**
 * Returns the rule for a missing prefix, if enough known families have none and a series has a label that only this server
 * writes. Else null.
 */
function barePrefix(
  page: Exposition,
  all: ReadonlySet<string>,
  dialect: "vllm" | "trtllm-serve",
  canonical: string,
): PrefixRule | null {
  const known = baseNames[dialect]!;
  const bases = new Set([...all].map(baseName).filter((base) => known.has(base)));
  if (bases.size < BARE_LEAST[dialect]) return null;
  const isLabelled = [...page.byName].some(
    ([name, samples]) =>
      known.has(baseName(name)) &&
      samples.some(({ labels }) => BARE_LABELS[dialect].some((label) => labels[label] !== undefined)),
  );
  return isLabelled ? { written: "", canonical, only: known } : null;
}

/**
 * Gives the router of vLLM's production stack a prefix of its own, because its families have other types and meanings than the
 * engine's. It writes them with the prefix `vllm:` and a label `server`.
 */
function withRouter(page: Exposition, all: ReadonlySet<string>, rules: PrefixRule[]): PrefixRule[] {
  const at = rules.findIndex(({ canonical }) => canonical === "vllm:");
  const prefix = rules[at]?.written ?? "vllm:";
  const prefixed = [...all].filter((name) => name.startsWith(prefix));
  if (prefixed.length === 0 || rules[at]?.written === "") return rules;
  const bases = new Set(prefixed.map((name) => baseName(name.slice(prefix.length))));
  const hasEngine = [...bases].some((base) => baseNames.vllm!.has(base) && !baseNames["vllm-router"]!.has(base));
  if (hasEngine) return rules;
  const isRouters = [...bases].some((base) => routerOnly.has(base));
  const samples = prefixed.flatMap((name) => page.byName.get(name) ?? []);
  const perServer = samples.filter(
    ({ labels }) => labels.server !== undefined && labels.engine === undefined && labels.model_name === undefined,
  );
  if (!isRouters && (perServer.length === 0 || perServer.length < samples.length)) return rules;
  const rule = { written: prefix, canonical: ROUTER, only: null };
  return at < 0 ? [...rules, rule] : rules.with(at, rule);
}

/** Renames the families of a page, and can translate names back. */
class Renaming {
  readonly exposition: Exposition;
  /** Canonical families that the caller's mapping named. */
  readonly mapped = new Set<string>();
  /** Keys of the caller's mapping that the page has. */
  readonly usedNames: readonly string[];
  readonly #written = new Map<string, Set<string>>();
  readonly #labels: ReadonlyMap<string, string>;
  readonly #usedNames = new Set<string>();

  constructor(
    page: Exposition,
    readonly rules: readonly PrefixRule[],
    readonly names: NameMap | undefined,
  ) {
    const labels = Object.entries(names?.labels ?? {});
    this.#labels = new Map(labels.map(([written, canonical]) => [canonical, written]));
    this.exposition = rules.length === 0 && names === undefined ? page : this.#rename(page);
    this.usedNames = [...this.#usedNames];
  }

  /** Returns the canonical name of a family or sample of the page. */
  nameOf(written: string): string {
    return this.#target(written)?.name ?? written;
  }

  /** Replaces canonical names and labels in a text by those of the page. */
  toPageNames(text: string): string {
    if (this.rules.length === 0 && this.names === undefined) return text;
    const named = text.replace(/[a-zA-Z_:][\w:]*/g, (token) => this.#shownName(token));
    if (this.#labels.size === 0) return named;
    return named.replace(/([{,])(\w+)(?==")/g, (_, before: string, label: string) => {
      return before + (this.#labels.get(label) ?? label);
    });
  }

  #shownName(token: string): string {
    const written = this.#written.get(token);
    if (written !== undefined) return [...written].join("|");
    const rule = this.rules.find(({ canonical }) => token.startsWith(canonical));
    return rule === undefined ? token : rule.written + token.slice(rule.canonical.length);
  }

  #target(family: string): MappedName | null {
    const mapped = this.names === undefined ? null : mappedName(this.names, family);
    if (mapped !== null) return mapped;
    for (const { written, canonical, only } of this.rules) {
      if (!family.startsWith(written)) continue;
      const rest = family.slice(written.length);
      if (only === null || only.has(baseName(rest))) return { name: canonical + rest, labels: {}, key: null };
    }
    return null;
  }

  #rename(page: Exposition): Exposition {
    const families = new Map<string, ScrapedFamily>();
    const byName = new Map<string, ScrapedSample[]>();
    const torn = new Set<string>();
    for (const family of page.families.values()) {
      const target = this.#target(family.name);
      const name = target?.name ?? family.name;
      if (page.excerpt?.torn.has(family.name) === true) torn.add(name);
      if (target !== null) this.#note(name, family.name, target.key);
      let renamed = families.get(name);
      if (renamed === undefined) {
        renamed = { ...family, name, samples: [] };
        families.set(name, renamed);
      }
      for (const sample of family.samples) {
        const moved = target === null ? sample : this.#moved(sample, family.name, target);
        renamed.samples.push(moved);
        const same = byName.get(moved.name);
        if (same) same.push(moved);
        else byName.set(moved.name, [moved]);
      }
    }
    const excerpt = page.excerpt === null ? null : { ...page.excerpt, torn };
    return { ...page, families, byName, excerpt };
  }

  #moved(sample: ScrapedSample, family: string, { name, labels: more, key }: MappedName): ScrapedSample {
    const moved = name + sample.name.slice(family.length);
    this.#note(moved, sample.name, null);
    if (key === null) return { ...sample, name: moved };
    const labels: Record<string, string> = { ...more };
    for (const [label, value] of Object.entries(sample.labels)) labels[this.names?.labels?.[label] ?? label] = value;
    return { ...sample, name: moved, labels };
  }

  /** Records a renamed family or sample. `key`: the entry of the caller's mapping, or null for a prefix rule. */
  #note(name: string, written: string, key: string | null): void {
    this.#written.set(name, (this.#written.get(name) ?? new Set()).add(written));
    if (key === null) return;
    this.mapped.add(name);
    this.#usedNames.add(key);
  }
}
