/** Lets the tests of a process share a server, in any test runner: one test after the other, with a reset in between. */
import type { ServerOptions } from "./option-types.ts";
import type { Server } from "./server.ts";

/** A test function with a server as first argument, followed by the arguments of the test runner. */
export type ServerTest<Given extends readonly unknown[]> = (server: Server, ...given: Given) => unknown;

/** Converts a `ServerTest` into a test function for the runner. */
export type TestWithServer = <Given extends readonly unknown[]>(
  test: ServerTest<Given>,
) => (...given: Given) => Promise<void>;

type Create = (options: ServerOptions) => Server;

/** Shared servers by their options. */
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
   * Calls `act` with the server after earlier calls have ended, and resets it afterwards. Rejects with the error of `act`,
   * or if a predicate of the test has thrown.
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

  /** Resets the server. If that fails, it has ended or was closed by the test, and the next test gets a new server. */
  async #renew(server: Server): Promise<void> {
    const alive = await server.snapshot().then(
      () => true,
      () => false,
    );
    if (alive) return server.reset();
    this.#server = null;
  }
}

/** Appends the server's timeline to an error. */
export async function told(why: unknown, server: Server): Promise<unknown> {
  const story = await server.timeline().catch(({ message }: Error) => message);
  const error = why instanceof Object && "message" in why ? (why as Error) : new Error(String(why));
  amend(error, story);
  return error;
}

/** Appends to both message and stack, because test runners show one or the other. */
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
