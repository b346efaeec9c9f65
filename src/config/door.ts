/** What guards the server's door? Types only. */

/** `--ssl-…`: paths of PEM files. */
export interface TlsConfig {
  readonly certfile: string;
  /** null: the key is in `certfile`. */
  readonly keyfile: string | null;
  readonly caCerts: string | null;
  /** Of a client, as Python's `ssl.VerifyMode`: 0 none, 2 a certificate is required. */
  readonly certReqs: 0 | 2;
}
