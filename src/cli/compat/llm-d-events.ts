/**
 * Translates the keys of llm-d-inference-sim about KV events. Source: its page `kv-cache.md` and `pkg/kv-cache/`. Its arrays have
 * the fields of the profile 0.18.0.
 */
import { DEFAULT_PROFILE, type KvEventsProfile } from "../../kv-events/profiles.ts";
import type { Environment } from "../options/environment.ts";
import { type KeyInput, unreadable } from "./llm-d-timing.ts";

const ENDPOINT = "tcp://127.0.0.1:5557";
const BATCH = "16";
const QUEUE = "1024";
const ARRAYS: KvEventsProfile = "0.18.0";
/** Address in the topic if POD_IP is not set. The simulator does not start without it. */
const POD = "127.0.0.1";
const PORT = "8000";

type OptionTexts = Record<string, readonly [text: string, where: string]>;

/** Returns the values of our options, each with its place. `own`: place to report for defaults. Throws `InvalidValue`. */
export function compatEvents(asked: (key: string) => KeyInput | undefined, env: Environment, own: string): OptionTexts {
  const textOf = (key: string, otherwise: string) => asked(key)?.texts.join(" ") ?? otherwise;
  const whereOf = (key: string) => asked(key)?.where ?? own;
  const endpoint = textOf("zmq-endpoint", ENDPOINT);
  if (endpoint === "" || asked("enable-kvcache")?.texts[0] !== "true") return {};
  const replay = textOf("kv-events-replay-endpoint", "");
  const queue = textOf("kv-events-replay-queue-size", QUEUE);
  if (!/^\d{1,9}$/.test(queue) || Number(queue) === 0)
    unreadable(whereOf("kv-events-replay-queue-size"), "a whole number of at least 1", queue);
  const config = {
    enable_kv_cache_events: true,
    endpoint,
    replay_endpoint: replay || null,
    buffer_steps: Number(queue),
    topic: `kv@${env.POD_IP || POD}:${textOf("port", PORT)}@${textOf("model", "")}`,
  };
  const isMap = asked("use-vllm-map-event-format")?.texts[0] === "true";
  const place = ["zmq-endpoint", "kv-events-replay-endpoint"].find((key) => asked(key) !== undefined);
  return {
    "kv-events-config": [JSON.stringify(config), whereOf(place ?? "enable-kvcache")],
    "kv-events-profile": [isMap ? DEFAULT_PROFILE : ARRAYS, whereOf("use-vllm-map-event-format")],
    "kv-events-batch-size": [textOf("event-batch-size", BATCH), whereOf("event-batch-size")],
  };
}
