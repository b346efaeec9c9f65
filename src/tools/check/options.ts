/** Validates options and scrapes. Refuses unknown fields, because a misspelt option would silently weaken a test. */
import type { Parameters, Truth } from "./pages/case.ts";
import type { Law } from "./pages/law.ts";
import { readNameMap } from "./pages/name-map.ts";
import type { CheckOptions, Scrape } from "./verdicts.ts";

type Keys<T> = Readonly<Record<keyof T, true>>;

const OPTIONS: Keys<CheckOptions> = {
  ...{ parameters: true, clean: true, only: true, laws: true, engineVersions: true, names: true, restGauges: true },
};
const PARAMETERS: Keys<Parameters> = {
  ...{ maxNumSeqs: true, maxModelLen: true, blockSize: true, numGpuBlocks: true, enablePrefixCaching: true },
  ...{ numSpeculativeTokens: true, maxLoras: true, apiServerCount: true, minStepMs: true, decoupled: true },
  ...{ ensembles: true, batchOfOne: true, oneInstant: true, noEvict: true },
};
const SCRAPE: Keys<Scrape> = {
  ...{ text: true, atS: true, source: true, rest: true, truth: true, tritonStats: true },
  ...{ maxBytes: true, contentType: true, excerpt: true },
};
const TRUTH: Keys<Truth> = {
  ...{ requests: true, finished: true, clientAborts: true, refused: true },
  ...{ promptTokens: true, cachedTokens: true, generationTokens: true, preemptions: true },
};

/** Throws a TypeError that names the wrong option and the accepted ones. */
export function checkedOptions(options: CheckOptions, laws: readonly Law[]): void {
  checkKeys("options", options, OPTIONS);
  checkKeys("parameters", options.parameters ?? {}, PARAMETERS);
  const { names, restGauges = [] } = options;
  const why = names === undefined ? undefined : readNameMap(names);
  if (typeof why === "string") throw new TypeError(`names: ${why}`);
  if (!Array.isArray(restGauges) || restGauges.some((name) => typeof name !== "string"))
    throw new TypeError(`restGauges: must be a list of names, such as ["my_running"], not ${jsonText(restGauges)}`);
  const ids = laws.map(({ id }) => id);
  const twice = ids.find((id, at) => ids.indexOf(id) < at);
  if (twice !== undefined) throw new TypeError(`laws: id ${twice} occurs twice; ids must be unique`);
  const { only = ids } = options;
  if (!Array.isArray(only)) throw new TypeError(`only: must be a list of ids, such as ["V05"], not ${jsonText(only)}`);
  const unknown = only.find((id) => !ids.includes(id));
  if (unknown !== undefined)
    throw new TypeError(`only: unknown law ${jsonText(unknown)}; accepted are ${ids.join(", ")}`);
  if (only.length === 0) throw new TypeError("only: an empty list judges no law; leave it out to judge all");
}

/** Returns the scrapes as objects. Throws a TypeError that names the wrong scrape and the accepted fields. */
export function checkedScrapes(scrapes: readonly (Scrape | string | Uint8Array)[]): Scrape[] {
  if (!Array.isArray(scrapes)) throw new TypeError(`scrapes: must be a list, such as [text], not ${jsonText(scrapes)}`);
  return scrapes.map((scrape, at) => {
    if (typeof scrape === "string" || isBytes(scrape)) return { text: scrape as string | Uint8Array };
    checkKeys(`scrapes[${at}]`, scrape, SCRAPE);
    if (typeof scrape.text !== "string" && !isBytes(scrape.text))
      throw new TypeError(`scrapes[${at}].text: must be a page as text or bytes, not ${jsonText(scrape.text)}`);
    checkKeys(`scrapes[${at}].truth`, scrape.truth ?? {}, TRUTH);
    return scrape;
  });
}

/** True for a Uint8Array, also for one from another realm, such as an iframe or a vm context. */
const isBytes = (value: unknown): boolean => Object.prototype.toString.call(value) === "[object Uint8Array]";

function checkKeys(subject: string, value: unknown, known: Readonly<Record<string, true>>): void {
  const accepted = Object.keys(known).join(", ");
  if (typeof value !== "object" || value === null)
    throw new TypeError(`${subject}: must be an object with ${accepted}, not ${jsonText(value)}`);
  const wrong = Object.keys(value).find((key) => !Object.hasOwn(known, key));
  if (wrong !== undefined) throw new TypeError(`${subject}: unknown field ${wrong}; accepted are ${accepted}`);
}

const jsonText = (value: unknown): string => (JSON.stringify(value) ?? String(value)).slice(0, 80);
