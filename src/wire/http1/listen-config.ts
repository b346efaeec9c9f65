/** The configuration of the listeners. */

import type { FrontLimits } from "../http/front-limits.ts";
import type { StreamWritesOrder } from "../lanes/stream-write-modes.ts";
import type { TlsConfig } from "../tls/tls-config.ts";

/** Where a server listens, and what it takes there. */
export interface ListenConfig {
  readonly host: string;
  readonly port: number;
  /** For HTTP/2; absent: none. */
  readonly http2Port?: number;
  /** Absent: plain HTTP. */
  readonly tls?: TlsConfig | "self-signed";
  /** Hosts whose requests are answered, on every HTTP port. Absent: all. */
  readonly allowedHosts?: readonly string[];
  /** Absent: the defaults of `wire/http/front-limits.ts`. */
  readonly frontLimits?: FrontLimits;
  readonly maxBodyBytes: number;
  /** Absent: auto. */
  readonly streamWrites?: StreamWritesOrder;
}
