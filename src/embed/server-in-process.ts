/** Runs a server in this process. Only in Bun. */

import { createRenewableApp, type RenewableApp } from "../app/create-app.ts";
import { epochSeconds, epochUsOf } from "../base/clock.ts";
import { logUnexpected } from "../base/unexpected.ts";
import { refusalOf } from "../cli/serve/serve.ts";
import type { EngineSnapshot } from "../engine/interface/types.ts";
import { RequestHistory } from "../kernel/request-history.ts";
import { whyNotShown } from "../metrics/shown-bugs.ts";
import type { Question } from "../text/canned/fixtures/match.ts";
import { Rules } from "../text/canned/fixtures/rules.ts";
import { unwritable } from "../truth/log.ts";
import type { AskedRequest } from "./answers.ts";
import type { ServerOptions } from "./option-types.ts";
import { deferred, type Running, type Server, type ServerCalls, type ServerState, StartingServer } from "./server.ts";
import { type ServerSetup, serverSetup, withOption } from "./server-options.ts";

/** Starts a server like `understudy serve`, on a free port and without log. Throws a TypeError for a wrong option. */
export function createServer(options: ServerOptions = {}): Server {
  return new StartingServer(start(setupOf(options), options));
}

/** Starts a server with options that have already been checked. */
export const startServer = (options: ServerOptions): Promise<Running> => start(setupOf(options), options);

function setupOf(options: ServerOptions): ServerSetup {
  const setup = serverSetup(options);
  const why = whyNotShown(setup.config);
  if (why !== undefined) throw new TypeError(why);
  return setup;
}

async function start({ config }: ServerSetup, given: ServerOptions): Promise<Running> {
  const truthLog = config.truth.log;
  const why = truthLog && unwritable(truthLog.file);
  if (why) throw new Error(`truthLog ${truthLog.file}: ${why}`);
  const rules: Rules = new Rules(() => app.kernel.text.model.vocabulary.size, config.text.toolCallParser);
  const history = new RequestHistory(
    () => epochSeconds() * 1000,
    (us) => epochUsOf(us) / 1000,
  );
  const ended = deferred<Error | null>();
  // Unlike the command, the library must not exit the user's process.
  const broke = (cause: Error) => {
    ended.resolve(new Error(`the server has ended: its engine broke: ${cause.message}`, { cause }));
    void close(0).catch((error) => logUnexpected("a server whose engine broke did not close", error));
  };
  const options = () => ({ log: () => {}, rules, history, admin: serverSetup(given).admin, broke });
  const app = await createRenewableApp(config, options()).catch((error) => {
    // The command's message names the option.
    const { message } = error as Error;
    const refused = refusalOf(config, error) ?? (message.startsWith("--") ? message : undefined);
    if (refused === undefined) throw error;
    throw Object.assign(new Error(withOption(refused), { cause: error }), codeOf(error));
  });
  let closing: Promise<unknown> | null = null;
  const close = (graceS: number) => {
    closing ??= app.close(graceS);
    return closing;
  };
  const watch = () => {
    const watched = app.kernel;
    void watched.engines.died.then(async () => {
      if (app.kernel !== watched) return;
      await close(0);
      ended.resolve(new Error("the server has ended: the engine is dead, as its script wanted"));
    });
  };
  watch();
  const reset = async () => {
    await app.renew(options(), () => {
      rules.clear();
      history.clear();
    });
    watch();
  };
  const calls = callsOf(app, rules, history, reset);
  return {
    url: app.url,
    metricsUrl: app.tritonUrl,
    ended: ended.promise,
    async call(name, ...args) {
      return (await (calls[name] as (...all: unknown[]) => unknown)(...args)) as never;
    },
    async close() {
      await close(config.shutdownTimeoutS);
      ended.resolve(null);
    },
  };
}

function callsOf(app: RenewableApp, rules: Rules, history: RequestHistory, reset: () => Promise<void>): ServerCalls {
  return {
    requests: () => history.requests(),
    lastRequest: () => history.last(),
    on: (match, answer) =>
      rules.on(typeof match === "function" ? (question: Question) => match(askedOf(question)) : match, answer),
    next: (answer) => rules.next(answer),
    reset,
    snapshot: () => stateOf(app, history),
    page: async () => new TextDecoder().decode(await app.kernel.metrics.renderer.page("role")),
  };
}

const askedOf = (question: Question): AskedRequest => ({
  path: question.path,
  model: question.model,
  user: question.user(),
  headers: question.headers(),
  body: question.body(),
});

function stateOf(app: RenewableApp, history: RequestHistory): ServerState {
  const engines = app.engines.snapshots();
  const sum = (of: (engine: EngineSnapshot) => number) => engines.reduce((all, engine) => all + of(engine), 0);
  return {
    open: history.open,
    running: sum(({ running }) => running),
    waiting: sum(({ waiting }) => waiting),
    kvUsage: sum(({ kvUsage }) => kvUsage) / engines.length,
    promptTokens: sum(({ promptTokens }) => promptTokens),
    generationTokens: sum(({ generationTokens }) => generationTokens),
    preemptions: sum(({ preemptions }) => preemptions),
    engines,
  };
}

const codeOf = ({ code }: { readonly code?: string }) => (code === undefined ? {} : { code });
