/**
 * Implements the model of TensorRT-LLM's LLM API: one Python model with text inputs and outputs
 * (`llmapi/tensorrt_llm/1/model.py`, 1.3 line). `execute` returns at once. Each response of a stream contains the whole text so
 * far. A request with `stop` cancels the request with its id.
 */
import { existsSync } from "node:fs";
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { AnswerText } from "../../openai/pipeline/choice.ts";
import { reprString } from "../../pydantic/repr.ts";
import type { Behaviour, ModelHost, ModelRequest } from "../behaviours/behaviour.ts";
import { firstNumber, firstText, numberTensor, outputs, textTensor } from "../behaviours/values.ts";
import { isDecoupled } from "../model-config/model-config.ts";
import { fromBytesText, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { generateSequence, type LlmDeps } from "./around.ts";
import { fewWords } from "./processing.ts";
import { decodedText, encodeText, firstTextBytes } from "./prompt-text.ts";
import { RequestsById } from "./requests-by-id.ts";
import { perfFacts, timeTensors } from "./trt-perf.ts";
import { trtSeed } from "./trt-request.ts";

/** Default of `SamplingParams.max_tokens` in TensorRT-LLM. */
const TOKENS = 32;
const CANCELLED = { error: { message: "Request cancelled by client", code: "CANCELLED" } } as const;

export function llmApi(deps: LlmDeps): Behaviour {
  const running = new RequestsById<Answer>();

  async function answer(request: ModelRequest, host: ModelHost): Promise<void> {
    if (firstNumber(request, "stop", 0) !== 0) {
      const nameless = { error: { message: "A request id must be provided for request cancellation" } };
      if (request.id === "") return request.send(nameless, true);
      for (const answer of running.withId(request, host)) answer.cancel();
      return request.send(CANCELLED, true);
    }
    const arrivalUs = deps.backend.nowUs();
    const streams = firstNumber(request, "streaming", 0) !== 0;
    const bytes = firstTextBytes(request, "text_input");
    checkAdapter(request);
    if (streams && !isDecoupled(host.config)) throw new Error("Streaming is only supported in decoupled mode.");
    const promptIds = await encodeText(deps, bytes);
    if (promptIds.length === 0) throw new Error("The prompt has no tokens");
    if (promptIds.length >= deps.maxModelLen)
      throw new Error(
        `The sum of prompt length (${promptIds.length}.0), query length (0) should not exceed max_seq_len (${deps.maxModelLen})`,
      );
    const prompt = decodedText(bytes);
    const pending: Answer = new Answer(request, deps, { prompt, promptIds, streams, arrivalUs }, () => {
      running.delete(request, host, pending);
    });
    running.add(request, host, pending);
    pending.begin();
    request.whenCancelled(() => pending.cancel());
  }

  return {
    sends: true,
    execute(requests, host) {
      const answers = requests.map((request) =>
        answer(request, host).catch(({ message }: Error) =>
          request.send({ error: { message: `Error generating request: ${message}` } }, true),
        ),
      );
      void Promise.all(answers);
      return null;
    },
  };
}

/** Checks the LoRA inputs. Adapters are paths on the server's disk, and all three inputs are required. */
function checkAdapter(request: ModelRequest): void {
  const adapterInputs = ["lora_id", "lora_name", "lora_path"].filter((name) => request.inputs.has(name));
  if (adapterInputs.length === 0) return;
  if (adapterInputs.length < 3) throw new Error("lora_id, lora_name, and lora_path must all be provided together");
  const source = firstText(request, "lora_ckpt_source", "hf");
  if (source !== "hf" && source !== "nemo")
    throw new Error(`lora_ckpt_source must be one of ('hf', 'nemo'), got ${reprString(source)}`);
  const path = firstText(request, "lora_path");
  if (!existsSync(path)) throw new Error(`lora_path does not exist on the Triton server's filesystem: ${path}`);
}

interface AnswerInput {
  readonly prompt: string;
  readonly promptIds: Uint32Array;
  readonly streams: boolean;
  readonly arrivalUs: number;
}

class Answer implements Receiver {
  submission: Submission | null = null;
  firstUs = 0;
  lastUs = 0;
  readonly #text: AnswerText;
  readonly #seed: number;
  #sentText = "";
  #stop: string | null = null;
  #sum = 0;
  #tokens = 0;
  #over = false;

  constructor(
    private readonly request: ModelRequest,
    private readonly deps: LlmDeps,
    private readonly input: AnswerInput,
    private readonly onEnd: () => void,
  ) {
    const stop = (fewWords(request, "sampling_param_stop") ?? []).map(fromBytesText).filter(Boolean);
    const options = { skipSpecialTokens: true, includeStopStrInOutput: false, stop, minTokens: 0 };
    this.#text = new AnswerText(deps.text.vocabulary, options);
    const excludes = firstNumber(request, "sampling_param_exclude_input_from_output", 0) !== 0;
    this.#sentText = input.streams || excludes ? "" : input.prompt;
    this.#seed = trtSeed(firstNumber(request, "sampling_param_seed", -1), input.promptIds, deps);
  }

  /** Starts the answer. Throws if the engine refuses it. */
  begin(): void {
    const maxTokens = firstNumber(this.request, "sampling_param_max_tokens", TOKENS);
    if (maxTokens < 1) throw this.#fails(new Error(`require max_tokens > 0, got max_tokens=${maxTokens}`));
    const sequence = {
      id: this.request.id,
      promptIds: this.input.promptIds,
      maxTokens,
      minTokens: 0,
      ignoreEos: false,
      stopTokenIds: [],
      seed: this.#seed,
      steering: null,
      written: null,
      cacheSalt: firstText(this.request, "lora_name"),
    };
    try {
      this.submission = generateSequence(this.deps, sequence, this);
    } catch (error) {
      throw this.#fails(error as Error);
    }
  }

  #fails(error: Error): Error {
    this.#over = true;
    this.onEnd();
    return error;
  }

  onTokens(ids: Int32Array, at: number, count: number, ended: Finish | null): void {
    if (this.#over) return;
    const before = this.#text.tokens;
    this.#stop = this.#text.accept(ids, at, count, ended);
    if (this.#stop !== null && ended === null) this.submission?.finish(Finish.Stop, this.#text.tokens);
    const made = this.#text.tokens - before;
    const { logprobs, backend } = this.deps;
    for (let i = at; i < at + made; i++) this.#sum += logprobs(this.#seed, ids[i]!, this.#tokens++, 0).logprob;
    if (made > 0) this.lastUs = backend.nowUs();
    this.firstUs ||= this.lastUs;
    const finish = this.#stop === null ? ended : Finish.Stop;
    this.#over = finish !== null;
    if (!this.#over && !this.input.streams) return;
    if (this.#over) this.onEnd();
    this.request.send(this.#response(finish), this.#over);
  }

  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    this.submission?.cancel();
    this.onEnd();
    this.request.send(CANCELLED, true);
  }

  #response(finish: Finish | null) {
    const wants = (name: string) => firstNumber(this.request, name, 0) !== 0;
    this.#sentText += this.#text.take(finish);
    const reason =
      finish === null ? "None" : finish === Finish.Stop ? "stop" : finish === Finish.Length ? "length" : "cancelled";
    const tensors: Tensor[] = [textTensor("text_output", [1], [toBytesText(this.#sentText)])];
    if (wants("return_finish_reason")) tensors.push(textTensor("finish_reason", [1], [reason]));
    if (wants("return_stop_reason")) tensors.push(textTensor("stop_reason", [1], [toBytesText(this.#stop ?? "None")]));
    if (wants("return_cumulative_logprob")) tensors.push(numberTensor("cumulative_logprob", "FP32", [1], [this.#sum]));
    if (wants("sampling_param_return_perf_metrics") && finish !== null) tensors.push(...this.#perf());
    return outputs(...tensors);
  }

  #perf(): readonly Tensor[] {
    const { promptIds, arrivalUs } = this.input;
    const facts = perfFacts(this, promptIds.length, this.deps, arrivalUs);
    const whole = (name: string, value: number) => numberTensor(name, "INT32", [1], [value]);
    const { reusedBlocks: reused, newBlocks } = facts;
    return [
      whole("kv_cache_reused_block", reused),
      numberTensor("kv_cache_hit_rate", "FP32", [1], [reused === 0 ? 0 : reused / (reused + newBlocks)]),
      whole("kv_cache_alloc_new_blocks", newBlocks),
      whole("kv_cache_alloc_total_blocks", newBlocks),
      whole("kv_cache_missed_block", newBlocks),
      ...timeTensors(facts, [1]),
      numberTensor("acceptance_rate", "FP32", [1], [0]),
      whole("total_accepted_draft_tokens", 0),
      whole("total_draft_tokens", 0),
    ];
  }
}
