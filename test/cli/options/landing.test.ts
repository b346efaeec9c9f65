/** Tests that the value of an option is written to the member of the configuration that its row names. */
import { describe, expect, test } from "bun:test";
import { isDeepStrictEqual } from "node:util";
import { type LandingRow, landed, serveGroup } from "../../../src/cli/options/landing.ts";
import { integer, toggle } from "../../../src/cli/options/option.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { tritonServerOptions } from "../../../src/cli/options/triton-server-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { SAMPLE_TEXTS } from "./sample-texts.ts";

type Case = readonly [name: string, row: LandingRow, path: string];
const casesOf = (table: Readonly<Record<string, LandingRow>>): Case[] =>
  Object.entries(table).flatMap(([name, row]) => (row.lands === undefined ? [] : [[name, row, row.lands] as const]));
const serveCases = casesOf(serveOptions);
const tritonCases = casesOf(tritonServerOptions).filter(([, , path]) => path.startsWith("triton."));

/** Returns the example texts that the option accepts, each with the expected value of its member. */
function samplesOf({ read, as = (value: unknown) => value }: LandingRow): { text: string; member: unknown }[] {
  const convert = as as (value: unknown) => unknown;
  const valid = SAMPLE_TEXTS.filter((text) => read([text]) !== undefined);
  return valid.map((text) => ({ text, member: convert(read([text])) })).filter(({ member }) => member !== undefined);
}

const flagOf = (name: string, { arity }: LandingRow, text: string) =>
  arity === "toggle" || arity === "switch"
    ? [`--${name}`]
    : arity === "list"
      ? [`--${name}`, text]
      : [`--${name}=${text}`];

/** Flags to add, because some options need others. */
const ADDITIONAL = [
  [],
  ["--tool-call-parser=hermes"],
  ["--ssl-certfile=c", "--ssl-ca-certs=c"],
  ["--truth-log=t"],
  ["--dataset=d"],
  ["--retry-after=1"],
  ["--metrics-port=1"],
  ["--enable-lora"],
  ["--capacity-scheduler-policy=STATIC_BATCH"],
  ["--role=trtllm-serve"],
  ["--data-parallel-size=2"],
  ['--kv-events-config={"enable_kv_cache_events":true}'],
  ["--role=vllm-engine"],
  ["--openai", "--enable-kserve-frontends"],
  ["--grpc-use-ssl=1", "--grpc-server-cert=c", "--grpc-server-key=k"],
  ["--grpc-use-ssl-mutual=1", "--grpc-server-cert=c", "--grpc-server-key=k", "--grpc-root-cert=r"],
  ["--model-control-mode=explicit"],
] as const;

/** Returns the first configuration that satisfies `isWanted`, with these flags alone or with additional ones. */
function configWith(flags: readonly string[], isWanted: (config: object) => boolean = () => true): object | undefined {
  for (const additional of ADDITIONAL) {
    const resolved = resolveServeConfig([...additional, ...flags], {}, () => "");
    if ("config" in resolved && isWanted(resolved.config)) return resolved.config;
  }
  return undefined;
}

const memberAt = (config: object, path: string): unknown =>
  path.split(".").reduce<unknown>((member, name) => (member as Record<string, unknown> | undefined)?.[name], config);

describe.each([
  ["serve", serveCases, []],
  ["serve --role triton", tritonCases, ["--role=triton"]],
] as const)("%s", (_, cases, before) => {
  test.each(cases)("--%s sets the member that its row names", (name, row, path) => {
    const sample = samplesOf(row).find(({ text, member }) => {
      const flags = [...before, ...(before.length > 0 ? [`--${name}=${text}`] : flagOf(name, row, text))];
      return configWith(flags, (config) => isDeepStrictEqual(memberAt(config, path), member)) !== undefined;
    });
    expect(sample).toBeDefined();
  });
});

