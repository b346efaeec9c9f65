/** Lists differences from the log and options of vLLM 0.33, and from Triton over gRPC. */
import type { DifferenceRow } from "./differences.ts";

export const logDifferences: readonly DifferenceRow[] = [
  {
    what: "Lines of `--enable-log-requests`",
    real: "with prefix, random suffix of ids, prompts at DEBUG",
    ours: "without; all differences: [request-log.md](request-log.md)",
    why: "prompts are not kept",
    test: "each prompt has one line with the parameters in use",
    file: "test/conformance/request-log.test.ts",
  },
];

export const startDifferences: readonly DifferenceRow[] = [
  {
    what: "`--host`",
    real: "all interfaces",
    ours: "127.0.0.1",
    why: "a stand-in should not be open to the network by accident",
    test: "help and documentation have every option with its default, and the address on which the server listens",
    file: "test/cli/options/help.test.ts",
  },
  {
    what: "`--lora-modules`",
    real: "the adapter is read, and refused if it does not fit the model",
    ours: "the name counts, not the path; the text is the same with any adapter",
    why: "no weights",
    test: "an adapter changes the scheduling, but not the text",
  },
  {
    what: "No model named",
    real: "`Qwen/Qwen3-0.6B`",
    ours: "the timing preset's model",
    why: "the preset knows its model",
    test: "defaults are those of vLLM 0.33 on the default preset",
    file: "test/cli/serve/resolve.test.ts",
  },
  {
    what: "`--ssl-cert-reqs 1`",
    real: "a client certificate is optional, a bad one refused",
    ours: "refused: 0 or 2",
    why: "Bun checks all or none",
    test: "--ssl-cert-reqs accepts only 0 and 2",
    file: "test/conformance/tls.test.ts",
  },
  {
    what: "`--api-key` twice",
    real: "the last one counts",
    ours: "all count",
    why: "a key that is silently dropped helps nobody",
    test: "every --api-key counts",
  },
  {
    what: "`--api-key`",
    real: "guards `/v1`, `/v2`, `/inference`, `/cohere`",
    ours: "`/understudy/` as well; `/metrics` stays open",
    why: "those paths show everybody's requests",
    test: "our own paths need the key, too",
  },
  {
    what: "`--max-model-len` above the model's",
    real: "does not start without `VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`",
    ours: "one line of notice, and it starts",
    why: "no weights that could fail",
    test: "combinations that vLLM warns about get a notice",
    file: "test/cli/serve/resolve.test.ts",
  },
  {
    what: "Options about devices, weights, kernels, plugin files …",
    real: "take effect",
    ours: "accepted, listed once at the start, ignored. `understudy serve --help=WORD` says which",
    why: "they mean nothing here",
    test: "flags of vllm serve without an effect here are accepted with their values and listed once",
    file: "test/cli/serve/resolve.test.ts",
  },
  {
    what: "KV pool of a model that no preset was measured for",
    real: "by the GPU's memory and the model's weights",
    ours: "the default preset's, which grows to hold one request of full length",
    why: "nothing is known of the model",
    test: "the pool grows to hold one request of full length, and the banner says so",
    file: "test/cli/options/vllm-command-lines.test.ts",
  },
  {
    what: "Order of the candidates of an ambiguous flag",
    real: "as flags are registered",
    ours: "alphabetical",
    why: "the tables of options are in another order",
    test: "an ambiguous flag is refused with its candidates, in the words of argparse",
    file: "test/cli/options/vllm-command-lines.test.ts",
  },
  {
    what: "Parser names without a format of their own, and those of plugin files",
    real: "each its own format",
    ours: "the format of a related parser; one line at the start names it",
    why: "only the fields of a call are visible, not its text",
    test: "every registered name is accepted, with a notice if its format is replaced by another one",
    file: "test/cli/options/vllm-command-lines.test.ts",
  },
  {
    what: "`--tool-call-parser` with an unknown name, without `--enable-auto-tool-choice`",
    real: "starts, and the name means nothing",
    ours: "refused, with the list of names",
    why: "a misspelt name would go unnoticed",
    test: "an unknown name is refused with the whole list, unless a plugin file may register it",
    file: "test/cli/options/vllm-command-lines.test.ts",
  },
];

export const grpcDifferences: readonly DifferenceRow[] = [
  {
    what: "Fields of a message over gRPC",
    real: "no limit",
    ours: "RESOURCE_EXHAUSTED above `--grpc-max-message-fields` (16,384), counted as [limits.md](limits.md) says",
    why: "memory stays bounded",
    test: "a message with more fields than --grpc-max-message-fields is refused, also in a stream",
    file: "test/triton/message-memory.test.ts",
  },
  {
    what: "Memory of the fields of a message over gRPC",
    real: "no limit",
    ours: "RESOURCE_EXHAUSTED above 8 times the message's bytes, at least 8 KiB: more than 73 parameters with names of three letters and nothing else",
    why: "memory stays bounded",
    test: "a message whose fields would take more than eight times its bytes is refused",
    file: "test/triton/message-heap.test.ts",
  },
  {
    what: "A message over gRPC; all that are under way",
    real: "2 GiB; no limit",
    ours: "RESOURCE_EXHAUSTED above 512 MiB, unpacked too; 640 MiB",
    why: "memory stays bounded",
    test: "compressed messages are decompressed within the limit, one after another",
    file: "test/triton/message-memory.test.ts",
  },
];
