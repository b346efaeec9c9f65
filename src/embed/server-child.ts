/** A server for programs that do not run on Bun. It runs in the child process of `child-link.ts`. */

import type { AskedRequest } from "./answers.ts";
import type { ChildLine, LinkListener } from "./child-link.ts";
import { type Front, type FrontOptions, frontOf, type RunningFront } from "./front.ts";
import type { ServerOptions } from "./option-types.ts";
import { deferred, type OpenPromise, type Running, type Server, StartingServer } from "./server.ts";

type ChildLink = typeof import("./child-link.ts");

/** A message of the child process about a server, one line. */
export type ChildReport =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string; readonly name: string; readonly code?: string | undefined }
  /** The server has ended unexpectedly; the reason. */
  | { readonly ended: string }
  /** Asks whether the caller's predicate with this number holds. The answer is `told`, with the number `asks`. */
  | { readonly asks: number; readonly predicate: number; readonly request: AskedRequest };

/** A message to the child process, one line. */
export interface ChildRequest {
  readonly id: number;
  readonly call: string;
  readonly args: readonly unknown[];
}

export interface ServerUrls {
  readonly url: string;
  readonly metricsUrl: string | null;
}

let loaded: ChildLink | undefined;

/**
 * Loads `child-link` by Node's own loader, past that of a test runner, so that a process has one child, also for browsers that
 * a runner simulates.
 */
function childLink(): ChildLink {
  const host: Partial<NodeJS.Process> | undefined = globalThis.process;
  const { createRequire } = host?.getBuiltinModule?.("module") ?? {};
  if (createRequire === undefined) throw new Error("a server runs in Bun, in Node from 20.16 on, and in no browser");
  loaded ??= createRequire(import.meta.url)("./child-link.cjs") as ChildLink;
  return loaded;
}

/** `understudy serve` on a free port, without a log. Throws a TypeError for a wrong option. */
export function createServer(options: ServerOptions = {}): Server {
  const link = childLink();
  const why = link.whyNot(options);
  if (why !== null) throw new TypeError(why);
  return new StartingServer(new Remote(link).start(options));
}

/** Starts a front end with our engine behind it. Rejects with a TypeError for wrong options, and if it does not become ready. */
export const startFront = async (options: FrontOptions): Promise<Front> =>
  frontOf(await new Remote(childLink()).startFront(options));

/** A server in the child process. */
class Remote implements LinkListener {
  readonly #link: ChildLine;
  readonly #answers = new Map<number, OpenPromise<unknown>>();
  readonly #ended = deferred<Error | null>();
  readonly #predicates: ((request: AskedRequest) => Promise<boolean>)[] = [];
  #gone: string | null = null;
  #next = 1;

  constructor({ openLink }: ChildLink) {
    this.#link = openLink(process.cwd(), this);
  }

  async start(options: ServerOptions): Promise<Running> {
    return this.#running((await this.#call("start", [options])) as ServerUrls);
  }

  async startFront(options: FrontOptions): Promise<RunningFront> {
    const urls = (await this.#call("startFront", [options])) as ServerUrls & { readonly frontUrl: string };
    return Object.assign(this.#running(urls), {
      frontUrl: urls.frontUrl,
      frontOutput: () => this.#call("frontOutput", []) as Promise<string>,
    });
  }

  #running({ url, metricsUrl }: ServerUrls): Running {
    const { promise } = this.#ended;
    let heard: typeof promise | null = null;
    const whileHeard = () => {
      this.#link.wait(1);
      return promise.finally(() => this.#link.wait(-1));
    };
    return {
      ...{ url, metricsUrl },
      get ended() {
        heard ??= whileHeard();
        return heard;
      },
      call: (name, ...args) => this.#call(name, args.map(this.#sendable)) as Promise<never>,
      close: async () => {
        if (this.#gone === null) await this.#call("close", []).catch(() => {});
        this.#link.close();
        this.#ended.resolve(null);
      },
    };
  }

  heard(text: string): void {
    const report = JSON.parse(text) as ChildReport;
    if ("ended" in report) {
      this.#ended.resolve(new Error(report.ended));
      return;
    }
    if ("asks" in report) {
      void this.#tell(report.asks, report.predicate, report.request);
      return;
    }
    const answer = this.#answers.get(report.id);
    this.#answers.delete(report.id);
    this.#link.wait(-1);
    if ("error" in report) answer?.reject(errorOf(report));
    else answer?.resolve(report.value);
  }

  /** Replaces functions by numbers, because they cannot be sent. The child asks for their results. */
  readonly #sendable = (argument: unknown): unknown => {
    if (typeof argument !== "function") return argument;
    this.#predicates.push(argument as (request: AskedRequest) => Promise<boolean>);
    return { predicate: this.#predicates.length - 1 };
  };

  async #tell(question: number, predicate: number, request: AskedRequest): Promise<void> {
    // An error of the predicate reaches its owner by `close` or `reset`.
    const holds = await this.#predicates[predicate]!(request).then(Boolean, () => null);
    this.#link.send(JSON.stringify({ id: question, call: "told", args: [holds] } satisfies ChildRequest));
  }

  gone(why: string): void {
    this.#gone = why;
    for (const { reject } of this.#answers.values()) reject(new Error(why));
    this.#answers.clear();
    this.#ended.resolve(new Error(why));
  }

  #call(call: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#gone !== null) return Promise.reject(new Error(this.#gone));
    const answer = deferred<unknown>();
    const id = this.#next++;
    this.#answers.set(id, answer);
    this.#link.wait(1);
    this.#link.send(JSON.stringify({ id, call, args } satisfies ChildRequest));
    return answer.promise;
  }
}

function errorOf({ error, name, code }: Extract<ChildReport, { readonly error: string }>): Error {
  const made =
    name === "TypeError" ? new TypeError(error) : name === "RangeError" ? new RangeError(error) : new Error(error);
  return Object.assign(made, code === undefined ? {} : { code });
}
