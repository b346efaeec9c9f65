/** Lists the laws of KV events. Source: vLLM 0.33.0 `vllm/distributed/kv_events.py`, `vllm/v1/core/block_pool.py`. */
import type { Severity } from "../check/index.ts";

/** A law of KV events. */
export interface KvLaw {
  /** The law in words. */
  readonly sentence: string;
  /** Severity of a violation. E: an error of the publisher. W: suspicious, but possibly legal. */
  readonly severity: Severity;
  /** Cases that are no violation, and conditions for judging the law. Absent: none. */
  readonly unless?: string;
  /** Meaning of a violation for an index of the cache. */
  readonly means: string;
}

const laws = {
  K01: {
    sentence: "a message is topic, sequence (8 bytes) and payload",
    severity: "E",
    means: "Readers drop the message, and the blocks in it are unknown to them.",
  },
  K02: {
    sentence: "a payload is a batch of events in MessagePack",
    severity: "E",
    means: "Readers drop the batch, and the blocks in it are unknown to them.",
  },
  K03: {
    sentence: "events and fields are those of vLLM 0.9 to 0.33",
    severity: "E",
    unless: "An unknown field is only W.",
    means: "Some readers drop the whole batch of an unknown event. Most ignore an unknown field.",
  },
  K04: {
    sentence: "each sequence is one more than the sequence before",
    severity: "E",
    means: "Batches were lost: an index lacks blocks, or keeps blocks that are gone.",
  },
  K05: {
    sentence: "no batch arrives twice",
    severity: "E",
    means: "An index that counts copies of a block keeps it after its removal.",
  },
  K06: {
    sentence: "no batch arrives after a later one",
    severity: "E",
    means: "An index that applies batches as they come removes blocks before they are stored.",
  },
  K07: {
    sentence: "sequences do not start again on the same connection",
    severity: "E",
    unless: "On a new connection it is a restart, which is legal.",
    means: "Readers ignore the new batches as old ones, or keep the blocks of the process before.",
  },
  K08: {
    sentence: "a topic has one publisher",
    severity: "E",
    means: "Blocks of two engines are counted as those of one, and each sequence looks like a gap.",
  },
  K09: {
    sentence: "the first batch has sequence 0, or a replay brings those before it",
    severity: "E",
    unless: "A note, unless --from-start states that nothing was published before.",
    means: "Blocks that were stored before are unknown until the cache is cleared.",
  },
  K10: {
    sentence: "a replay has the batches that were lost",
    severity: "E",
    means: "The gap stays: only a cleared cache or a restart makes an index correct again.",
  },
  K11: {
    sentence: "a replay is consecutive and ends with its end marker",
    severity: "E",
    means: "A reader that waits for the end marker waits forever, or takes a part for the whole.",
  },
  K12: {
    sentence: "a batch arrives soon after its time",
    severity: "W",
    unless: "--late sets the delay. Replayed batches are not judged.",
    means:
      "An index is out of date in the meantime. Times are compared with the fastest batch, so that clocks may differ.",
  },
  K13: {
    sentence: "the parent of stored blocks is stored",
    severity: "E",
    unless:
      "After a join in mid-sequence or lost batches: not judged until the cache is cleared. Nor in groups with sliding windows or states.",
    means: "Dynamo refuses such blocks and all later ones of the prompt.",
  },
  K14: {
    sentence: "a removed block was stored",
    severity: "E",
    unless: "As K13.",
    means: "An index that counts copies loses a block that is still there.",
  },
  K15: {
    sentence: "an event stores no block twice",
    severity: "E",
    unless: "Different events may: two requests that compute one prompt have a block each.",
    means: "The blocks of a prompt all have different hashes.",
  },
  K16: {
    sentence: "tokens of an event = its hashes × block size",
    severity: "E",
    unless: "Only blocks on the GPU. Not in groups with sliding windows or states.",
    means: "Readers that hash the tokens themselves skip or cut the event.",
  },
  K17: {
    sentence: "all events of a KV group have one block size",
    severity: "E",
    means: "Prompts that are cut into blocks of the other size never match.",
  },
  K18: {
    sentence: "stored blocks ≤ blocks of the pool",
    severity: "E",
    unless: "Needs --metrics or --num-gpu-blocks. A block that was stored more often than removed is not counted.",
    means: "Removals are missing: an index expects blocks that the engine has evicted.",
  },
  K19: {
    sentence: "hashes follow from parent, tokens and extra keys",
    severity: "E",
    unless:
      "Algorithm and seed are found out if the seed is vLLM's default, 0 or 42. Hashes cover paths of LoRA adapters (--lora-paths).",
    means: "Readers that compute hashes of a prompt never find these blocks.",
  },
  K20: {
    sentence: "a hash stands for the same parent, tokens and extra keys",
    severity: "E",
    means: "A router takes another prompt for cached.",
  },
  K21: {
    sentence: "block size of the events = block size on the metrics page",
    severity: "E",
    unless: "Needs --metrics.",
    means: "A router that reads the page cuts prompts into other blocks.",
  },
  K22: {
    sentence: "from rest to rest, stored tokens = computed tokens on the metrics page, up to a block per request",
    severity: "E",
    unless: "Needs --metrics, --clean, no running request at both ends, and no preemption.",
    means: "Events were never sent, or blocks were stored that nobody computed.",
  },
} as const satisfies Record<string, KvLaw>;

/** Number of a law, such as K04. */
export type KvLawId = keyof typeof laws;
/** The laws by their numbers. */
export const KV_LAWS: Readonly<Record<KvLawId, KvLaw>> = laws;
export const KV_LAW_IDS = Object.keys(KV_LAWS) as readonly KvLawId[];
