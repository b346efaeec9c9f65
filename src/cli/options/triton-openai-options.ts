/** The flags of Triton's OpenAI front end (`main.py`, 2026) that have an effect in this program. */
import { initially, serveGroup } from "./landing.ts";
import { choice, freeText, integer, onlyOn } from "./option.ts";

const port = integer(0, 65535);

export const tritonOpenAiOptions = serveGroup("OpenAI front end", {
  openai: {
    feeds: "triton.openai",
    ...onlyOn,
    about: "Serve the OpenAI front end with /metrics on its own port. HTTP, gRPC and metrics ports stay closed.",
    ours: true,
  },
  "openai-port": {
    lands: "triton.openai.port",
    ...port,
    ...initially(9000),
    about: "Port of the OpenAI front end. 0: any free port.",
  },
  host: {
    lands: "triton.openai.host",
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
    about: "Address of the OpenAI front end and of the KServe front ends.",
  },
  "enable-kserve-frontends": {
    feeds: "triton.http",
    ...onlyOn,
    about: "Also serve KServe's HTTP and gRPC, with --openai.",
  },
  "kserve-http-port": {
    lands: "triton.http.port",
    ...port,
    default: "--http-port",
    about: "Port of KServe's HTTP, with --openai.",
  },
  "kserve-grpc-port": {
    lands: "triton.grpc.port",
    ...port,
    default: "--grpc-port",
    about: "Port of KServe's gRPC, with --openai.",
  },
  "default-max-tokens": {
    lands: "triton.openai.defaultMaxTokens",
    ...integer(1),
    ...initially(16),
    about: "Maximum tokens of an answer, unless the request sets it.",
  },
  "lora-separator": {
    lands: "triton.openai.loraSeparator",
    ...freeText("TEXT", "a text"),
    initial: "",
    about: "Separator between the names of model and LoRA adapter in a request's model field.",
  },
  "tool-call-parser": {
    lands: "triton.openai.toolCallParser",
    ...choice("llama3", "mistral"),
    initial: "",
    default: "none: tools are refused unless the request names one",
    about: 'Accept tools with tool_choice "auto". The model then answers without a call.',
  },
  backend: {
    lands: "triton.openai.backend",
    ...choice("vllm", "tensorrtllm"),
    initial: "",
    default: "the backend of each model",
    about: "Backend whose tensor names are used for requests to models.",
  },
});

/** Returns the first flag that has an effect only with `--openai`, if `--openai` is missing. Undefined: no such flag is set. */
export function loneOpenAiFlag(values: Readonly<Record<string, unknown>>): string | undefined {
  if (values.openai === true) return undefined;
  return Object.keys(tritonOpenAiOptions).find((name) => name !== "openai" && values[name] !== undefined);
}
