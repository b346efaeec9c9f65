/** `understudy health`: asks a server whether it is ready, with --wait until it is. Prints one line and sets the exit code. */

import { WallClock } from "../../base/clock.ts";
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import type { FetchOptions } from "../../tools/load/server.ts";
import { takeOptions } from "../options/take-options.ts";
import { printErrorLine, printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { DEFAULT_URL, type HealthValues, healthHelp, healthOptions } from "./health-options.ts";
import { type Readiness, readinessOf } from "./readiness.ts";

const refuse = refuser("health");
/** Pause between two requests of --wait, in microseconds. */
const RETRY_US = 200_000;
const TIMEOUT_S = 5;
/** Minimum timeout in seconds of a request. The last request of --wait gets this timeout even if less time is left. */
const SHORTEST_TIMEOUT_S = 0.1;

export async function runHealth(argv: readonly string[]): Promise<void> {
  const taken = takeOptions(healthOptions, argv);
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(healthHelp());
  const flag = rest.find((word) => word.startsWith("-"));
  if (flag !== undefined) return refuse(`${flag}: unknown flag (understudy health --help lists the options)`);
  if (rest.length > 1) return refuse(`takes one URL, not ${rest.length} (understudy health --help)`);
  const base = baseOf(rest[0] ?? DEFAULT_URL);
  if (base === null) return refuse(`"${rest[0]}": must be an http or https URL, as in ${DEFAULT_URL}`);
  const options = fetchOptionsOf(values);
  if ("error" in options) return refuse(options.error);
  const { isReady, reason } = await waitForReadiness(base, values, options);
  if (isReady) printText(`${base}: ${reason}`);
  else {
    printErrorLine(`${base}: ${reason}`);
    process.exitCode = 1;
  }
}

/**
 * Returns the address without a final slash and without the path `/v1`, which is part of a client's base URL. Returns null if
 * the address is not an HTTP URL.
 */
function baseOf(written: string): string | null {
  const text = /^[a-z]+:\/\//i.test(written) ? written : `http://${written}`;
  if (!URL.canParse(text)) return null;
  const { protocol, host, pathname } = new URL(text);
  if (protocol !== "http:" && protocol !== "https:") return null;
  return `${protocol}//${host}${pathname.replace(/(\/v1)?\/*$/, "")}`;
}

function fetchOptionsOf(values: HealthValues): FetchOptions | { readonly error: string } {
  const key = values["api-key"];
  const file = values["ssl-ca-certs"];
  let ca: string | undefined;
  try {
    if (file !== undefined) ca = textAtMost(file, NAMED_FILE_BYTES_MOST);
  } catch (failure) {
    return {
      error: `--ssl-ca-certs ${file}: cannot be read (${(failure as { code?: string }).code ?? (failure as Error).message})`,
    };
  }
  return {
    headers: key === undefined ? {} : { Authorization: `Bearer ${key}` },
    tls: { rejectUnauthorized: values.insecure !== true, ...(ca === undefined ? {} : { ca }) },
  };
}

async function waitForReadiness(base: string, values: HealthValues, options: FetchOptions): Promise<Readiness> {
  const clock = new WallClock();
  const { wait = 0, timeout = TIMEOUT_S } = values;
  const untilUs = clock.now() + wait * 1e6;
  try {
    for (;;) {
      const leftS = Math.max(Math.ceil((untilUs - clock.now()) / 1e5) / 10, SHORTEST_TIMEOUT_S);
      const timeoutS = wait === 0 ? timeout : Math.min(timeout, leftS);
      const readiness = await readinessOf(base, values.model, options, timeoutS, clock);
      const nextUs = clock.now() + RETRY_US;
      if (readiness.isReady || nextUs > untilUs) return readiness;
      await new Promise<void>((resolve) => clock.at(nextUs, resolve));
    }
  } finally {
    clock.close();
  }
}
