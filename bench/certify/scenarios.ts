/**
 * Lists the scenarios in which load generators are certified. Each run starts a new server with these flags and sends chats,
 * of which at most `concurrency` are open at a time.
 */

export interface Scenario {
  readonly name: string;
  /** Describes the scenario for docs/explanation/measuring.md. */
  readonly about: string;
  readonly serve: readonly string[];
  readonly concurrency: number;
  readonly requests: number;
  /** Output tokens of every request. */
  readonly tokens: number;
  /** `--stream-interval` of the server. */
  readonly interval: number;
  /** True if a proxy (early-role.ts) sends the first chunk, which holds a role and no text, before the server answers. */
  readonly earlyRole?: true;
}

/** The first token of a stream comes after 100 ms, then a token every 20 ms. */
const PACE = ["--timing", "constant:ttft=100ms,itl=20ms"];
const FEW = { concurrency: 8, requests: 40, tokens: 64, interval: 1 };

export const scenarios: readonly Scenario[] = [
  { name: "plain", about: "8 streams, a token every 20 ms, each in a chunk of its own", serve: PACE, ...FEW },
  {
    ...{ name: "chunks of 4", about: "the same with `--stream-interval 4`: after the first token four to a chunk" },
    ...{ serve: [...PACE, "--stream-interval", "4"], ...FEW, interval: 4 },
  },
  {
    ...{ name: "early role", about: "the same as plain, but the chunk that holds only the role comes at once" },
    ...{ serve: PACE, ...FEW, earlyRole: true },
  },
  {
    name: "preemption",
    about: "8 streams of 192 tokens in a pool of 80 blocks: some lose their blocks and pause for a second or more",
    serve: [...PACE, "--num-gpu-blocks-override", "80", "--max-model-len", "1024"],
    ...{ concurrency: 8, requests: 24, tokens: 192, interval: 1 },
  },
  {
    name: "200 streams",
    about: "200 streams, 10,000 chunks a second: more than some clients can read",
    serve: PACE,
    ...{ concurrency: 200, requests: 400, tokens: 128, interval: 1 },
  },
];
