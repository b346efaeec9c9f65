/**
 * Chooses the client under test: a command of the user, our reference client, or a client of the checkout with a pinned version
 * (test/clients/drivers).
 */
import { existsSync, readFileSync } from "node:fs";
import { homepage } from "../../../package.json";
import type { WallClock } from "../../base/clock.ts";
import { ALIVE_PROTOCOL, aliveClient } from "../../tools/stress/alive.ts";
import { commandClient } from "../../tools/stress/command.ts";
import { referenceClient } from "../../tools/stress/reference.ts";
import type { StressClient } from "../../tools/stress/run.ts";
import { checkout, DRIVERS } from "../checkout.ts";
import type { StressValues } from "./stress-options.ts";

/** A row of test/clients/drivers/drivers.json: a pinned client. */
export interface Driver {
  /** Program and arguments, relative to the root of the checkout. The program speaks the protocol `understudy-client/1`. */
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Number of retries that the client's documentation states. Null if it states no number. */
  readonly retries: number | null;
}

export interface ChosenClient {
  readonly name: string;
  readonly client: StressClient;
  readonly retries: number | null;
  close(): void;
}

const TIMEOUT_S = 2;
/** Maximum number of characters of a command in the title of a report. */
const NAME_CHARACTERS = 80;

/** Returns the table of pinned clients, which is empty outside of a checkout. */
export function drivers(): Readonly<Record<string, Driver>> {
  const root = checkout();
  return root === null ? {} : JSON.parse(readFileSync(root + DRIVERS, "utf8"));
}

/** Returns the client under test, or an error message. */
export function chosenClient(
  command: readonly string[],
  { client, protocol, timeout = TIMEOUT_S, retries }: StressValues,
  clock: WallClock,
): ChosenClient | string {
  const timeoutMs = timeout * 1000;
  if (client !== undefined) {
    if (client === "reference") return reference(clock, timeoutMs, retries);
    const driver = drivers()[client];
    if (driver === undefined) return `--client ${client}: takes reference${named(Object.keys(drivers()))}`;
    return pinned(client, driver, timeoutMs, retries);
  }
  if (Bun.which(command[0]!) === null) return `-- ${command[0]}: no such program`;
  const name = command.join(" ").replace(/\s+/g, " ").slice(0, NAME_CHARACTERS);
  if (protocol === ALIVE_PROTOCOL) return alive(name, command, process.env, timeoutMs, retries ?? null);
  const once = commandClient(command, process.env, timeoutMs);
  return { name, client: once, retries: retries ?? null, close() {} };
}

const named = (names: readonly string[]) =>
  names.length === 0
    ? `; the pinned clients are programs of a checkout (${homepage.replace(/#.*/, "")}, folder test/clients/drivers)`
    : `, ${names.join(", ")}`;

function reference(clock: WallClock, timeoutMs: number, retries: number | undefined): ChosenClient {
  const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
  return {
    name: "reference",
    client: referenceClient(timer, timeoutMs, retries ?? 0),
    retries: retries ?? null,
    close() {},
  };
}

function alive(
  name: string,
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
  retries: number | null,
): ChosenClient {
  const { ask, close } = aliveClient(command, env, timeoutMs);
  return { name, client: ask, retries, close };
}

/** Starts a client whose version the checkout pins. Returns an error message if the client's program is missing. */
function pinned(name: string, driver: Driver, timeoutMs: number, retries: number | undefined): ChosenClient | string {
  const root = checkout()!; // There is a checkout, because only its files list such clients.
  const [program = "", ...words] = driver.command;
  const path = program === "bun" ? process.execPath : program.includes("/") ? root + program : Bun.which(program);
  if (path === null || !existsSync(path))
    return `--client ${name}: ${program} is not there (docs/reference/client-verdicts.md)`;
  const absolute = words.map((word) => (word.startsWith("test/clients/") ? root + word : word));
  const env = { ...process.env, ...driver.env };
  return alive(name, [path, ...absolute], env, timeoutMs, retries ?? driver.retries);
}
