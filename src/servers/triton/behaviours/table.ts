/** Lists the built-in behaviours and finds the behaviour of a model. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ModelConfig } from "../model-config/model-config.ts";
import { modelText } from "../models/model-file.ts";
import type { Behaviour } from "./behaviour.ts";
import { computeTime, computeTimeText, drawnBehaviour } from "./drawn.ts";
import { type BehaviourOptions, readBehaviourFile } from "./options.ts";
import { addSub, call, echo, fail, identity, sleep } from "./plain.ts";
import { llm, repeatWords } from "./streams.ts";

export const BUILT_IN: Readonly<Record<string, (options: BehaviourOptions) => Behaviour>> = {
  echo,
  add_sub: addSub,
  identity,
  sleep,
  fail,
  call,
  decoupled_repeat: repeatWords,
  llm,
};

export interface FoundBehaviour {
  readonly behaviour: Behaviour;
  /** Origin of the behaviour, for the log at the start. */
  readonly from: string;
  /** Set if the engine computes the answers, so that the model needs the engine's weights and KV blocks. */
  readonly ofEngine?: true;
}

const [CODE_FILE, OPTIONS_FILE] = ["model.ts", "behaviour.yaml"] as const;

/** True if a file in the folder defines the model's behaviour. Such a file overrides the backend. */
export const hasBehaviourFile = (folder: string): boolean =>
  [CODE_FILE, OPTIONS_FILE].some((file) => existsSync(join(folder, file)));

/**
 * Returns a model's behaviour. `folder`: null if the model has no folder. Rejects with an Error that names the wrong file and
 * the reason.
 */
export async function behaviourOf(
  folder: string | null,
  config: ModelConfig,
  backends: (config: ModelConfig) => FoundBehaviour | undefined = () => undefined,
): Promise<FoundBehaviour> {
  const [codeFile, optionsFile] = [CODE_FILE, OPTIONS_FILE].map((file) => (folder === null ? "" : join(folder, file)));
  if (codeFile && existsSync(codeFile)) return { behaviour: await loaded(codeFile), from: "model.ts" };
  if (optionsFile && existsSync(optionsFile)) {
    try {
      const { name, options } = readBehaviourFile(modelText(optionsFile), Object.keys(BUILT_IN));
      return { behaviour: BUILT_IN[name]!(options), from: name };
    } catch (error) {
      throw new Error(`behaviour.yaml: ${(error as Error).message}`);
    }
  }
  const ofBackend = backends(config);
  if (ofBackend !== undefined) return ofBackend;
  const time = computeTime(config);
  if (time === null)
    throw new Error("parameter understudy_us: base=MICROSECONDS,per_item=MICROSECONDS,first=MICROSECONDS is accepted");
  return { behaviour: drawnBehaviour(time), from: `drawn tensors after ${computeTimeText(time)}` };
}

async function loaded(file: string): Promise<Behaviour> {
  // Resolve against the working directory, because an import would resolve against this file.
  const made = ((await import(resolve(file))) as { default?: unknown }).default;
  const behaviour = typeof made === "function" ? new (made as new () => unknown)() : made;
  if (typeof (behaviour as Behaviour | undefined)?.execute !== "function")
    throw new Error("model.ts: its default export has no execute(requests, host)");
  return behaviour as Behaviour;
}
