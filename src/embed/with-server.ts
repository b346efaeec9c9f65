/** How do the tests of a process share a server, whatever runs them? One after the other, each with a server that is new to it. */
import type { ServerOptions } from "./option-types.ts";
import type { Server } from "./server.ts";

/** A test that is given a server, and then what its runner gives. */
export type ServerTest<Given extends readonly unknown[]> = (server: Server, ...given: Given) => unknown;

/** Makes a test of one that is given a server. */
export type TestWithServer = <Given extends readonly unknown[]>(
  test: ServerTest<Given>,
) => (...given: Given) => Promise<void>;

type Create = (options: ServerOptions) => Server;

/** By their options; each with what it is doing. */
const shared = new Map<string, SharedServer>();

export const sharedServer = (create: Create, options: ServerOptions): SharedServer => {
  const key = JSON.stringify(options);
  const one = shared.get(key) ?? new SharedServer(() => create(options));
  shared.set(key, one);
  return one;
};

export class SharedServer {
  readonly #create: () => Server;
  #server: Server | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(create: () => Server) {
    this.#create = create;
  }

  /**
   * Calls `act` with the server when those before have come to their end, and resets it afterwards. Rejects as `act` does,
   * and where a predicate of the test's has thrown.
   */
  lend(act: (server: Server) => Promise<void>): Promise<void> {
    const lent = this.#turn.then(async () => {
      const server = await this.#started();
      try {
        await act(server);
      } catch (why) {
        await this.#renew(server).catch(() => {});
        throw why;
      }
      await this.#renew(server);
    });
    this.#turn = lent.catch(() => {});
    return lent;
  }

  #started(): Promise<Server> {
    this.#server ??= this.#create();
    return this.#server.ready;
  }

  /** A server that cannot be reset has ended, or the test has closed it: the next test gets another. */
  async #renew(server: Server): Promise<void> {
    const alive = await server.snapshot().then(
      () => true,
      () => false,
    );
    if (alive) return server.reset();
    this.#server = null;
  }
}

/** What the server saw, behind an error's own words. */
export async function told(why: unknown, server: Server): Promise<unknown> {
  const story = await server.timeline().catch(({ message }: Error) => message);
  const error = why instanceof Object && "message" in why ? (why as Error) : new Error(String(why));
  amend(error, story);
  return error;
}

/** Runners show the one or the other. */
export function amend(error: { message: string; stack?: string | undefined }, story: string): void {
  const { message, stack } = error;
  const longer = `${message}\n\n${story}`;
  error.message = longer;
  if (stack?.includes(message)) error.stack = stack.replace(message, () => longer);
}

export const withServerOf =
  (create: Create) =>
  (options: ServerOptions = {}): TestWithServer =>
  (test) =>
  (...given) =>
    sharedServer(create, options).lend(async (server) => {
      try {
        await test(server, ...given);
      } catch (why) {
        throw await told(why, server);
      }
    });
