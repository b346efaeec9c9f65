/** Reads and checks uvicorn's `--ssl-…` files before the server listens: certificate, key, and whether they fit together. */
import type { KeyObject, X509Certificate } from "node:crypto";
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { selfSigned } from "./self-signed.ts";
import type { TlsConfig } from "./tls-config.ts";

/** TLS options in the form that `Bun.serve` takes. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string;
  readonly requestCert: boolean;
  readonly rejectUnauthorized: boolean;
}

/** Loaded by the first server with TLS, because the module takes 1 to 6 ms of the start. */
const crypto = () => process.getBuiltinModule("node:crypto");

/** `CERT_NONE` of Python's `ssl.VerifyMode`. */
const CERT_NONE = 0;

/** Reads the files, or makes a certificate. `error`: one line with the flag, the file and what is wrong with it. */
export function readTls(tls: TlsConfig | "self-signed"): TlsFiles | { readonly error: string } {
  return tls === "self-signed" ? { ...selfSigned(), requestCert: false, rejectUnauthorized: false } : readFiles(tls);
}

function readFiles({ certfile, keyfile, caCerts, certReqs }: TlsConfig): TlsFiles | { readonly error: string } {
  const texts = { "ssl-certfile": certfile, "ssl-keyfile": keyfile ?? certfile, "ssl-ca-certs": caCerts };
  const read: Partial<Record<keyof typeof texts, string>> = {};
  for (const [name, path] of Object.entries(texts) as [keyof typeof texts, string | null][]) {
    if (path === null) continue;
    try {
      read[name] = textAtMost(path, NAMED_FILE_BYTES_MOST);
    } catch (error) {
      return wrong(name, path, `cannot be read (${(error as { code?: string }).code ?? String(error)})`);
    }
  }
  const cert = read["ssl-certfile"]!;
  const key = read["ssl-keyfile"]!;
  const ca = read["ssl-ca-certs"];
  const certificate = certificateOf(cert);
  if (certificate === null) return wrong("ssl-certfile", certfile, "is not a certificate in PEM format");
  const privateKey = keyOf(key);
  if (typeof privateKey === "string") {
    if (keyfile === null)
      return wrong("ssl-certfile", certfile, "has a certificate but no private key; set --ssl-keyfile");
    return wrong("ssl-keyfile", keyfile, privateKey);
  }
  if (!certificate.checkPrivateKey(privateKey))
    return wrong(
      keyfile === null ? "ssl-certfile" : "ssl-keyfile",
      keyfile ?? certfile,
      "does not belong to the certificate",
    );
  if (ca !== undefined && certificateOf(ca) === null)
    return wrong("ssl-ca-certs", caCerts!, "is not a certificate in PEM format");
  const asks = certReqs !== CERT_NONE;
  return { cert, key, ...(ca === undefined ? {} : { ca }), requestCert: asks, rejectUnauthorized: asks };
}

function wrong(flag: string, path: string, what: string): { readonly error: string } {
  return { error: `--${flag} ${path}: ${what}` };
}

function certificateOf(pem: string): X509Certificate | null {
  try {
    return new (crypto().X509Certificate)(pem);
  } catch {
    return null;
  }
}

/** Reads a private key, or returns what is wrong with it. */
function keyOf(pem: string): KeyObject | string {
  if (/BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED/.test(pem))
    return "is encrypted; must not be, because vllm serve has no option for a password";
  try {
    return crypto().createPrivateKey(pem);
  } catch {
    return "is not a private key in PEM format";
  }
}
