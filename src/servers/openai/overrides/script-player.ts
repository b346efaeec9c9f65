/** Plays the scripts of ordered answers: finds those of `--script`, makes one of a text, and hands their ids to the engine. */

import type { Generation, Receiver } from "../../../engine/interface/types.ts";
import { countedParts } from "../../../text/answers/answer-parts.ts";
import {
  BrokenScript,
  NO_PLAYS,
  type Plays,
  plainScript,
  type Script,
  SILENT,
  shapedScript,
  unknownIn,
} from "../../../text/canned/script.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { mayRelease } from "../front/order-header.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { CommonRequest, Repetition } from "../request/request.ts";
import { type ThinkingFields, thinkingOf, thoughtsBefore } from "../request/thinking.ts";
import { type ReasoningSetup, reasoningSetup } from "../tool-calls/reasoning.ts";
import type { OrderedAnswer } from "./orders.ts";
import {
  JointOutputs,
  type PlayedChoice,
  PlayedReceiver,
  rankedLogprobs,
  type Stage,
  scriptIds,
  stageOf,
} from "./play.ts";

/** The fields of a request that its script depends on. */
export type ScriptedRequest = Pick<CommonRequest, "n" | "seed"> & ThinkingFields;

export class ScriptPlayer {
  readonly #vocabulary: Vocabulary;
  readonly #reasoning: ReasoningSetup | null;
  readonly #plays: Plays;
  readonly #stage: Stage;
  /** True if a script may have stopped the engine. */
  readonly #mayRelease: boolean;
  /** Index of the next script of the queue in `--script`. */
  #next = 0;

  constructor(private readonly kernel: OpenAiKernel) {
    const { backend, config, text } = kernel;
    this.#vocabulary = text.model.vocabulary;
    const { reasoningParser: name } = config.text;
    this.#reasoning = name === undefined ? null : reasoningSetup(name, this.#vocabulary);
    this.#plays = text.canned.plays ?? NO_PLAYS;
    this.#mayRelease = mayRelease(kernel);
    this.#stage = stageOf(backend);
  }

  /** Lets a stopped engine continue, because the answer to a request needs it. */
  release(): void {
    if (this.#mayRelease) this.#stage.standStill(false);
  }

  /** Takes the next script of the queue, or returns null if none is left. */
  next(): Script | null {
    const script = this.#plays.queue[this.#next];
    if (script === undefined) return null;
    this.#next++;
    return script;
  }

  /**
   * Returns the script of an order. `ids`: its encoded text; null if it has none. A completion that is ordered to echo repeats
   * each prompt.
   */
  script(
    { order, text }: OrderedAnswer,
    ids: Uint32Array | null,
    prompts: readonly Uint32Array[],
    request: ScriptedRequest,
  ): Script {
    if (order.kind === "script" || order.kind === "play") return order.script!;
    const { n } = request;
    if (ids !== null && order.script?.parts !== undefined) return this.#inParts(ids, order.script, prompts.length * n);
    const answerIds = ids === null ? null : this.#thoughtful(ids, prompts[0]!, request);
    const plain = text === null ? this.#repeated(prompts, n) : plainScript(answerIds!, prompts.length * n);
    return order.script === null ? plain : shapedScript(plain, order.script);
  }

  #inParts(ids: Uint32Array, shape: Script, choices: number): Script {
    const vocabulary = this.#vocabulary;
    const parts = countedParts(shape.parts!, ids.length, (at) => vocabulary.bytesOf(ids[at]!).length);
    return { ...shapedScript(plainScript(ids, choices), shape), parts };
  }

  /** Puts thinking in front of a text, if the server's answers think. Otherwise the parser would take the text for thinking. */
  #thoughtful(ids: Uint32Array, promptIds: Uint32Array, request: ScriptedRequest): Uint32Array {
    const { config, text } = this.kernel;
    const seed = request.seed ?? 0;
    const thinking = thinkingOf(request, this.#reasoning, promptIds, seed, config.openai.answers.meanReasoningTokens);
    if (thinking === null) return ids;
    const whole = thoughtsBefore(thinking, text.model.answers, seed, ids, this.#vocabulary.size);
    return whole.subarray(0, whole.length);
  }

  /** Returns a script whose answers repeat the prompts without special tokens. */
  #repeated(prompts: readonly Uint32Array[], n: number): Script {
    const vocabulary = this.#vocabulary;
    const plain = plainScript([], 0);
    const sequences = prompts.flatMap((prompt) => {
      const ids = Array.from(prompt).filter((id) => !vocabulary.isSpecial(id));
      return plainScript(ids, n).sequences;
    });
    return { ...plain, sequences };
  }

  /**
   * Applies the effects of a script that come before its first step. Call it before the first choice is submitted. Returns the
   * collector of outputs if these must arrive together, or null.
   */
  begins({ holdAfter, releaseAfterS, diesAtStep, burst }: Script, choices: number): JointOutputs | null {
    if (holdAfter === 0) this.#stage.standStill(true);
    if (holdAfter === 0 && releaseAfterS !== null) this.#stage.releaseIn(releaseAfterS);
    if (diesAtStep === 0) this.#stage.die();
    return burst ? new JointOutputs(choices) : null;
  }

  /** Returns the generation with the ids of its script, and the receiver that plays the rest of the script. */
  play(
    script: Script,
    choice: PlayedChoice,
    generation: Generation,
    repetition: Repetition | null,
    together: JointOutputs | null,
  ): { readonly generation: Generation; readonly receiver: Receiver } {
    const sequence = script.sequences[choice.index] ?? SILENT;
    const ids = scriptIds(sequence, generation, this.#vocabulary.eosId);
    return {
      // The real scheduler leaves `min_tokens` to the sampler, so an ordered end-of-sequence before it ends the answer.
      generation: { ...generation, minTokens: 0, plannedTokens: null, script: ids },
      receiver: new PlayedReceiver(choice, sequence, {
        ...{ script, stage: this.#stage, repetition, together },
        arrivalUs: generation.arrivalUs,
      }),
    };
  }

  /** Returns the source of each choice's log probabilities, if the script orders those of `rankedLogprobs`. */
  logprobs(script: Script): ((index: number) => LogprobSource) | undefined {
    if (!script.ranked) return undefined;
    const { size } = this.#vocabulary;
    return (index) => rankedLogprobs(size, script.sequences[index]?.minusInfinityAt ?? []);
  }

  /** Returns the script with this name. Throws a `BrokenScript`. */
  named(name: string): Script {
    const script = this.#plays.named.get(name);
    if (script !== undefined) return script;
    throw new BrokenScript(`no script of --script is named "${name}"`);
  }

  /** Throws a `BrokenScript` if the script has an id that the vocabulary does not have. */
  check(script: Script): void {
    const { size } = this.#vocabulary;
    const wrong = unknownIn(script, size);
    if (wrong !== undefined) throw new BrokenScript(`token id ${wrong} is out of vocabulary (${size} ids)`);
  }
}
