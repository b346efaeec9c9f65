/** Tests that the text of --print-config is read back by --config to the same configuration, without secrets. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { environmentName } from "../../../src/cli/options/environment.ts";
import type { LandingRow } from "../../../src/cli/options/landing.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { tritonServerOptions } from "../../../src/cli/options/triton-server-options.ts";
import { printableConfig } from "../../../src/cli/serve/print-config.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { SAMPLE_TEXTS } from "../options/sample-texts.ts";

type Env = Record<string, string>;
type Table = Readonly<Record<string, LandingRow>>;

const root = new URL("../../../", import.meta.url).pathname;

/** Resolves a command line. `yaml`: content of the file of --config. */
function resolve(argv: readonly string[], env: Env = {}, yaml = "") {
  const resolved = resolveServeConfig(argv, env, () => yaml);
  return "config" in resolved ? resolved : null;
}

function printed(argv: readonly string[], env: Env = {}, yaml = ""): string {
  const resolved = resolve(argv, env, yaml);
  if (resolved === null) throw new Error(`refused: ${argv.join(" ")}`);
  return printableConfig(resolved, env);
}

const keysOf = (text: string) => Bun.YAML.parse(text) as Record<string, unknown>;

/** Options that choose the table or the file, not a value of the server. */
const NOT_DRAWN = ["config", "print-config", "compat", "role"];
const samplesOf = (table: Table) =>
  Object.entries(table)
    .filter(([name]) => !NOT_DRAWN.includes(name))
    .flatMap(([name, row]) =>
      [...SAMPLE_TEXTS, "a b: #c"]
        .filter((text) => row.read([text]) !== undefined)
        .slice(-3)
        .map((text) => ({ name, row, text })),
    );

type Sample = ReturnType<typeof samplesOf>[number];
interface Command {
  readonly argv: readonly string[];
  readonly env: Env;
  readonly yaml: string;
  /** Flags of the secrets among the options. */
  readonly secrets: readonly string[];
}

const isBare = ({ arity }: LandingRow) => arity === "toggle" || arity === "switch";

/** Writes the options as flags, as variables and as keys of a file. Triton does not read the environment. */
function commandOf(role: string, options: readonly { readonly sample: Sample; readonly place: string }[]): Command {
  const argv = [`--role=${role}`, "--config=f.yaml"];
  const [env, lines, secrets]: [Env, string[], string[]] = [{}, [], []];
  for (const { sample, place } of options) {
    const { name, row, text } = sample;
    const no = row.arity === "toggle" && text === "false" ? "no-" : "";
    const flag = isBare(row) && role !== "triton" ? `--${no}${name}` : `--${name}=${text}`;
    if (row.secret) secrets.push(flag);
    if (place === "file") lines.push(`${name}: ${isBare(row) ? text : JSON.stringify(text)}`);
    else if (place === "env" && role !== "triton") env[environmentName(name)] = text;
    else argv.push(flag);
  }
  return { argv, env, yaml: [...new Set(lines)].join("\n"), secrets };
}

test.each([
  ["vllm", serveOptions],
  ["trtllm-serve", serveOptions],
  ["triton", tritonServerOptions],
] as readonly (readonly [string, Table])[])(
  "role %s: drawn options are read back to the same values",
  (role, table) => {
    const option = fc.record({
      sample: fc.constantFrom(...samplesOf(table)),
      place: fc.constantFrom("flag", "env", "file"),
    });
    const options = fc.uniqueArray(option, { maxLength: 5, selector: ({ sample }) => sample.name });
    let accepted = 0;
    fc.assert(
      fc.property(options, (drawn) => {
        const { argv, env, yaml, secrets } = commandOf(role, drawn);
        const first = resolve(argv, env, yaml);
        if (first === null) return;
        accepted++;
        const text = printableConfig(first, env);
        const again = resolve(["--config=f.yaml", ...secrets], {}, text);
        expect({ text, again: again?.config }).toEqual({ text, again: first.config });
        expect(again!.notices).toEqual(first.notices);
        expect(printed(["--print-config", "--config=f.yaml"], {}, text)).toBe(text);
      }),
      { seed: 1, numRuns: 22 },
    );
    expect(accepted).toBeGreaterThan(8);
  },
);

