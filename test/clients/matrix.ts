/** Lists the real clients that are tested and the checks of each: the rows of `matrix.test.ts` and of docs/reference/clients.md. */
import { readFileSync } from "node:fs";
import type { ToolchainName } from "./toolchains.ts";

const here = new URL(".", import.meta.url);
const root = new URL("../../", here);
const packages = JSON.parse(readFileSync(new URL("package.json", root), "utf8")).devDependencies as Record<
  string,
  string
>;

export interface Client {
  readonly name: string;
  /** Pinned packages as `package version`. */
  readonly packages: readonly string[];
  /**
   * The command, run from the repository's root. `URL` stands for the server's address, `TOKENIZER` and `OUT` for folders.
   */
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Names of the checks that a run reports, in this order. */
  readonly checks: readonly string[];
  /** True if the client needs some seconds of CPU to start. The sample runs one such client. */
  readonly isSlow?: true;
  /** True if each check is a separate run, whose name follows the URL. The sample runs one of them. */
  readonly isRunByCheck?: true;
  /**
   * The toolchain that builds and runs the client, only in the whole. The first word of `command` and `build` is its program.
   */
  readonly toolchain?: ToolchainName;
  /** True if the client uses the trtllm-serve server. */
  readonly isForTrtllm?: true;
  /** Build command, run in a folder before `command`. The first build also compiles the language's library. */
  readonly build?: { readonly words: readonly string[]; readonly folder: string };
}

/** A client that does not run, with the reason. */
export interface MissingClient {
  readonly name: string;
  readonly packages: readonly string[];
  readonly why: string;
}

const pinned = (file: string): string[] =>
  readFileSync(new URL(`requirements/${file}.txt`, here), "utf8")
    .split("\n")
    .filter((line) => /^[a-z]/i.test(line))
    .map((line) => line.replace("==", " "));

function node(name: string, file: string, names: readonly string[], checks: readonly string[]): Client {
  const versions = names.map((dependency) => `${dependency} ${packages[dependency]}`);
  return { name, packages: versions, command: ["node", `test/clients/node/${file}.mjs`, "URL"], checks };
}

/** Environment of clients that load tokenizers from folders and must not use the network. */
const OFFLINE = { HF_HUB_OFFLINE: "1", TRANSFORMERS_OFFLINE: "1" };

/** Describes a Python client. `venv`: the folder at the root with its virtual environment. */
function python(name: string, file: string, venv: string, of: readonly string[], checks: readonly string[]): Client {
  const command = [`${venv}/bin/python`, `test/clients/python/${file}.py`, "URL"];
  return { name, packages: of, command, checks, env: { LITELLM_LOCAL_MODEL_COST_MAP: "True" } };
}

const [openai, anthropic] = pinned("sdks") as [string, string];
const [litellm, instructor] = pinned("wrappers") as [string, string];
const agents = pinned("agents");
const [vllm] = pinned("vllm") as [string];
const [aiperf] = pinned("aiperf") as [string];
const [guidellm] = pinned("guidellm-slim") as [string];
const TRTLLM = ["results", "usage", "errors", "tools", "structured output"];
const BASE = ["results", "usage", "errors", "aborts"];

