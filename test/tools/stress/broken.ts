/**
 * Clients that are correct except for one mistake each. Written independently of the reader in src, so that neither hides the
 * other's mistakes.
 */
import type { StressClient } from "../../../src/tools/stress/run.ts";
import { type ClientReport, clientReport } from "../../../src/tools/stress/seen.ts";

/** The mistake of a client. Without any field the client is correct. */
export interface Way {
  readonly decodesEachPart?: boolean;
  readonly latin1?: boolean;
  readonly lines?: RegExp;
  readonly dataPrefix?: string;
  readonly comments?: "data";
  readonly keepsMark?: boolean;
  readonly path?: string;
  readonly needsFinish?: false;
  readonly errors?: "ignored";
  readonly afterDone?: "read";
  readonly waitsForClose?: boolean;
  readonly allChoices?: boolean;
  readonly dropsRepeated?: boolean;
  readonly needsChoice?: boolean;
  readonly doneAnywhere?: boolean;
  readonly knownFieldsOnly?: boolean;
  readonly dataLines?: "each";
  /** Dispatches an event without data, and fails because it is not JSON. */
  readonly emptyEvents?: "error";
  readonly noJson?: "ignored" | "crash";
  readonly lineMost?: number;
  readonly trims?: boolean;
  readonly leavesOpen?: boolean;
  readonly calls?: "names added" | "with function";
  /** Replaces the earlier text by the text of each chunk. */
  readonly chunks?: "whole text";
  readonly reasoning?: "text" | "both";
  readonly usage?: "wrong";
  /** Retries: how often, after which failures, and whether it waits before. */
  readonly retries?: { readonly times: number; readonly after: "everything" | "passing"; readonly waits: boolean };
}

const PASSING = [408, 409, 429, 500, 502, 503, 504, 529];

export function client(way: Way): StressClient {
  return async ({ url, signal }) => {
    const { times = 0, after = "passing", waits = true } = way.retries ?? {};
    for (let attempt = 0; ; attempt++) {
      const { seen, status, retryAfter } = await once(url, way, signal);
      const again = seen.error !== null && (after === "everything" || PASSING.includes(status) || status === 0);
      if (!again || attempt >= times) return seen;
      if (waits) await Bun.sleep(Math.min(2, Number(retryAfter) || 0.1) * 1000);
    }
  };
}

/** State of the answer while it is read. */
class Stream {
  text = "";
  reasoning = "";
  finish: string | null = null;
  error: string | null = null;
  done = false;
  usage: ClientReport["usage"] = null;
  readonly calls = new Map<unknown, { id: string; name: string; arguments: string }>();
  #data: string[] = [];
  #event = "";
  #last = "";

  constructor(readonly way: Way) {}

  line(line: string): void {
    const { way } = this;
    if (way.lineMost !== undefined && line.length > way.lineMost) return;
    if (line === "") this.#end();
    if (line.startsWith(":") && way.comments !== "data") return;
    const prefix = way.dataPrefix ?? "data:";
    const [field = ""] = line.split(":");
    if (way.knownFieldsOnly && !["data", "event", "id", "retry", ""].includes(field)) this.error = `field ${field}`;
    if (line.startsWith("event:")) this.#event = line.slice(6).trim();
    if (way.comments === "data" && line.startsWith(":")) this.#data.push(line);
    else if (line.startsWith(prefix)) this.#data.push(line.slice(prefix.length).replace(/^ /, ""));
    else if (line === "data") this.#data.push("");
    if (way.dataLines === "each") this.#end();
  }

  /** Handles the end of the body. */
  over(): void {
    if (this.error === null && this.finish === null && this.way.needsFinish !== false) this.error = "incomplete";
  }

  #end(): void {
    const data = this.#data.join("\n");
    const some = this.#data.length > 0;
    this.#data = [];
    if (some) this.#take(data);
    else if (this.#event !== "" && this.way.emptyEvents === "error") this.error = "no JSON";
    this.#event = "";
  }

