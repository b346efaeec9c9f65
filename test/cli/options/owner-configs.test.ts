/** Values of options arrive at the configuration of their owner. */
import { expect, test } from "bun:test";
import type { OptionRow } from "../../../src/cli/options/option.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";

/** One of them is a value of each option that lands somewhere. */
const VALUES = [
  "0.5",
  "7",
  "true",
  "all",
  "full",
  "reasoning",
  "scheduled",
  "x",
  "base=10ms",
  "integers=1:5",
  '{"top_k":5}',
];
const landing = Object.entries<OptionRow>(serveOptions).flatMap(([name, row]) =>
  row.lands ? [{ name, row, lands: row.lands }] : [],
);

test.each(landing)("--$name lands where its row says", ({ name, row, lands: [owner, member] }) => {
  const text = VALUES.find((one) => row.read([one]) !== undefined)!;
  expect(text).toBeDefined();
  const flag = row.arity === "toggle" || row.arity === "switch" ? `--${name}` : `--${name}=${text}`;
  // Some options need another one beside them.
  const resolved = resolveServeConfig([flag, "--tool-call-parser=hermes"], {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  expect(resolved.config).toHaveProperty(`${owner}.${member}`, row.read([text]));
});

test("no two options land at the same member", () => {
  const places = landing.map(({ lands }) => lands.join("."));
  expect(places.length).toBeGreaterThan(20);
  expect(new Set(places).size).toBe(places.length);
});
