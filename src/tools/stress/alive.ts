/**
 * Runs cases through client processes that stay alive (`understudy-client/1`). Such a process reads one case per line from
 * standard input, as JSON, and answers each with a line of JSON. It gets one case at a time; several processes serve several
 * cases.
 */
import { parsedJson } from "../../base/json-object.ts";
import { TOOLS } from "./answers.ts";
import { clientEnv } from "./command.ts";
import { ClientProcess, errorLine } from "./process.ts";
import type { StressAsk, StressClient } from "./run.ts";
import { type ClientReport, clientReport, reportIn } from "./seen.ts";

export const ALIVE_PROTOCOL = "understudy-client/1";
/** Maximum number of characters of a line from the client. */
const LINE_MOST = 16 * 2 ** 20;
/** Maximum number of characters of standard error that are kept. The last ones count. */
const COMPLAINT_MOST = 4000;

export interface AliveClient {
  readonly ask: StressClient;
  /** Kills all client processes. */
  close(): void;
}

export function aliveClient(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
): AliveClient {
  const idle: AliveProcess[] = [];
  const all = new Set<AliveProcess>();
  /** Processes kept for a case that will ask again, by the id of the case. */
  const reserved = new Map<string, AliveProcess>();
  const start = () => {
    const process = new AliveProcess(command, clientEnv(env, timeoutMs));
    all.add(process);
    return process;
  };
  const ask = async (request: StressAsk): Promise<ClientReport> => {
    const process = reserved.get(request.id) ?? idle.pop() ?? start();
    reserved.delete(request.id);
    const report = await process.ask(request, timeoutMs);
    if (process.isOver) all.delete(process);
    else if (request.more) reserved.set(request.id, process);
    else idle.push(process);
    return report;
  };
  return {
    ask,
    close() {
      for (const process of all) process.kill();
    },
  };
}

class AliveProcess {
  readonly #child: ClientProcess;
  /** Receives the next line of output. It gets null if the process ended, or if the line is too long. */
  #waiter: ((line: string | null) => void) | null = null;
  #text = "";
  #complaint = "";
  isOver = false;

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    this.#child = new ClientProcess(command, env, "pipe");
    void this.#read();
    void this.#listen();
  }

  async ask({ url, id, signal, more, withTools }: StressAsk, timeoutMs: number): Promise<ClientReport> {
    const measured = this.#child.measure();
    const line = new Promise<string | null>((resolve) => {
      this.#waiter = resolve;
    });
    const abort = () => this.kill();
    signal.addEventListener("abort", abort);
    const caseLine = {
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
    else this.#child.write(`${JSON.stringify(caseLine)}\n`);
    const answer = await line;
    // The case may be aborted after its answer, when this process already runs another case.
    signal.removeEventListener("abort", abort);
    if (answer === null) return this.#crashed(errorLine(this.#complaint) || "the process ended without an answer");
    const report = reportIn(parsedJson(answer));
    if (report !== null) return { ...report, cost: this.isOver ? null : (measured?.() ?? null) };
    return this.#crashed(`a line that is not an answer: ${answer.slice(0, 200)}`);
  }

  kill(): void {
    this.isOver = true;
    this.#child.leave();
  }

  #crashed(why: string): ClientReport {
    this.kill();
    return clientReport({ ended: "crashed", error: why });
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
    const waiter = this.#waiter;
    this.#waiter = null;
    waiter?.(line);
  }
}
