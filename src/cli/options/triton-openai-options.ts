/** Which flags has Triton's OpenAI front end? Those of its `main.py` (2026), where they say something here. */
import type { TritonOpenAiConfig } from "../../servers/triton/config/triton-config.ts";
import { choice, freeText, inGroup, integer, onlyOn } from "./option.ts";

const port = integer(0, 65535);

export const tritonOpenAiOptions = inGroup("OpenAI front end", {
  openai: {
    ...onlyOn,
    default: "false",
    about: "The OpenAI front end stands before the server, on a port of its own, with /metrics; the others are closed.",
    ours: true,
  },
  "openai-port": { ...port, default: "9000", about: "Port of the OpenAI front end. 0 takes a free one." },
  host: {
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
    about: "Address of the OpenAI front end, and of KServe's beside it.",
  },
  "enable-kserve-frontends": { ...onlyOn, default: "false", about: "HTTP and gRPC stay open beside it." },
  "kserve-http-port": { ...port, default: "--http-port", about: "Port of HTTP beside it." },
  "kserve-grpc-port": { ...port, default: "--grpc-port", about: "Port of gRPC beside it." },
  "default-max-tokens": { ...integer(1), default: "16", about: "Tokens of an answer where the request does not say." },
  "lora-separator": {
    ...freeText("TEXT", "a text"),
    default: "none",
    about: "Stands between a model's name and an adapter's, both in the name of a request's model.",
  },
  "tool-call-parser": {
    ...choice("llama3", "mistral"),
    default: "none: tools are refused unless the request says which one",
    about: "Tools are taken where the choice is the model's: it does not call then.",
  },
  backend: {
    ...choice("vllm", "tensorrtllm"),
    default: "each model's own",
    about: "Whose tensors requests to models have.",
  },
});

interface Values {
  readonly openai?: boolean;
  readonly "openai-port"?: number;
  readonly host?: string;
  readonly "default-max-tokens"?: number;
  readonly "lora-separator"?: string;
  readonly "tool-call-parser"?: string;
  readonly backend?: string;
}

/** null: there is none. */
export function openAiConfig(values: Values, host: string): TritonOpenAiConfig | null {
  if (values.openai !== true) return null;
  return {
    host: values.host ?? host,
    port: values["openai-port"] ?? 9000,
    defaultMaxTokens: values["default-max-tokens"] ?? 16,
    loraSeparator: values["lora-separator"] ?? "",
    toolCallParser: values["tool-call-parser"] ?? "",
    backend: values.backend ?? "",
  };
}

/** The first flag that needs `--openai` and stands without it. */
export function loneOpenAiFlag(values: Readonly<Record<string, unknown>>): string | undefined {
  if (values.openai === true) return undefined;
  return Object.keys(tritonOpenAiOptions).find((name) => name !== "openai" && values[name] !== undefined);
}
