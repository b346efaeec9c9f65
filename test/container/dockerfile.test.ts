/** Checks what the Dockerfile states: the ports of each role, the command, the user, the labels, and the files that it copies. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { version } from "../../package.json";
import { TARGETS } from "../../scripts/bun-runtimes.ts";
import { ROLE_NAMES } from "../../src/app/config/roles.ts";
import type { ServeConfig } from "../../src/app/config/serve-config.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { argument, configOf, dockerfile, instructionsOf, stages } from "./dockerfile.ts";

const root = new URL("../../", import.meta.url).pathname;
const config = configOf({ COMMIT: "0123abc" });

function served(words: readonly string[]): ServeConfig {
  const resolved = resolveServeConfig(words, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved.config;
}

test("continuation lines are joined, and comments between them are left out", () => {
  expect(instructionsOf("# a\nRUN one \\\n# b\n    two\n\nuser 1\n")).toEqual([
    { name: "RUN", text: "one two" },
    { name: "USER", text: "1" },
  ]);
});

test("without arguments, the image serves on all addresses", () => {
  expect(config.entrypoint).toEqual(["understudy"]);
  const [command, ...words] = config.command;
  expect(command).toBe("serve");
  expect(served(words).listen).toMatchObject({ host: "0.0.0.0", port: 8000 });
});

test("the ports are the default ports of all roles", () => {
  const ports = ROLE_NAMES.flatMap((role) => {
    const { listen, triton, metrics } = served(["--role", role]);
    if (role !== "triton") return [listen.port];
    const openai = served(["--role", role, "--openai"]).triton?.openai;
    return [triton?.http?.port, triton?.grpc?.port, metrics.triton.listen?.port, openai?.port];
  });
  expect(config.ports).toEqual([...new Set(ports)].sort() as number[]);
});

test("the user is a number other than root's, and every command is run without a shell", () => {
  expect(config.user).toBe("65532:65532");
  expect(config.health.command).toEqual(["understudy", "health"]);
  const last = stages().at(-1)!;
  expect(last.find(({ name }) => name === "FROM")?.text).toBe("scratch");
  expect(last.filter(({ name }) => name === "RUN" || name === "SHELL" || name === "ADD")).toEqual([]);
});

test("the labels have the version of the package and the commit of the build", () => {
  expect(argument("VERSION")).toBe(version);
  expect(config.labels).toMatchObject({
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.revision": "0123abc",
    "org.opencontainers.image.licenses": "Apache-2.0",
  });
});

test("the build gets each single file of Linux, with the licences, and nothing else", () => {
  const steps = dockerfile.find(({ name }) => name === "RUN")!.text;
  const targets = Object.keys(TARGETS).filter((name) => TARGETS[name]!.platform === "linux");
  expect([...steps.matchAll(/target=(linux-\w+)/g)].map(([, name]) => name)).toEqual(targets);
  const lines = readFileSync(`${root}.dockerignore`, "utf8").split("\n").filter(Boolean);
  const rules = lines.filter((line) => !line.startsWith("#"));
  expect(rules).toEqual(["*", "!build/bin/understudy-linux-*", "!build/bin/NOTICE"]);
});
