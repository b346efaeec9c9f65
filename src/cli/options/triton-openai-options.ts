/** The flags of Triton's OpenAI front end (`main.py`, 2026) that have an effect in this program. */
import { initially, serveGroup } from "./landing.ts";
import { choice, freeText, integer, onlyOn, row } from "./option.ts";

const port = integer(0, 65535);

export const tritonOpenAiOptions = serveGroup("OpenAI front end", {
  openai: row("Serve the OpenAI front end with /metrics on its own port. HTTP, gRPC and metrics ports stay closed.", {
    feeds: "triton.openai",
    ...onlyOn,
    ours: true,
  }),
  "openai-port": row("Port of the OpenAI front end. 0: any free port.", {
    lands: "triton.openai.port",
    ...port,
    ...initially(9000),
  }),
  host: row("Address of the OpenAI front end and of the KServe front ends.", {
    lands: "triton.openai.host",
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
  }),
  "enable-kserve-frontends": row("Also serve KServe's HTTP and gRPC, with --openai.", {
    feeds: "triton.http",
    ...onlyOn,
  }),
  "kserve-http-port": row("Port of KServe's HTTP, with --openai.", {
    lands: "triton.http.port",
    ...port,
    default: "--http-port",
  }),
  "kserve-grpc-port": row("Port of KServe's gRPC, with --openai.", {
    lands: "triton.grpc.port",
    ...port,
    default: "--grpc-port",
  }),
  "default-max-tokens": row("Maximum tokens of an answer, unless the request sets it.", {
    lands: "triton.openai.defaultMaxTokens",
    ...integer(1),
    ...initially(16),
  }),
  "lora-separator": row("Separator between the names of model and LoRA adapter in a request's model field.", {
    lands: "triton.openai.loraSeparator",
    ...freeText("TEXT", "a text"),
    initial: "",
  }),
  "tool-call-parser": row('Accept tools with tool_choice "auto". The model then answers without a call.', {
    lands: "triton.openai.toolCallParser",
    ...choice("llama3", "mistral"),
    initial: "",
    default: "none: tools are refused unless the request names one",
  }),
  backend: row("Backend whose tensor names are used for requests to models.", {
    lands: "triton.openai.backend",
    ...choice("vllm", "tensorrtllm"),
    initial: "",
    default: "the backend of each model",
  }),
});

/** Returns the first flag that has an effect only with `--openai`, if `--openai` is missing. Undefined: no such flag is set. */
export function loneOpenAiFlag(values: Readonly<Record<string, unknown>>): string | undefined {
  if (values.openai === true) return undefined;
  return Object.keys(tritonOpenAiOptions).find((name) => name !== "openai" && values[name] !== undefined);
}
