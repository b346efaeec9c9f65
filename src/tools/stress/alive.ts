/**
 * How does a client go through its cases that stays alive? `understudy-client/1`: it reads a case per line, JSON, from its
 * standard input and writes what it saw, a line of JSON, for each. One case at a time; several processes for several cases.
 */
import { TOOLS } from "./answers.ts";
import { clientEnv } from "./command.ts";
import { ClientProcess } from "./process.ts";
import type { StressAsk, StressClient } from "./run.ts";
import { type SeenAnswer, seenAnswer, seenIn } from "./seen.ts";

export const ALIVE_PROTOCOL = "understudy-client/1";
/** Longest line that is read. */
const LINE_MOST = 16 * 2 ** 20;
/** The last of what it complains of that is kept. */
const COMPLAINT_MOST = 4000;

export interface AliveClient {
  readonly ask: StressClient;
  /** Ends all its processes. */
  close(): void;
}

export function aliveClient(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
): AliveClient {
  const idle: AliveProcess[] = [];
  const all = new Set<AliveProcess>();
  /** By case: it will be asked again. */
  const reserved = new Map<string, AliveProcess>();
  const start = () => {
    const one = new AliveProcess(command, clientEnv(env, timeoutMs));
    all.add(one);
    return one;
  };
  const ask = async (asked: StressAsk): Promise<SeenAnswer> => {
    const one = reserved.get(asked.id) ?? idle.pop() ?? start();
    reserved.delete(asked.id);
    const seen = await one.ask(asked, timeoutMs);
    if (one.isOver) all.delete(one);
    else if (asked.more) reserved.set(asked.id, one);
    else idle.push(one);
    return seen;
  };
  return {
    ask,
    close() {
      for (const one of all) one.kill();
    },
  };
}

class AliveProcess {
  readonly #child: ClientProcess;
  /** Settles with the next line; null: there is none, or it is too long. */
  #wanted: ((line: string | null) => void) | null = null;
  #text = "";
  #complaint = "";
  isOver = false;

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    this.#child = new ClientProcess(command, env, "pipe");
    void this.#read();
    void this.#listen();
  }

  async ask({ url, id, signal, more, withTools }: StressAsk, timeoutMs: number): Promise<SeenAnswer> {
    const measured = this.#child.measure();
    const line = new Promise<string | null>((resolve) => {
      this.#wanted = resolve;
    });
    const left = () => this.kill();
    signal.addEventListener("abort", left);
    const asked = {
      protocol: ALIVE_PROTOCOL,
      case: id,
      baseUrl: url,
      anthropicBaseUrl: url.replace(/\/v1$/, ""),
      model: "m",
      timeoutMs,
      more,
      ...(withTools ? { tools: TOOLS } : {}),
    };
    if (this.isOver) this.#next(null);
    else this.#child.write(`${JSON.stringify(asked)}\n`);
    const said = await line;
    // The case may be judged for a while yet, and the process be in another one by then.
    signal.removeEventListener("abort", left);
    if (said === null) return this.#crashed(this.#complaint.trim().split("\n").at(-1) || "it ended without an answer");
    const seen = seenIn(parsed(said));
    if (seen !== null) return { ...seen, cost: this.isOver ? null : (measured?.() ?? null) };
    return this.#crashed(`a line that is no answer: ${said.slice(0, 200)}`);
  }

  kill(): void {
    this.isOver = true;
    this.#child.leave();
  }

  #crashed(why: string): SeenAnswer {
    this.kill();
    return seenAnswer({ ended: "crashed", error: why });
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const part of this.#child.stdout) {
      this.#text += decoder.decode(part, { stream: true });
      for (let end = this.#text.indexOf("\n"); end !== -1; end = this.#text.indexOf("\n")) {
        const line = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 1);
        if (line.trim() !== "") this.#next(line);
      }
      if (this.#text.length > LINE_MOST) break;
    }
    this.kill();
    this.#next(null);
  }

  async #listen(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const part of this.#child.stderr)
      this.#complaint = (this.#complaint + decoder.decode(part, { stream: true })).slice(-COMPLAINT_MOST);
  }

  #next(line: string | null): void {
    const wanted = this.#wanted;
    this.#wanted = null;
    wanted?.(line);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
