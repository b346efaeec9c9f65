/** The configuration of the listeners. */

import { completeFrontLimits, type FrontLimits, type PartialFrontLimits } from "../http/front-limits.ts";
import type { StreamWritesOrder } from "../lanes/stream-write-modes.ts";
import { type TlsConfig, tlsOf } from "../tls/tls-config.ts";

/** Address of a server, and its limits for connections and bodies. */
export interface ListenConfig {
  readonly host: string;
  readonly port: number;
  /** Port for HTTP/2. Absent: HTTP/2 is off. */
  readonly http2Port?: number;
  /** Absent: plain HTTP. */
  readonly tls?: TlsConfig | "self-signed";
  /** Hosts whose requests are answered, on every HTTP port. Absent: all hosts. */
  readonly allowedHosts?: readonly string[];
  /** Absent: the defaults of `wire/http/front-limits.ts`. */
  readonly frontLimits?: FrontLimits;
  readonly maxBodyBytes: number;
  /** Absent: auto. */
  readonly streamWrites?: StreamWritesOrder;
}

type ListenInput = Omit<ListenConfig, "tls" | "frontLimits"> & {
  readonly tls: Parameters<typeof tlsOf>[0];
  readonly frontLimits?: PartialFrontLimits;
};

/** Completes the configuration. `isSelfSigned`: true if the server makes a certificate of its own. */
export function completeListen(
  { tls: files, frontLimits = {}, ...given }: ListenInput,
  isSelfSigned: boolean,
): ListenConfig {
  const tls = isSelfSigned ? "self-signed" : tlsOf(files);
  const limits = completeFrontLimits(frontLimits);
  return { ...given, ...(tls ? { tls } : {}), ...(limits ? { frontLimits: limits } : {}) };
}
