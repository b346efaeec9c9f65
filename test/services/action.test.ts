/** Tests action.yml: by a schema of ours for composite actions, and by a stand-in for a runner that runs its shell steps. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { parse } from "yaml";
import { eventually } from "../server.ts";
import { type Action, Runner } from "./runner.ts";

// Each test starts a server in a process of its own.
setDefaultTimeout(30_000);

const root = new URL("../../", import.meta.url).pathname;
const text = readFileSync(`${root}action.yml`, "utf8");
const action = parse(text) as Action;
const program = `${root}bin/understudy`;

const words = { type: "string", minLength: 1 };
const object = (properties: object, required: readonly string[]) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
const mapOf = (value: object) => ({
  type: "object",
  propertyNames: { pattern: "^[a-z][a-z-]*$" },
  additionalProperties: value,
});
const texts = { type: "object", additionalProperties: { type: "string" } };
const shared = { id: words, if: words, env: texts };
/** A schema of ours for composite actions, after GitHub's "Metadata syntax for GitHub Actions". */
const SCHEMA = object(
  {
    name: words,
    description: words,
    author: words,
    inputs: mapOf(
      object({ description: words, default: { type: "string" }, required: { type: "boolean" } }, [
        "description",
        "default",
      ]),
    ),
    outputs: mapOf(object({ description: words, value: words }, ["description", "value"])),
    runs: object(
      {
        using: { const: "composite" },
        steps: {
          type: "array",
          minItems: 1,
          items: {
            oneOf: [
              object({ ...shared, shell: { enum: ["bash"] }, run: words }, ["shell", "run"]),
              object({ ...shared, uses: { type: "string", pattern: "^[\\w-]+/[\\w-]+@[0-9a-f]{40}$" }, with: texts }, [
                "uses",
              ]),
            ],
          },
        },
      },
      ["using", "steps"],
    ),
  },
  ["name", "description", "inputs", "outputs", "runs"],
);
const validate = new Ajv({ allErrors: true }).compile(SCHEMA);

/** Returns the expressions that name an input or an output that does not exist. */
function danglingIn({ inputs, runs: { steps } }: Action, yaml: string): string[] {
  const scripts = new Map(steps.map(({ id, run }) => [id, run ?? ""]));
  return [...yaml.matchAll(/(inputs|steps)\.([\w-]+)(?:\.outputs\.([\w-]+))?/g)]
    .filter(([, kind, name, output]) =>
      kind === "inputs" ? inputs[name!] === undefined : !scripts.get(name)?.includes(`${output}=$`),
    )
    .map(([expression]) => expression);
}

test("the file is a composite action whose expressions name inputs and outputs that exist", () => {
  expect({ valid: validate(action), errors: validate.errors }).toEqual({ valid: true, errors: null });
  expect(danglingIn(action, text)).toEqual([]);
  // Text of inputs must reach a script through the environment, or it could contain commands.
  for (const { run } of action.runs.steps) expect(run ?? "").not.toContain("${{");
});

test.each([
  ["shell: bash", "shel: bash"],
  ["using: composite", "using: node20"],
  ["description: Package", "descripton: Package"],
  ["upload-artifact@330a01c490aca151604b8cf639adc76d48f6c5d4", "upload-artifact@v5"],
  ["value: ${{", "valu: ${{"],
])("a spoiled field is found: %s", (good, bad) => {
  expect(text).toContain(good);
  expect(validate(parse(text.replace(good, bad)))).toBe(false);
});

test("an expression with a wrong name is found", () => {
  const wrong = text
    .replace("inputs.args", "inputs.arg")
    .replace("steps.start.outputs.pid", "steps.start.outputs.port");
  expect(danglingIn(parse(wrong), wrong)).toEqual(["steps.start.outputs.port", "inputs.arg"]);
});

// The first start after a change of the sources builds their bundle.
beforeAll(() => void Bun.spawnSync(["node", program, "version"]), 60_000);
const runner = new Runner();
afterAll(() => runner.remove());

async function end(pid: string): Promise<void> {
  process.kill(Number(pid), "SIGTERM");
  await eventually(() => !existsSync(`/proc/${pid}`));
}

test("a program starts, is ready, and stress writes verdicts that are uploaded", async () => {
  const stress = "--client reference --faults B8";
  const args = "--port 0 --timing none\n--served-model-name 'a model' b";
  const { ok, outputs, log, used } = await runner.run(action, { program, args, stress });
  expect({ ok, log }).toEqual({ ok: true, log: expect.stringContaining("1 case: 1 ok") });
  try {
    const { data } = (await (await fetch(`${outputs.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["a model", "b"]);
    expect(readFileSync(outputs.log!, "utf8")).toContain(outputs.url!);
  } finally {
    await end(outputs.pid!);
  }
  expect(used).toEqual([{ name: "understudy-stress", path: "understudy-stress.xml", "if-no-files-found": "warn" }]);
  expect(readFileSync(join(runner.workspace, outputs.junit!), "utf8")).toContain("<testsuite");
});

test("the package is installed with npm, and Triton's flags work", async () => {
  const folder = join(runner.folder, "npm");
  mkdirSync(folder);
  // In place of npm: makes the file that an installation would make, and records its arguments.
  writeFileSync(
    join(folder, "npm"),
    `#!/bin/bash\necho "$@" > "${folder}/words"\nmkdir -p "$6/node_modules/.bin"\nln -s "${program}" "$6/node_modules/.bin/understudy"\n`,
  );
  chmodSync(join(folder, "npm"), 0o755);
  const env = { PATH: `${folder}:${process.env.PATH}` };
  const args = "--role triton --http-port=0 --grpc-port=0 --metrics-port=0";
  const { ok, outputs, log, used } = await runner.run(action, { args }, env);
  expect({ ok, log }).toEqual({ ok: true, log: expect.stringContaining(": ready") });
  await end(outputs.pid!);
  const { version } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { version: string };
  expect(readFileSync(join(folder, "words"), "utf8")).toEndWith(` llm-understudy@${version}\n`);
  expect([used, outputs.junit]).toEqual([[], ""]);
});

test("no arguments mean no arguments", async () => {
  const { ok, outputs, log } = await runner.run(action, { program, args: "" }, { UNDERSTUDY_PORT: "0" });
  expect({ ok, log }).toEqual({ ok: true, log: expect.stringContaining(": ready") });
  await end(outputs.pid!);
});

test("errors name their cause, and red verdicts are uploaded too", async () => {
  const refused = await runner.run(action, { program, args: "--prot 1", stress: "--client reference" });
  expect(refused.ok).toBe(false);
  expect(refused.log).toContain(
    "::error::understudy: the server ended before it was ready: understudy serve: --prot: unknown",
  );
  expect(refused.used).toHaveLength(1);
  const absent = await runner.run(action, { program: "none" });
  expect([absent.ok, absent.log]).toEqual([false, "::error::understudy: ./none is not an executable file\n"]);
  const unclosed = await runner.run(action, { program, args: "--model it's" });
  expect([unclosed.ok, unclosed.log]).toEqual([
    false,
    expect.stringContaining("::error::understudy: args has a quote without an end"),
  ]);
  const unready = await runner.run(action, { program, "wait-seconds": "soon" });
  expect(unready.log).toBe('::error::understudy: wait-seconds must be a whole number, not "soon"\n');
});
