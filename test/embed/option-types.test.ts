/** Tests that types, hover texts and checks of the package's options agree. All are generated from the table of options. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import type { HumanNumber } from "../../build/option-types/engine-option-types.ts";
import { files } from "../../scripts/option-types.ts";
import type { Option } from "../../src/cli/options/option.ts";
import { type OptionName, type ServeValues, serveOptions } from "../../src/cli/options/serve-options.ts";
import { camelCase, NOT_HERE } from "../../src/embed/options.ts";
import type { ServerOptions } from "../../src/embed/server-face.ts";
import { serverSetup } from "../../src/embed/server-options.ts";

type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;
/** Options that are written as texts, although their values are objects. */
type Texts =
  | "kv-transfer-time"
  | "tool-arguments"
  | "fake-metrics"
  | "kv-event-faults"
  | "ssl-cert-reqs"
  | "custom-histogram-buckets"
  | "override-generation-config"
  | "metrics-profile"
  | "front-faults";
type LibraryOption = Exclude<OptionName, keyof typeof NOT_HERE | Texts>;
/** Names of the options whose values the type does not accept. */
type OptionsWithWrongType = {
  [Name in LibraryOption]: ServeValues[Name] extends ServerOptions[Camel<Name> & keyof ServerOptions] ? never : Name;
}[LibraryOption];
type SameType<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

test("the types accept the values that the table reads (a check of the compiler)", () => {
  const none: SameType<OptionsWithWrongType, never> = true;
  const exact: [
    SameType<ServerOptions["allowedOrigins"], readonly string[] | undefined>,
    SameType<ServerOptions["maxModelLen"], HumanNumber | "auto" | undefined>,
    SameType<ServerOptions["kvTransferTime"], string | undefined>,
    SameType<ServerOptions["overloadStatus"], 503 | "503" | 429 | "429" | undefined>,
  ] = [true, true, true, true];
  expect([none, ...exact]).toEqual([true, true, true, true, true]);
});

const optionTypes = Object.values(files).join("");

test("the build writes the types, and no file of src/embed hides them from the compiler", async () => {
  const root = `${import.meta.dir}/../..`;
  const names = Object.keys(files).map((name) => `${name}.ts`);
  expect(readdirSync(`${root}/build/option-types`).sort()).toEqual(names.sort());
  expect(readdirSync(`${root}/src/embed`).filter((name) => names.includes(name))).toEqual([]);
  for (const [name, text] of Object.entries(files))
    expect(await Bun.file(`${root}/build/option-types/${name}.ts`).text()).toBe(text);
});

test("every option has a hover text with its default", () => {
  const lines = optionTypes.split("\n");
  const bare = lines.filter(
    (line, at) =>
      /^ {2}readonly [a-z]\w*\?: .* \| undefined;$/.test(line) && !/^ {2}\/\*\* \S.* \*\/$/.test(lines[at - 1]!),
  );
  expect(bare).toEqual([]);
  for (const name of Object.keys(serveOptions).filter((option) => !Object.hasOwn(NOT_HERE, option)))
    expect(optionTypes).toMatch(new RegExp(`\\*\\* .* Default: .*\\n {2}readonly ${camelCase(name)}\\?: `));
});

/** The options whose type is a union of literals, and these literals. */
const literals = [...optionTypes.matchAll(/readonly (\w+)\?: (\(?(?:(?:"[\w.-]+"|\d+)(?: \| )?)+) \| undefined;/g)].map(
  ([, key, union]) => [key!, union!.split(" | ").map((literal) => JSON.parse(literal))] as const,
);

/** Options that another option needs. */
const NEEDED: Readonly<Record<string, object>> = {
  sslCertReqs: { sslCertfile: "c.pem", sslKeyfile: "k.pem", sslCaCerts: "a.pem" },
};

test.each(literals)("each literal in the type of %s is accepted", (key, values) => {
  expect(literals.length).toBeGreaterThan(10);
  const name = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const option: Option = serveOptions[name as OptionName];
  for (const value of values) expect(option.read([String(value)])).toBeDefined();
});

test.each<ServerOptions>([
  { maxModelLen: "auto" },
  { maxModelLen: "8k" },
  { overloadStatus: 429, limitConcurrency: 1 },
  { allowedOrigins: ["http://a"] },
  { overrideGenerationConfig: { temperature: 0.2, max_new_tokens: 9 } },
  { kvTransferTime: "base=10ms" },
  { toolArguments: "integers=0:9" },
  { customHistogramBuckets: { request_latency: [0.1, 1] } },
  { fakeMetrics: { "running-requests": 1 } },
  { loraModules: [{ name: "a", path: "b" }, "c=d"], enableLora: true },
  { sslCertReqs: 2, ...NEEDED.sslCertReqs },
])("the type and the server accept %j", (options) => {
  expect(serverSetup(options).config).toBeDefined();
});