  #take(data: string): void {
    const { way } = this;
    if (data === "") return;
    if (this.done && way.afterDone !== "read") return;
    if (/^"?\[DONE\]"?$/.test(data) || (way.doneAnywhere && data.includes("[DONE]"))) {
      this.done = true;
      return;
    }
    let json: ReturnType<typeof JSON.parse>;
    try {
      json = JSON.parse(data);
    } catch {
      if (data.startsWith(":") && way.comments !== "data") return;
      if (way.noJson === "crash") throw new Error("unexpected token");
      if (way.noJson !== "ignored" && !this.done) this.error = "no JSON";
      return;
    }
    if (json.error || this.#event === "error" || json.type === "error") {
      if (way.errors !== "ignored" && !this.done) this.error = json.error?.message ?? "an error";
      return;
    }
    this.#chunk(json);
  }

  #chunk(json: ReturnType<typeof JSON.parse>): void {
    const { way } = this;
    if (json.usage)
      this.usage = {
        prompt: json.usage.prompt_tokens,
        completion: way.usage === "wrong" ? 0 : json.usage.completion_tokens,
      };
    if (way.needsChoice) json.choices[0].index.toString();
    for (const choice of json.choices ?? []) {
      if ((choice.index ?? 0) !== 0 && !way.allChoices) continue;
      for (const call of choice.delta?.tool_calls ?? []) this.#call(call);
      const text: string = choice.delta?.content ?? choice.text ?? "";
      const piece = way.trims ? text.trim() : text;
      const { reasoning, reasoning_content: old } = choice.delta ?? {};
      this.reasoning += way.reasoning === "both" ? (reasoning ?? "") + (old ?? "") : (reasoning ?? old ?? "");
      if (way.reasoning === "text") this.text += reasoning ?? "";
      if (way.chunks === "whole text" && piece !== "") this.text = "";
      if (!(way.dropsRepeated && piece !== "" && this.#last.endsWith(piece))) this.text += piece;
      if (piece !== "") this.#last = piece;
      this.finish = choice.finish_reason || this.finish;
    }
  }

  /** Assigns parts to calls by index. A correct client also checks the id, and gives up if it cannot tell two calls apart. */
  #call(call: ReturnType<typeof JSON.parse>): void {
    const { way } = this;
    const known = this.calls.get(call.index);
    if (way.calls === "with function" && call.function === undefined) this.error = "no function";
    const name: string = call.function?.name ?? "";
    const written = call.function?.arguments ?? "";
    const args = typeof written === "string" ? written : JSON.stringify(written);
    if (call.index === undefined || (known && call.id && known.id !== call.id))
      this.error = "calls that cannot be told apart";
    if (known === undefined) this.calls.set(call.index, { id: call.id, name, arguments: args });
    else {
      if (way.calls === "names added" || name !== known.name) known.name += name;
      known.arguments += args;
    }
  }
}

/** Bodies that are left open. They are kept so that they are not collected. */
const left: unknown[] = [];

async function once(url: string, way: Way, signal: AbortSignal) {
  const stream = new Stream(way);
  let status = 0;
  let retryAfter: string | null = null;
  try {
    const response = await fetch(`${url}${way.path ?? "/chat/completions"}`, {
      method: "POST",
      headers: { "content-type": "application/json", connection: "close" },
      body: JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "x" }], prompt: "x" }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(way.waitsForClose ? 60_000 : 12_000)]),
    });
    ({ status } = response);
    retryAfter = response.headers.get("retry-after");
    if (status !== 200) stream.error = `status ${status}`;
    else await read(response, stream, way);
  } catch (error) {
    if ((error as Error).message === "unexpected token") throw error;
    stream.error ??= (error as Error).message;
  }
  const { text, finish, usage, reasoning, error } = stream;
  const toolCalls = [...stream.calls.values()].map((call) => ({ name: call.name, arguments: call.arguments }));
  const seen = clientReport({
    text,
    finish,
    usage,
    reasoning,
    error,
    toolCalls: toolCalls.length > 0 ? toolCalls : null,
  });
  return { seen, status, retryAfter };
}

async function read(response: Response, stream: Stream, way: Way): Promise<void> {
  const decoder = new TextDecoder(way.latin1 ? "latin1" : "utf-8", { ignoreBOM: way.keepsMark === true });
  const lines = way.lines ?? /\r\n|\n|\r(?!$)/;
  let rest = "";
  const reader = response.body!.getReader();
  for (;;) {
    const { value: part, done } = await reader.read();
    if (done) break;
    rest += way.decodesEachPart ? new TextDecoder().decode(part) : decoder.decode(part, { stream: true });
    const all = rest.split(lines);
    rest = all.pop()!;
    for (const line of all) stream.line(line);
    const isOver = stream.error !== null || (stream.done && way.waitsForClose !== true && way.afterDone !== "read");
    if (isOver && way.leavesOpen) left.push(reader);
    else if (isOver) await reader.cancel();
    if (isOver) return;
  }
  for (const line of rest.split(way.lines ?? /\r/)) stream.line(line);
  stream.line("");
  stream.over();
}
