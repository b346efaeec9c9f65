/**
 * A short load that uses every thread of a server and checks each page and each answer. Only the order depends on the seed,
 * so that seeds differ in their delays.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { mix } from "./page.ts";
import { type ServerLoad, WrongAnswer } from "./role-load.ts";

/** Intervals, in seeds, at which a load sends a body for the reading thread, renames an adapter, or changes the fixtures. */
const LARGE_BODY_EVERY = 8;
const RENAME_EVERY = 16;
const FIXTURE_EVERY = 4;
const SCRAPES = 12;

export const MODEL = "meta-llama/Llama-3.1-8B-Instruct";
/** A prompt that is too long for the loop's thread to encode by itself. */
export const LONG = "A long prompt is encoded by a thread of its own. ".repeat(12);
const LARGE = "The reading thread gets this. ".repeat(9_500);
const SCHEMA = {
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, count: { type: "integer" } },
  required: ["name", "count"],
};

/** Flags of a server that this load can be put on. `folder` holds its files. */
export function flagsIn(folder: string): string[] {
  return [
    ...["--timing", "constant:ttft=2ms,itl=1ms", "--disable-uvicorn-access-log", "--exit-with-parent"],
    // A delayed client must not find its connection closed when it uses it.
    ...["--timeout-keep-alive", "255"],
    ...["--fixtures", join(folder, "fixtures"), "--truth-log", join(folder, "truth.jsonl")],
  ];
}

export function writeFixture(folder: string, version: number): void {
  writeFileSync(join(folder, "fixtures", "a.yaml"), `match: { user: fixture }\nanswer: version ${version}\n`);
}

/**
 * Returns seed number `n` of those whose load has everything except a renamed adapter, which would replace the metrics
 * thread.
 */
export const seedOfOneThread = (n: number): number => (n * RENAME_EVERY + LARGE_BODY_EVERY) >>> 0;

/** A page that a view shows, and the sums in it that count completed requests. */
interface Scrape {
  readonly path: string;
  readonly format: "text" | "openmetrics";
  readonly counts: RegExp;
}

const HTTP = /^http_requests_total\{handler="\/v1\/chat\/completions",method="POST",status="2xx"\} (\S+)$/gm;
const SUCCESS = /^vllm:request_success_total\{[^}]*\} (\S+)$/gm;
const OWN = /^understudy_requests_total\{[^}]*\} (\S+)$/gm;
const TRITON = /^nv_inference_request_success\{model="ensemble",version="1"\} (\S+)$/gm;

const SCRAPE_KINDS: readonly Scrape[] = [
  { path: "/metrics", format: "text", counts: HTTP },
  { path: "/metrics", format: "text", counts: SUCCESS },
  { path: "/metrics", format: "text", counts: OWN },
  { path: "/metrics/vllm", format: "text", counts: SUCCESS },
  { path: "/metrics/vllm", format: "openmetrics", counts: SUCCESS },
  { path: "/metrics/understudy", format: "text", counts: OWN },
  { path: "/metrics/understudy", format: "openmetrics", counts: OWN },
  { path: "/metrics/triton", format: "text", counts: TRITON },
];

/** Prefixes of names that identify views, and the prefixes of each view. */
const FAMILIES = ["vllm:", "nv_", "understudy_"];
const FAMILIES_OF: Readonly<Record<string, string>> = {
  "/metrics": "vllm: understudy_",
  "/metrics/vllm": "vllm:",
  "/metrics/understudy": "understudy_",
  "/metrics/triton": "nv_",
};

interface Chat {
  readonly name: string;
  readonly body: Readonly<Record<string, unknown>>;
}

const chat = (name: string, text: string, maxTokens: number, more: object = {}): Chat => ({
  name,
  body: { model: MODEL, messages: [{ role: "user", content: text }], max_tokens: maxTokens, seed: 7, ...more },
});

const CHATS: readonly Chat[] = [
  chat("short", "Say a word.", 3),
  chat("short stream", "Say more.", 24, { stream: true }),
  chat("long", LONG, 4),
  chat("long stream", LONG, 12, { stream: true }),
  chat("structured", "Fill it in.", 200, {
    response_format: { type: "json_schema", json_schema: { name: "s", schema: SCHEMA } },
  }),
];
const LARGE_CHAT = chat("large body", LARGE, 4);

/** One server, and the numbers that its pages must agree with. */
export class Load implements ServerLoad {
  readonly #url: string;
  readonly #folder: string;
  readonly #isOneProcess: boolean;
  readonly #expected = new Map<string, string>();
  /** Chats sent, and those whose whole answer has come. */
  #sent = 0;
  completed = 0;
  /** Chats completed before this seed, and before the one before it. */
  #completedBefore: [number, number] = [0, 0];
  /** Newest version written, and the newest that an answer has shown. */
  #written = 0;
  #shown = 0;

  /**
   * `isOneProcess`: false for several processes, which read the fixtures at different times and accept no adapters while they
   * serve.
   */
  constructor(url: string, folder: string, isOneProcess: boolean) {
    this.#url = url;
    this.#folder = folder;
    this.#isOneProcess = isOneProcess;
  }