test("defaults are keys where the configuration stays the same, else comments", () => {
  const text = printed([]);
  expect(keysOf(text)).toMatchObject({ role: "vllm", host: "127.0.0.1", port: 8000, "max-num-seqs": 1024 });
  expect(keysOf(text)).not.toContainKeys(["max-batch-size", "seed", "truth-log", "config", "print-config"]);
  expect(text).toContain("\n# max-batch-size: ");
  const named = new Set([...text.matchAll(/^(?:# )?([\w-]+):/gm)].map(([, name]) => name));
  expect(Object.keys(serveOptions).filter((name) => !named.has(name))).toEqual(["compat", "config", "print-config"]);
});

test("secrets are masked in every source, and a masked file starts no server until the secret is set", () => {
  const secret = "s3cret-key";
  for (const [argv, env, yaml] of [
    [["--api-key", secret, "--admin-key", secret], {}, ""],
    [[], { UNDERSTUDY_API_KEY: secret, VLLM_API_KEY: secret, UNDERSTUDY_ADMIN_KEY: secret }, ""],
    [["--config", "f.yaml"], {}, `api-key: [${secret}]\nadmin-key: ${secret}`],
    [
      [
        "--role",
        "triton",
        `--http-restricted-api=health:a=${secret}`,
        `--grpc-restricted-protocol=inference:a=${secret}`,
      ],
      {},
      "",
    ],
  ] as const) {
    const text = printed([...argv], env, yaml);
    expect(text).not.toContain(secret);
    expect(text).toContain("<masked>");
  }
  const text = printed(["--api-key", "a"]);
  expect(resolveServeConfig(["--config", "f.yaml"], {}, () => text)).toEqual({
    error: expect.stringMatching(/^f\.yaml:\d+: api-key: is masked; /),
  });
  expect(resolve(["--config", "f.yaml", "--api-key", "b"], {}, text)?.config.openai.front.apiKeys).toEqual(["b"]);
});

test("a file chooses the role of Triton, flags win over it, and wrong keys name their line", () => {
  const file = "role: triton\nhttp-port: 1234\ngrpc_port: 5\nallow-metrics: false\nload-model: [a, b]\n";
  const explicit = "model-control-mode: explicit\n";
  const resolved = resolve(["--config", "f.yaml", "--http-port=7"], {}, file + explicit)!;
  expect([resolved.config.role, resolved.config.listen.port]).toEqual(["triton", 7]);
  expect(resolved.config.triton?.grpc?.port).toBe(5);
  expect(resolved.config.triton?.repository.loadModels).toEqual(["a", "b"]);
  expect(resolve([], { UNDERSTUDY_CONFIG: "f.yaml" }, file + explicit)?.config.listen.port).toBe(1234);
  const refused = (yaml: string, ...argv: string[]) =>
    resolveServeConfig(["--config", "f.yaml", ...argv], {}, () => yaml);
  expect(refused("role: triton\nhttp-prt: 1\n")).toEqual({
    error: expect.stringMatching(/^f\.yaml:2: http-prt: unknown key; did you mean http-port/),
  });
  expect(refused("role: triton\nhttp-port: x\n")).toEqual({
    error: 'f.yaml:2: http-port: takes a whole number from 0 to 65535, not "x"',
  });
  expect(refused("http-port: 1\n", "--role=vllm")).toEqual({
    error: expect.stringMatching(/^f\.yaml:1: http-port: unknown/),
  });
  expect(refused("role: triton\nallow-client-shm: true\ntriton-version: '2.51'\n")).toEqual({
    error: "f.yaml:2: allow-client-shm: --triton-version 2.51 does not have it",
  });
});

test("a file that can be read only once, such as a pipe, is read once", () => {
  for (const text of ["port: 7\n", "role: triton\nhttp-port: 7\n"]) {
    const left = [text];
    const resolved = resolveServeConfig(["--config", "/dev/stdin"], {}, () => left.pop() ?? "");
    expect("config" in resolved && resolved.config.listen.port).toBe(7);
  }
});

test("what has no key is a comment: options without effect, another stand-in's mode, variables of vLLM", () => {
  const env = { VLLM_SERVER_DEV_MODE: "1" };
  const text = printed(["--compat", "llm-d-inference-sim", "--model", "m", "--time-to-first-token", "100ms"], env);
  expect(text).toContain("# --compat llm-d-inference-sim also");
  expect(text).toContain("# VLLM_SERVER_DEV_MODE is set");
  expect(keysOf(text)).toMatchObject({ model: "m" });
  expect(printed(["--enforce-eager"])).toContain("# Accepted without effect: --enforce-eager");
});

test("the command prints the text and exits with 0, also where the port is in use", async () => {
  using taken = Bun.serve({ port: 0, fetch: () => new Response() });
  const argv = ["serve", "--print-config", "--port", String(taken.port)];
  const child = Bun.spawn([process.execPath, `${root}src/main.ts`, ...argv], { stdout: "pipe", stderr: "pipe" });
  const [text, complaint] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect([await child.exited, complaint]).toEqual([0, ""]);
  expect(keysOf(text).port).toBe(taken.port);
});
