/** Parses a model version like `std::stoll`. Source: `GetModelVersionFromString` in `http_server.cc` and `grpc_server.cc`. */
import { invalidArg } from "../model-config/status.ts";
import type { VersionNumber } from "./table.ts";

const LARGEST = 2n ** 63n - 1n;
/** Numbers of at most this many characters fit in 64 bits. */
const SHORT_DIGITS = 15;

/** Returns the version, or -1 for the highest one. Throws a `TritonError`. */
export function versionNumber(text: string | undefined): VersionNumber {
  if (text === undefined || text === "") return -1;
  const [digits] = /^\s*[+-]?\d+/.exec(text) ?? [];
  if (digits !== undefined && (digits.length <= SHORT_DIGITS || fits(BigInt(digits)))) {
    const version = digits.length <= SHORT_DIGITS ? Number(digits) : exact(BigInt(digits));
    if (version >= 0) return version;
    throw invalidArg(`invalid model version specified '${text}' , version should be an integral value > 0`);
  }
  throw invalidArg(
    `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`,
  );
}

const exact = (value: bigint): VersionNumber => (BigInt(Number(value)) === value ? Number(value) : value);
const fits = (value: bigint): boolean => value <= LARGEST && value >= -LARGEST - 1n;