  /** Sends every request once without delays. Later answers must equal these. */
  async learn(): Promise<void> {
    for (const request of [...CHATS, LARGE_CHAT]) this.#expected.set(request.name, await this.#answer(request));
  }

  /** Rejects with `WrongAnswer`, or the connection's error if the server has ended. */
  async run(seed: number): Promise<void> {
    for (const reason of await this.failures(seed)) throw reason;
  }

  /** Returns the errors of all parts of the load. */
  async failures(seed: number): Promise<unknown[]> {
    this.#completedBefore = [this.completed, this.#completedBefore[0]];
    const tasks: (() => Promise<void>)[] = CHATS.map((request) => () => this.#chat(request));
    for (let at = 0; at < SCRAPES; at++) {
      const kind = SCRAPE_KINDS[mix(seed, at) % SCRAPE_KINDS.length]!;
      // Some before, some during and some after the chats.
      tasks.splice(mix(seed, at, 1) % (tasks.length + 1), 0, () => this.#scrape(kind));
    }
    if (seed % LARGE_BODY_EVERY === 0) tasks.push(() => this.#chat(LARGE_CHAT));
    if (seed % FIXTURE_EVERY === 0) {
      writeFixture(this.#folder, ++this.#written);
      tasks.push(() => this.#fixture());
    }
    if (seed % RENAME_EVERY === 0 && this.#isOneProcess) tasks.push(() => this.#rename(`a${seed}`));
    const settled = await Promise.allSettled(tasks.map((task, at) => Bun.sleep(at % 4).then(task)));
    return settled.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  async #chat(request: Chat): Promise<void> {
    const answer = await this.#answer(request);
    const expected = this.#expected.get(request.name);
    if (answer !== expected)
      throw new WrongAnswer(`${request.name}: ${JSON.stringify(answer)}, expected ${JSON.stringify(expected)}`);
  }

  async #fixture(): Promise<void> {
    const answer = await this.#answer(chat("fixture", "fixture", 20));
    const version = Number(/^version (\d+)$/.exec(answer)?.[1] ?? Number.NaN);
    if (!(version >= this.#shown && version <= this.#written))
      throw new WrongAnswer(
        `fixture: ${JSON.stringify(answer)}, versions ${this.#shown} to ${this.#written} are possible`,
      );
    if (this.#isOneProcess) this.#shown = version;
  }

  /** Loads and unloads an adapter with a new name, which makes the server replace its metrics thread. */
  async #rename(name: string): Promise<void> {
    for (const [path, body] of [
      ["load_lora_adapter", { lora_name: name, lora_path: `/${name}` }],
      ["unload_lora_adapter", { lora_name: name }],
    ] as const) {
      const { status } = await this.#post(path, body);
      if (status !== 200) throw new WrongAnswer(`${path}: ${status}`);
    }
  }

  async #scrape({ path, format, counts }: Scrape): Promise<void> {
    // With several processes, numbers appear one step or 5 ms later (docs/how-to/workers.md), and here some delays later.
    const atLeast = this.#isOneProcess ? this.completed : this.#completedBefore[1];
    const response = await fetch(`${this.#url}${path}?format=${format}`);
    const page = await response.text();
    const where = `${path} as ${format}`;
    if (response.status !== 200) throw new WrongAnswer(`${where}: ${response.status} ${page}`);
    const isOpenMetrics = page.endsWith("# EOF\n");
    if (isOpenMetrics !== (format === "openmetrics")) throw new WrongAnswer(`${where}: a page of the other format`);
    const families = FAMILIES.filter((prefix) => page.includes(`\n${prefix}`)).join(" ");
    if (families !== FAMILIES_OF[path]) throw new WrongAnswer(`${where}: a page of another view, with ${families}`);
    const counted = [...page.matchAll(counts)].reduce((sum, [, value]) => sum + Number(value), 0);
    if (!(counted >= atLeast && counted <= this.#sent))
      throw new WrongAnswer(`${where}: counts ${counted} requests, but ${atLeast} to ${this.#sent} are possible`);
  }

  #post(path: string, body: object): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(`${this.#url}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  }

  /** The text of a whole, successful answer. */
  async #answer({ name, body }: Chat): Promise<string> {
    this.#sent++;
    const response = await this.#post("chat/completions", body);
    const text = await response.text();
    if (response.status !== 200) throw new WrongAnswer(`${name}: ${response.status} ${text}`);
    const answer =
      body.stream === true ? streamed(name, text) : (JSON.parse(text) as WholeAnswer).choices[0].message.content;
    this.completed++;
    return answer;
  }
}

interface WholeAnswer {
  readonly choices: readonly [{ readonly message: { readonly content: string } }];
}
interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string }; readonly finish_reason: string | null }[];
}

export function streamed(name: string, text: string): string {
  const events = text.split("\n\n").filter((event) => event !== "");
  if (events.pop() !== "data: [DONE]") throw new WrongAnswer(`${name}: the stream has no end`);
  const chunks = events.map((event) => JSON.parse(event.slice("data: ".length)) as Chunk);
  const finished = chunks.filter(({ choices }) => choices[0]?.finish_reason != null).length;
  if (finished !== 1) throw new WrongAnswer(`${name}: ${finished} chunks with a finish reason`);
  return chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
}