test.each([
  ["serve", serveOptions as Readonly<Record<string, LandingRow>>],
  ["serve --role triton", tritonServerOptions as Readonly<Record<string, LandingRow>>],
])("every row of %s sets a member, is read by a function, or gives a reason for neither", (_, table) => {
  for (const [name, { lands, feeds, outside }] of Object.entries(table)) {
    const fates = [lands, feeds, outside].filter((fate) => fate !== undefined && fate !== "");
    expect({ name, fates: fates.length }).toEqual({ name, fates: 1 });
  }
});

test("the help states the initial value of numbers and switches", () => {
  const stated = [...serveCases, ...tritonCases].flatMap(([name, { read, as, initial, default: text }]) => {
    const value = read([text]);
    const isPlain = typeof value === "number" || typeof value === "boolean";
    const member = as === undefined || !isPlain ? value : as(value as never);
    return isPlain && initial !== undefined && initial !== null ? [{ name, initial, member }] : [];
  });
  expect(stated.length).toBeGreaterThan(50);
  for (const { name, initial, member } of stated) expect({ name, member }).toEqual({ name, member: initial });
});

test("two options for the same member are refused together, or the later row has priority", () => {
  const pairs = serveCases.flatMap(([name, row, path], at) =>
    serveCases
      .slice(at + 1)
      .flatMap(([other, otherRow, there]) => (there === path ? [[name, row, other, otherRow] as const] : [])),
  );
  const together = pairs.filter(([name, row, other, otherRow]) => {
    const flags = [
      ...flagOf(name, row, samplesOf(row)[0]!.text),
      ...flagOf(other, otherRow, samplesOf(otherRow)[0]!.text),
    ];
    return configWith(flags) !== undefined;
  });
  expect(together.map(([name, , other]) => [name, other])).toEqual([
    ["max-model-len", "max-seq-len"],
    ["block-size", "tokens-per-block"],
  ]);
  expect(landed(serveOptions, { "tokens-per-block": 8, "block-size": 4 }).engine.blockSize).toBe(8);
  expect(landed(serveOptions, { "max-seq-len": 8, "max-model-len": 4 }).engine.maxModelLen).toBe(8);
});

test("the value of an earlier row is kept if a later row has its initial value", () => {
  const rows = {
    ...serveGroup("", { first: { lands: "workers", ...integer(0), default: "", about: "" } }),
    ...serveGroup("", { second: { lands: "workers", ...integer(0), initial: 1, default: "1", about: "" } }),
  };
  expect(landed(rows, {})).toEqual({ workers: 1 });
  expect(landed(rows, { first: 3 })).toEqual({ workers: 3 });
  expect(landed(rows, { first: 3, second: 2 })).toEqual({ workers: 2 });
});

// `npx bun run types` checks these rows. It fails unless the line after each directive has an error.
export const misplaced = [
  () =>
    serveGroup("", {
      // @ts-expect-error: the configuration has no engine.maxNumSeq
      typo: { lands: "engine.maxNumSeq", ...integer(1), default: "", about: "" },
    }),
  () =>
    serveGroup("", {
      // @ts-expect-error: engine.maxNumSeqs does not take a boolean
      type: { lands: "engine.maxNumSeqs", ...toggle, default: "", about: "" },
    }),
  () =>
    serveGroup("", {
      // @ts-expect-error: the conversion makes a text
      converted: { lands: "engine.maxNumSeqs", as: (n: number) => String(n), ...integer(1), default: "", about: "" },
    }),
  () =>
    serveGroup("", {
      // @ts-expect-error: engine.maxNumSeqs cannot be null
      initial: { lands: "engine.maxNumSeqs", initial: null, ...integer(1), default: "", about: "" },
    }),
  () =>
    serveGroup("", {
      // @ts-expect-error: no lands, feeds or outside
      nowhere: { ...integer(1), default: "", about: "" },
    }),
  () =>
    serveGroup("", {
      // @ts-expect-error: the configuration has no metrics.fake
      fed: { feeds: "metrics.fake", ...integer(1), default: "", about: "" },
    }),
];
