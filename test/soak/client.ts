/** An HTTP client of a soak run. */

/** Time limit for a disturbed answer in milliseconds. Faults end sooner by themselves. */
const DISTURBED_MS = 5000;

export class SoakClient {
  /** Requests that were sent again because their connection was reset before an answer. */
  resent = 0;
  readonly #url: string;
  readonly #keepalive: boolean;

  /** `keepalive`: connections are reused. */
  constructor(url: string, keepalive: boolean) {
    this.#url = url;
    this.#keepalive = keepalive;
  }

  /** Returns the body of the answer. Throws if its status is not one of `statuses`. */
  async post(path: string, body: unknown, statuses: readonly number[] = [200], headers: object = {}): Promise<string> {
    const answer = await this.#send(path, body, headers);
    return wholeBody(`POST ${path}`, answer, statuses);
  }

  async get(path: string): Promise<string> {
    return wholeBody(`GET ${path}`, await fetch(this.#url + path, { keepalive: this.#keepalive }), [200]);
  }

  /** Reads an answer for `afterMs` milliseconds, then disconnects. */
  async leave(path: string, body: unknown, afterMs: number): Promise<void> {
    const leaving = new AbortController();
    const timer = setTimeout(() => leaving.abort(), afterMs);
    try {
      await (await this.#send(path, body, {}, leaving.signal)).text();
    } catch (error) {
      if (!leaving.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a request with a fault in its answer. Any outcome within the time limit is accepted. */
  async disturbed(path: string, body: unknown): Promise<void> {
    const read = async () => (await this.#send(path, body, {}, AbortSignal.timeout(DISTURBED_MS))).text();
    await read().catch(() => {});
  }

  async #send(path: string, body: unknown, headers: object, signal?: AbortSignal): Promise<Response> {
    const sent = typeof body === "string" ? body : JSON.stringify(body);
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers }, body: sent, signal };
    try {
      return await fetch(this.#url + path, { ...init, keepalive: this.#keepalive });
    } catch (error) {
      // A server closes idle connections after 5 s, maybe at the moment when a request is sent. A connection that the server
      // closes by mistake looks the same, so these retries are counted, and the test limits them.
      if (!this.#keepalive || (error as { code?: string }).code !== "ECONNRESET") throw error;
      this.resent++;
      return fetch(this.#url + path, { ...init, keepalive: false });
    }
  }
}

async function wholeBody(name: string, answer: Response, statuses: readonly number[]): Promise<string> {
  const text = await answer.text();
  if (!statuses.includes(answer.status)) throw new Error(`${name}: ${answer.status} ${text.slice(0, 300)}`);
  const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream");
  if (isStream && !text.endsWith("\n\n")) throw new Error(`${name}: a stream ended with ${text.slice(-200)}`);
  return text;
}
