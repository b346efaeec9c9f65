/** Chooses the client under test: the user's command, our reference client, or a pinned one of the checkout (test/clients/drivers). */
import { existsSync, readFileSync } from "node:fs";
import { homepage } from "../../../package.json";
import type { WallClock } from "../../base/clock.ts";
import { ALIVE_PROTOCOL, aliveClient } from "../../tools/stress/alive.ts";
import { commandClient } from "../../tools/stress/command.ts";
import { referenceClient } from "../../tools/stress/reference.ts";
import type { StressClient } from "../../tools/stress/run.ts";
import type { StressValues } from "./stress-options.ts";

/** A row of test/clients/drivers/drivers.json. */
export interface Driver {
  /** Program and arguments, relative to the root of the checkout. It speaks `understudy-client/1`. */
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Number of retries that the client documents; null: it documents none. */
  readonly retries: number | null;
}

export interface ChosenClient {
  readonly name: string;
  readonly client: StressClient;
  readonly retries: number | null;
  close(): void;
}

const DRIVERS = "test/clients/drivers/drivers.json";
/** Most folders above this file that are searched. The bundle of a checkout is in `build/programs/NAME/`, less deep than this. */
const LEVELS_MOST = 6;
const TIMEOUT_S = 2;
/** Most characters of a command in the title of a report. */
const NAME_CHARACTERS = 80;

/**
 * Finds the checkout that holds this file or its bundle, and returns its folder with a slash at the end. Returns null for the
 * published package and for a single file, which have no drivers.
 */
function checkout(): string | null {
  if (Bun.isStandaloneExecutable) return null;
  for (let level = 0, folder = new URL("./", import.meta.url); level <= LEVELS_MOST; level++) {
    if (existsSync(new URL(DRIVERS, folder))) return Bun.fileURLToPath(folder);
    folder = new URL("../", folder);
  }
  return null;
}

/** Returns the table of pinned clients. It is empty outside of a checkout. */
export function drivers(): Readonly<Record<string, Driver>> {
  const root = checkout();
  return root === null ? {} : JSON.parse(readFileSync(root + DRIVERS, "utf8"));
}

/** Returns the client, or an error message. */
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

/** Starts a pinned client. Returns an error message if its program is missing. */
function pinned(name: string, driver: Driver, timeoutMs: number, retries: number | undefined): ChosenClient | string {
  const root = checkout()!; // the driver is from its table
  const [program = "", ...words] = driver.command;
  const path = program === "bun" ? process.execPath : program.includes("/") ? root + program : Bun.which(program);
  if (path === null || !existsSync(path))
    return `--client ${name}: ${program} is not there (docs/reference/client-verdicts.md)`;
  const absolute = words.map((word) => (word.startsWith("test/clients/") ? root + word : word));
  const env = { ...process.env, ...driver.env };
  return alive(name, [path, ...absolute], env, timeoutMs, retries ?? driver.retries);
}
