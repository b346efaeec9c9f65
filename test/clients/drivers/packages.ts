/** Returns the versions of the drivers' packages, as package.json, the requirements, go.mod and Cargo.toml pin them. */
import { readFileSync } from "node:fs";

const here = new URL(".", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, here), "utf8");
const node = JSON.parse(read("../../../package.json")).devDependencies as Readonly<Record<string, string>>;

const fromNode = (...names: readonly string[]) => names.map((name) => `${name} ${node[name]}`).join(", ");
const fromPython = (file: string, ...names: readonly string[]) =>
  names
    .map((name) => `${name} ${new RegExp(`^${name}==(\\S+)`, "m").exec(read(`../requirements/${file}.txt`))?.[1]}`)
    .join(", ");
const fromGo = (name: string) => `${name} ${new RegExp(`${name} v(\\S+)`).exec(read("go/go.mod"))?.[1]}`;

const fromRust = (name: string, key = name) =>
  `${name} ${new RegExp(`^${key} = .*?"=([^"]+)"`, "m").exec(read("rust/Cargo.toml"))?.[1]}`;

const PACKAGES: Readonly<Record<string, () => string>> = {
  "openai-python": () => fromPython("sdks", "openai"),
  "openai-python-async": () => fromPython("sdks", "openai"),
  "openai-node": () => fromNode("openai"),
  "ai-sdk": () => fromNode("ai", "@ai-sdk/openai"),
  "langchain-python": () => fromPython("by-hand/stress", "langchain-openai", "openai"),
  "langchain-node": () => fromNode("@langchain/openai"),
  "anthropic-python": () => fromPython("sdks", "anthropic"),
  "anthropic-node": () => fromNode("@anthropic-ai/sdk"),
  litellm: () => fromPython("wrappers", "litellm"),
  "httpx-sse": () => fromPython("by-hand/stress", "httpx-sse", "httpx"),
  curl: () => "the system's, 7.88.1",
  "openai-go": () => fromGo("github.com/openai/openai-go/v3"),
  "go-openai": () => fromGo("github.com/sashabaranov/go-openai"),
  "async-openai": () => `${fromRust("async-openai")}, ${fromRust("reqwest")}`,
  "reqwest-eventsource": () => `${fromRust("reqwest-eventsource")}, ${fromRust("reqwest", "reqwest-12")}`,
  "vllm-bench": () => fromPython("vllm", "vllm"),
  aiperf: () => fromPython("aiperf", "aiperf"),
  guidellm: () => fromPython("guidellm-slim", "guidellm"),
  load: () => "this checkout",
};

export const driverPackages = (client: string): string => PACKAGES[client]?.() ?? "";
