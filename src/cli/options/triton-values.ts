/** Parses the kinds of values that only flags of `tritonserver` have, as its `command_line_parser.cc` (2026) does. */

import type { RestrictedApis, TritonLoadTime, TritonResource } from "../../servers/triton/config/triton-config.ts";
import { integer, type Option, one } from "./option.ts";

/**
 * Makes an option for a 64-bit integer, like Triton's `ParseOption<int64_t>`. Values above `Number.MAX_SAFE_INTEGER` become
 * that number.
 */
export const int64 = (min: number): Option<number> =>
  one("N", `a whole number of 64 bits from ${min}`, (text) => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
    const fits = value >= min && BigInt(text.replace("+", "")) < 2n ** 63n;
    return fits ? Math.min(value, Number.MAX_SAFE_INTEGER) : undefined;
  });

/** Option for a log level as a number or truth value, like Triton's `ParseIntBoolOption`: true is 1, false is 0. */
export const verbosity: Option<number> = one("N", "a whole number from 0 to 2147483647, true or false", (text) => {
  const lower = text.toLowerCase();
  return lower === "true" ? 1 : lower === "false" ? 0 : integer(0).read([text]);
});

export const LOAD_TIME_FORMS = "seconds from 0 to 3600, also as base=1.3,per_gib=0.4";
const LONGEST_S = 3600;

export function loadTimeIn(text: string): TritonLoadTime | undefined {
  const [, bare, base, perGib = "0"] =
    /^(?:(\d+\.?\d*|\.\d+)|base=(\d+\.?\d*|\.\d+)(?:,per_gib=(\d+\.?\d*|\.\d+))?)$/.exec(text) ?? [];
  const [baseS, perGibS] = [Number(bare ?? base ?? Number.NaN), Number(perGib)];
  return baseS <= LONGEST_S && perGibS <= LONGEST_S ? { baseS, perGibS } : undefined;
}

export const UNLOAD_TIME_FORMS = "seconds from 0 to 3600";

export function unloadSecondsIn(text: string): number | undefined {
  const seconds = /^(\d+\.?\d*|\.\d+)$/.test(text) ? Number(text) : Number.NaN;
  return seconds <= LONGEST_S ? seconds : undefined;
}

/**
 * Parses texts of the form DEVICE:FRACTION. Returns the fraction by GPU, the last one if a GPU is named again. Returns
 * undefined if a text is malformed.
 */
export function loadLimitsIn(texts: readonly string[]): ReadonlyMap<number, number> | undefined {
  const found = texts.map((text) => /^(\d{1,6}):(0|1|[01]?\.\d+|1\.0*|0\.)$/.exec(text));
  if (found.some((match) => match === null || Number(match[2]) > 1)) return undefined;
  return new Map(found.map((match) => [Number(match![1]), Number(match![2])]));
}

export const RESTRICTED_NAMES = [
  "health",
  "metadata",
  "inference",
  "shared-memory",
  "model-config",
  "model-repository",
  "statistics",
  "trace",
  "logging",
];

/** Parses a text of the form `APIS:KEY=VALUE`, where APIS are names separated by commas. */
export function readRestricted(text: string): RestrictedApis | { readonly error: string } {
  const [, list = "", header, value] = /^([^:]+):([^=]+)=(.+)$/s.exec(text) ?? [];
  if (header === undefined || value === undefined)
    return { error: `"${text}": must be APIS:KEY=VALUE, as model-repository,logging:admin=yes` };
  const apis = list.split(",").map((api) => api.trim());
  const strange = apis.find((api) => !RESTRICTED_NAMES.includes(api));
  if (strange !== undefined)
    return { error: `unknown restricted api '${strange}': ${RESTRICTED_NAMES.join(", ")} are accepted` };
  return { apis, header, value };
}

/** Parses a value of `--rate-limit-resource`: `NAME:COUNT` or `NAME:COUNT:DEVICE`. Without DEVICE the device is -1. */
export function readResource(text: string): TritonResource | { readonly error: string } {
  const [, name, count, device = "-1"] = /^([^:]*):(\d+)(?::(-?\d+))?$/.exec(text) ?? [];
  if (name === undefined)
    return {
      error: `--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got ${text}`,
    };
  return { name, count: Number(count), device: Number(device) };
}