export const clients: readonly Client[] = [
  node(
    "openai, Node",
    "openai",
    ["openai"],
    [...[...BASE, "retries", "tools", "structured output", "streaming helpers", "responses"]],
  ),
  python(
    "openai, Python",
    "openai_sync",
    ".venv",
    [openai],
    [...[...BASE, "retries", "tools", "structured output", "streaming helpers", "responses"]],
  ),
  python("openai, Python asynchronous", "openai_async", ".venv", [openai], [...BASE, "retries", "responses"]),
  node(
    "ai with @ai-sdk/openai",
    "ai-sdk",
    ["ai", "@ai-sdk/openai"],
    [...[...BASE, "retries", "tools", "structured output", "responses"]],
  ),
  node("@langchain/openai", "langchain", ["@langchain/openai"], [...BASE, "retries", "tools", "structured output"]),
  node(
    "@anthropic-ai/sdk on /v1/messages",
    "anthropic",
    ["@anthropic-ai/sdk"],
    [...[...BASE, "retries", "tools", "streaming helpers"]],
  ),
  python(
    "anthropic, Python, on /v1/messages",
    "anthropic_sdk",
    ".venv",
    [anthropic],
    [...[...BASE, "retries", "tools", "streaming helpers"]],
  ),
  {
    ...python("litellm", "litellm_sdk", ".venv-wrappers", [litellm], [...BASE, "tools", "structured output"]),
    isSlow: true,
  },
  {
    ...python("instructor", "instructor_sdk", ".venv-wrappers", [instructor], ["structured output", "tools"]),
    isSlow: true,
  },
  {
    ...python("strands-agents", "strands_agent", ".venv-agents", agents, ["results", "usage", "errors", "tools"]),
    isSlow: true,
  },
  {
    ...node("openai, Node, on trtllm-serve", "openai-trtllm", ["openai"], TRTLLM),
    isForTrtllm: true,
  },
  {
    ...python("openai, Python, on trtllm-serve", "openai_trtllm", ".venv", [openai], TRTLLM),
    isForTrtllm: true,
  },
  {
    name: "curl",
    packages: ["curl of the system"],
    command: ["bash", "test/clients/curl.sh", "URL"],
    checks: ["results", "stream", "errors"],
  },
  {
    ...python("vllm bench serve", "vllm_bench", ".venv-vllm", [vllm], ["chat", "completions"]),
    env: OFFLINE,
    isSlow: true,
    isRunByCheck: true,
  },
  {
    ...python("guidellm", "guidellm_run", ".venv-guidellm-slim", [guidellm], ["chat", "completions"]),
    env: OFFLINE,
    isSlow: true,
    isRunByCheck: true,
  },
  {
    ...python("aiperf", "aiperf_run", ".venv-aiperf", [aiperf], ["chat", "completions"]),
    isSlow: true,
    isRunByCheck: true,
  },
  {
    name: "go-openai, Go",
    packages: [goModule()],
    toolchain: "go",
    build: { words: ["go", "build", "-o", "../../../build/clients/go", "."], folder: "test/clients/go" },
    command: ["build/clients/go", "URL"],
    checks: BASE,
  },
  {
    name: "async-openai, Rust",
    packages: [crate("async-openai")],
    toolchain: "rust",
    build: {
      words: ["rust", "build", "--quiet", "--locked", "--target-dir", "../../../build/clients/rust"],
      folder: "test/clients/rust",
    },
    command: ["build/clients/rust/debug/client", "URL"],
    checks: BASE,
  },
  {
    name: "java.net.http, Java",
    packages: ["the JDK's own"],
    toolchain: "java",
    command: ["java", "test/clients/java/Client.java", "URL"],
    checks: BASE,
  },
];

/** Returns the name and version of a crate that Cargo.toml pins. */
function crate(name: string): string {
  const text = readFileSync(new URL("rust/Cargo.toml", here), "utf8");
  return `${name} ${new RegExp(`^${name} = \\{ version = "=([\\d.]+)"`, "m").exec(text)![1]}`;
}

/** Returns the name and version of the module that go.mod pins. */
function goModule(): string {
  const [, name, version] = /^require (\S+) v(\S+)$/m.exec(readFileSync(new URL("go/go.mod", here), "utf8"))!;
  return `${name} ${version}`;
}

export const missing: readonly MissingClient[] = [
  {
    name: "genai-perf",
    packages: ["genai-perf 0.0.16"],
    why: "it installs, but the program that it starts, perf_analyzer, is not among what its package registry has (perf-analyzer 0.1.0 holds none)",
  },
];
