/** Tests that every option refuses invalid values with an error of one line, and tests the options of LoRA adapters. */
import { expect, test } from "bun:test";
import type { Option } from "../../../src/cli/options/option.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";

const resolve = (...argv: string[]) =>
  resolveServeConfig(argv, {}, () => {
    throw new Error("no file");
  });
const refused = (...argv: string[]): string => {
  const made = resolve(...argv);
  return "error" in made ? made.error : "";
};
const accepted = (...argv: string[]) => {
  const made = resolve(...argv);
  if (!("config" in made)) throw new Error(JSON.stringify(made));
  return made.config;
};

/** Returns a text that the option refuses. Options for names and paths accept any text. */
const wrongOf = ({ read }: Option) => ["-", "nonsense value"].find((text) => read([text]) === undefined);
const picky = Object.entries<Option>(serveOptions)
  // The role is read before this table, because roles have different tables (test/cli/serve/resolve.test.ts).
  .filter(([name, option]) => name !== "role" && (option.arity === "one" || option.arity === "list"))
  .flatMap(([name, option]) => {
    const wrong = wrongOf(option);
    return wrong === undefined ? [] : [[`--${name}`, wrong, option.accepts] as const];
  });

test("more than 20 options refuse some text", () => {
  expect(picky.length).toBeGreaterThan(20);
});

test.each(picky)("%s refuses %j", (flag, wrong, accepts) => {
  expect(refused(`${flag}=${wrong}`)).toBe(`${flag}: takes ${accepts}, not ${JSON.stringify(wrong)}`);
});

test("adapters: both forms, empty ones passed over, the limit only where LoRA is on", () => {
  const json = '{"name": "b", "path": "p/b", "base_model_name": "base"}';
  const config = accepted("--enable-lora", "--lora-modules", "a=p/a=1", json, "");
  expect(config.models.loraModules).toEqual([
    { name: "a", path: "p/a=1", baseModelName: null },
    { name: "b", path: "p/b", baseModelName: "base" },
  ]);
  expect(config.engine.maxLoras).toBe(1);
  expect(accepted("--enable-lora", "--max-loras", "4").engine.maxLoras).toBe(4);
  expect([accepted().engine.maxLoras, accepted("--max-loras", "4").engine.maxLoras]).toEqual([0, 0]);
});

test.each([
  [["--lora-modules", "a=p"], "--lora-modules: adapters need --enable-lora"],
  [["--enable-lora", "--lora-modules", "a=p", "a=q"], '--lora-modules: "a" is named twice'],
  [["m", "--enable-lora", "--lora-modules", "m=p"], '--lora-modules: "m" is the name of the model'],
  [["--enable-lora", "--lora-modules", "a"], '--lora-modules: takes one or more of name=path or {"name"'],
  [["--enable-lora", "--lora-modules", "=p"], 'not "=p"'],
  [["--enable-lora", "--lora-modules", '{"name": "a"}'], "--lora-modules: takes"],
  [["--enable-lora", "--lora-modules", '{"name": "a", "path": "p", "rank": 8}'], "--lora-modules: takes"],
  [["--enable-lora", "--max-loras", "0"], '--max-loras: takes a whole number from 1 to 4095, not "0"'],
])("options of adapters are refused: %j", (argv, why) => {
  expect(refused(...argv)).toContain(why);
  expect(refused(...argv)).not.toContain("\n");
});
