/** The configuration of TLS. */

/** Paths of the PEM files of `--ssl-…`. */
export interface TlsConfig {
  readonly certfile: string;
  /** null: the key is in `certfile`. */
  readonly keyfile: string | null;
  readonly caCerts: string | null;
  /** Proof that a client must present, as in Python's `ssl.VerifyMode`: 0 nothing, 2 a certificate. */
  readonly certReqs: 0 | 2;
}

/** Returns undefined without a certificate, because TLS is off then. */
export function tlsOf({
  certfile,
  ...others
}: Omit<TlsConfig, "certfile"> & Partial<TlsConfig>): TlsConfig | undefined {
  return certfile === undefined ? undefined : { certfile, ...others };
}
