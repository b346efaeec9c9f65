/** Which behaviours are built in, and which one has a model's folder? */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ModelConfig } from "../model-config/model-config.ts";
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
  /** For the start: where it is from. */
  readonly from: string;
  /** The engine computes it, whose weights and KV blocks it needs. */
  readonly ofEngine?: true;
}

const [OWN, NAMED] = ["model.ts", "behaviour.yaml"] as const;

/** A file in the folder says what its model computes, whatever its backend. */
export const saysBehaviour = (folder: string): boolean => [OWN, NAMED].some((file) => existsSync(join(folder, file)));

/** `folder` null: there is none. Rejects with an Error that says which file is wrong, and why. */
export async function behaviourOf(
  folder: string | null,
  config: ModelConfig,
  backends: (config: ModelConfig) => FoundBehaviour | undefined = () => undefined,
): Promise<FoundBehaviour> {
  const [own, named] = [OWN, NAMED].map((file) => (folder === null ? "" : join(folder, file)));
  if (own && existsSync(own)) return { behaviour: await loaded(own), from: "model.ts" };
  if (named && existsSync(named)) {
    try {
      const { name, options } = readBehaviourFile(readFileSync(named, "utf8"), Object.keys(BUILT_IN));
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
  // A path from where the server was started; an import would look beside this file.
  const made = ((await import(resolve(file))) as { default?: unknown }).default;
  const behaviour = typeof made === "function" ? new (made as new () => unknown)() : made;
  if (typeof (behaviour as Behaviour | undefined)?.execute !== "function")
    throw new Error("model.ts: its default export has no execute(requests, host)");
  return behaviour as Behaviour;
}
