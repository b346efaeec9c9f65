/** Generates text of the docs from tables of the code, for `scripts/docs.ts` and its test. */
import { existsSync, readFileSync } from "node:fs";
import { lastRun, sections } from "../../bench/certify/page.ts";
import { pooledMarkdown, ratiosMarkdown } from "../../bench/lib/measured.ts";
import { COMMANDS } from "../../src/cli/manual/commands.ts";
import { manPage } from "../../src/cli/manual/man.ts";
import { optionsMarkdown } from "../../src/cli/options/help.ts";
import type { OptionRow } from "../../src/cli/options/option.ts";
import { tritonServerOptions } from "../../src/cli/options/triton-server-options.ts";
import { faultsMarkdown } from "../../src/faults/markdown.ts";
import { benchesTable } from "./benches.ts";
import { bugsTable } from "./bugs.ts";
import { clientsTable } from "./clients.ts";
import { differencesMarkdown } from "./differences.ts";
import { exampleConfig } from "./example-config.ts";
import { exitCodesTable } from "./exit-codes.ts";
import { frontFaultsMarkdown } from "./front-end-faults.ts";
import { kubernetesTables } from "./kubernetes.ts";
import { kvTables } from "./kv-laws.ts";
import { lawsMarkdown } from "./laws.ts";
import { limitsMarkdown } from "./limits.ts";
import { metricsTables } from "./metrics.ts";
import { migratingTable } from "./migrating.ts";
import { pageIndex } from "./page-index.ts";
import { parametersMarkdown } from "./parameters.ts";
import { truthTables } from "./truth-fields.ts";
import { knownVerdicts, verdictsMarkdown } from "./verdicts.ts";

/** Generated parts of a page. A key names the two markers in the page between which the part stands. */
type Texts = Readonly<Record<string, string>>;

/** Files that are generated as a whole: the path of each file, and the function that returns its content. */
export const FILES: Readonly<Record<string, () => string>> = {
  "docs/understudy.1": manPage,
  "deploy/systemd/understudy.yaml": exampleConfig,
};

/** The page whose generated parts take some seconds, because benchmarks are replayed for them. */
export const SLOW_PAGE = "docs/explanation/timing.md";

/** Pages of which parts are generated: the path of each page, and the function that returns its parts. */
export const PAGES: Readonly<Record<string, () => Texts>> = {
  "docs/README.md": () => ({ pages: pageIndex() }),
  "docs/reference/options.md": () => ({ options: optionsMarkdown() }),
  "docs/reference/triton-options.md": () => ({ options: optionsMarkdown(tritonServerOptions) }),
  "docs/reference/command-options.md": commandOptions,
  "docs/reference/exit-codes.md": () => ({ "exit-codes": exitCodesTable() }),
  "docs/reference/parameters.md": () => ({ parameters: parametersMarkdown() }),
  "docs/reference/metrics.md": metricsTables,
  "docs/reference/laws.md": () => ({ laws: lawsMarkdown() }),
  "docs/reference/faults.md": () => ({ faults: faultsMarkdown() }),
  "docs/reference/front-end-faults.md": () => ({ "front-faults": frontFaultsMarkdown() }),
  "docs/reference/limits.md": () => ({ limits: limitsMarkdown() }),
  "docs/reference/differences.md": () => ({ differences: differencesMarkdown() }),
  "docs/reference/truth-log.md": truthTables,
  "docs/reference/bug-modes.md": () => ({ bugs: bugsTable() }),
  "docs/reference/clients.md": () => ({ clients: clientsTable() }),
  "docs/reference/client-verdicts.md": () => ({ verdicts: verdictsMarkdown(knownVerdicts()) }),
  "docs/how-to/kubernetes.md": kubernetesTables,
  "docs/how-to/kv-check.md": kvTables,
  "docs/how-to/ci.md": () => ({
    node: example("ts", "examples/testcontainers/node.ts"),
    python: example("python", "examples/testcontainers/test_server.py"),
    java: example("java", "examples/testcontainers/ServerTest.java"),
  }),
  "docs/how-to/migrating.md": () => ({ keys: migratingTable() }),
  "docs/explanation/measuring.md": () => sections(lastRun()),
  "docs/internals/benches.md": () => ({ benches: benchesTable() }),
  [SLOW_PAGE]: () => ({ measured: ratiosMarkdown(), pools: pooledMarkdown() }),
};

/** Returns a table of options for each command that has some, except `serve`, whose options have pages of their own. */
function commandOptions(): Texts {
  const others = COMMANDS.filter(({ name, options }) => !/^serve\b/.test(name) && Object.keys(options).length > 0);
  return Object.fromEntries(others.map(({ name, options }) => [name, withoutEmptyGroup(options)]));
}

/** Removes the empty group heading from a table of options whose only group has no name. */
const withoutEmptyGroup = (table: Readonly<Record<string, OptionRow>>) =>
  optionsMarkdown(table).replace(/^\*\*\*\*\n\n/, "");

const root = new URL("../../", import.meta.url);

/**
 * Returns the text of an example in the repository as a block of code in Markdown. `language`: its name for the highlighter.
 */
const example = (language: string, path: string): string =>
  `\n\`\`\`${language}\n${readFileSync(new URL(path, root), "utf8")}\`\`\`\n`;

/**
 * Returns the current text of a page, and the text with its generated parts brought up to date. Throws if the page lacks
 * markers.
 */
export function pageTexts(path: string): { readonly old: string; readonly now: string } {
  const place = new URL(path, root);
  const whole = FILES[path];
  if (whole !== undefined) return { old: existsSync(place) ? readFileSync(place, "utf8") : "", now: whole() };
  const old = readFileSync(place, "utf8");
  let now = old;
  for (const [name, text] of Object.entries(PAGES[path]!())) {
    const between = new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- /${name} -->)`);
    if (!between.test(now)) throw new Error(`${path} lacks the markers <!-- ${name} --> and <!-- /${name} -->`);
    now = now.replace(between, (_, begin: string, end: string) => `${begin}${text}\n${end}`);
  }
  return { old, now };
}
