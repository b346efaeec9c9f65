/** Drives a headless Chromium over its DevTools protocol, as far as the tests of the site need it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Path of Chromium, or null if it is missing. */
export const chromium = Bun.which("chromium") ?? Bun.which("chromium-browser");

const FLAGS = ["--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking"];

type Params = Readonly<Record<string, unknown>>;
interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params: Params;
  readonly result?: Params;
  readonly error?: { readonly message: string };
}

/** A page of the browser. */
export interface Tab {
  /** Console errors, exceptions and failed requests since the last `open`. */
  readonly errors: string[];
  /** Addresses that all pages of the tab requested. */
  readonly requests: ReadonlySet<string>;
  /** Opens an address and waits until it has loaded and shows nothing new for two frames. */
  open(url: string): Promise<void>;
  /** Evaluates an expression in the page and returns its value, awaited. Throws if it throws. */
  evaluate<T>(expression: string): Promise<T>;
  /** Calls a method of the protocol. */
  call(method: string, params?: Params): Promise<Params>;
  /** Calls `heard` with the parameters of each event of the protocol that has this name. */
  on(event: string, heard: (params: Params) => void): void;
  setSize(width: number, height: number): Promise<void>;
  /** Returns a picture of the window as PNG. */
  picture(): Promise<Uint8Array>;
}

export class Browser {
  readonly #calls = new Map<number, PromiseWithResolvers<Params>>();
  readonly #listeners = new Map<string, ((message: Message) => void)[]>();
  #id = 0;

  private constructor(
    private readonly socket: WebSocket,
    private readonly child: Bun.Subprocess,
    private readonly profile: string,
  ) {
    socket.onmessage = ({ data }) => this.#take(JSON.parse(String(data)));
  }

  static async start(): Promise<Browser> {
    if (chromium === null) throw new Error("chromium is not on the path");
    const profile = mkdtempSync(join(tmpdir(), "understudy-chromium-"));
    // Chromium cannot use its sandbox as root.
    const more = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    const command = [chromium, ...FLAGS, ...more, `--user-data-dir=${profile}`, "--remote-debugging-port=0"];
    const child = Bun.spawn([...command, "about:blank"], { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const address = await addressIn(child.stderr);
    const socket = new WebSocket(address);
    await new Promise((opened, failed) => {
      socket.onopen = opened;
      socket.onerror = failed;
    });
    return new Browser(socket, child, profile);
  }

  async close(): Promise<void> {
    // A signal would end only the first process at once, while others still write into the profile.
    await this.#call("Browser.close", {});
    await this.child.exited;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  #take(message: Message): void {
    if (message.id === undefined) {
      for (const listener of this.#listeners.get(`${message.sessionId} ${message.method}`) ?? []) listener(message);
      return;
    }
    const call = this.#calls.get(message.id);
    this.#calls.delete(message.id);
    if (message.error) call?.reject(new Error(message.error.message));
    else call?.resolve(message.result ?? {});
  }

  #call(method: string, params: Params, sessionId?: string): Promise<Params> {
    const id = ++this.#id;
    const call = Promise.withResolvers<Params>();
    this.#calls.set(id, call);
    this.socket.send(JSON.stringify({ id, method, params, ...(sessionId ? { sessionId } : {}) }));
    return call.promise;
  }

  async tab(): Promise<Tab> {
    const { targetId } = await this.#call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.#call("Target.attachToTarget", { targetId, flatten: true });
    const call = (method: string, params: Params = {}) => this.#call(method, params, String(sessionId));
    const on = (event: string, heard: (params: Params) => void) => {
      const key = `${sessionId} ${event}`;
      this.#listeners.set(key, [...(this.#listeners.get(key) ?? []), ({ params }) => heard(params)]);
    };
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await call(`${domain}.enable`);
    return tabOf(call, on);
  }
}

/** Returns the address that Chromium writes when its protocol is ready. */
async function addressIn(output: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of output) {
    text += decoder.decode(chunk, { stream: true });
    const address = /DevTools listening on (ws:\S+)/.exec(text)?.[1];
    if (address) return address;
  }
  throw new Error(`chromium ended: ${text}`);
}

function tabOf(call: Tab["call"], on: Tab["on"]): Tab {
  const errors: string[] = [];
  const requests = new Set<string>();
  let loaded = Promise.withResolvers<void>();
  on("Page.loadEventFired", () => loaded.resolve());
  on("Runtime.exceptionThrown", (params) => errors.push(JSON.stringify(params)));
  on("Runtime.consoleAPICalled", (params) => {
    if (params.type === "error" || params.type === "warning") errors.push(JSON.stringify(params.args));
  });
  on("Log.entryAdded", (params) => {
    if ((params.entry as Params).level === "error") errors.push(JSON.stringify(params.entry));
  });
  on("Network.loadingFailed", (params) => {
    if (params.canceled !== true) errors.push(JSON.stringify(params));
  });
  on("Network.requestWillBeSent", (params) => requests.add(String((params.request as Params).url)));
  const evaluate = async <T>(expression: string): Promise<T> => {
    const { result, exceptionDetails } = await call("Runtime.evaluate", {
      ...{ expression, awaitPromise: true, returnByValue: true },
    });
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  };
  return {
    ...{ errors, requests, evaluate, call, on },
    async open(url) {
      errors.length = 0;
      loaded = Promise.withResolvers();
      await call("Page.navigate", { url });
      await loaded.promise;
      await evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    },
    async setSize(width, height) {
      const more = { deviceScaleFactor: 1, mobile: false };
      await call("Emulation.setDeviceMetricsOverride", { width, height, ...more });
    },
    async picture() {
      const { data } = await call("Page.captureScreenshot", { format: "png" });
      return Uint8Array.fromBase64(String(data));
    },
  };
}
