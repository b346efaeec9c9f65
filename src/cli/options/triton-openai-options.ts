/** The flags of Triton's OpenAI front end: those of its `main.py` (2026) that have an effect here. */
import { initially, serveGroup } from "./landing.ts";
import { choice, freeText, integer, onlyOn } from "./option.ts";

const port = integer(0, 65535);

export const tritonOpenAiOptions = serveGroup("OpenAI front end", {
  openai: {
    feeds: "triton.openai",
    ...onlyOn,
    default: "false",
    about: "The OpenAI front end stands before the server, on a port of its own, with /metrics; the others are closed.",
    ours: true,
  },
  "openai-port": {
    lands: "triton.openai.port",
    ...port,
    ...initially(9000),
    about: "Port of the OpenAI front end. 0 takes a free one.",
  },
  host: {
    lands: "triton.openai.host",
    ...freeText("ADDRESS", "an address"),
    default: "--http-address",
    about: "Address of the OpenAI front end, and of KServe's beside it.",
  },
  "enable-kserve-frontends": {
    feeds: "triton.http",
    ...onlyOn,
    default: "false",
    about: "HTTP and gRPC stay open beside it.",
  },
  "kserve-http-port": { lands: "triton.http.port", ...port, default: "--http-port", about: "Port of HTTP beside it." },
  "kserve-grpc-port": { lands: "triton.grpc.port", ...port, default: "--grpc-port", about: "Port of gRPC beside it." },
  "default-max-tokens": {
    lands: "triton.openai.defaultMaxTokens",
    ...integer(1),
    ...initially(16),
    about: "Tokens of an answer where the request does not say.",
  },
  "lora-separator": {
    lands: "triton.openai.loraSeparator",
    ...freeText("TEXT", "a text"),
    initial: "",
    default: "none",
    about: "Stands between a model's name and an adapter's, both in the name of a request's model.",
  },
  "tool-call-parser": {
    lands: "triton.openai.toolCallParser",
    ...choice("llama3", "mistral"),
    initial: "",
    default: "none: tools are refused unless the request says which one",
    about: "Tools are taken where the choice is the model's: it does not call then.",
  },
  backend: {
    lands: "triton.openai.backend",
    ...choice("vllm", "tensorrtllm"),
    initial: "",
    default: "each model's own",
    about: "Whose tensors requests to models have.",
  },
});

/** The first flag that needs `--openai` and stands without it. */
export function loneOpenAiFlag(values: Readonly<Record<string, unknown>>): string | undefined {
  if (values.openai === true) return undefined;
  return Object.keys(tritonOpenAiOptions).find((name) => name !== "openai" && values[name] !== undefined);
}
