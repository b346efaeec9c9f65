/** The configuration of TLS. */

/** `--ssl-…`: paths of PEM files. */
export interface TlsConfig {
  readonly certfile: string;
  /** null: the key is in `certfile`. */
  readonly keyfile: string | null;
  readonly caCerts: string | null;
  /** What is asked of a client, as Python's `ssl.VerifyMode`: 0 nothing, 2 a certificate. */
  readonly certReqs: 0 | 2;
}

/** Returns undefined if there is no certificate, and so no TLS. */
export function tlsOf({
  certfile,
  ...others
}: Omit<TlsConfig, "certfile"> & Partial<TlsConfig>): TlsConfig | undefined {
  return certfile === undefined ? undefined : { certfile, ...others };
}
