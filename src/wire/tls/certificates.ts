/** Do certificate and key fit together? uvicorn's `--ssl-…` files, read and checked before anybody listens. */
import type { KeyObject, X509Certificate } from "node:crypto";
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { selfSigned } from "./self-signed.ts";
import type { TlsConfig } from "./tls-config.ts";

/** As `Bun.serve` takes them. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string;
  readonly requestCert: boolean;
  readonly rejectUnauthorized: boolean;
}

/** Loaded by the first server with TLS: the module takes 1 to 6 ms of a start. */
const crypto = () => process.getBuiltinModule("node:crypto");

/** Python's `ssl.VerifyMode`. */
const CERT_NONE = 0;

/** `error`: one line that names the flag, the file and what is wrong with it. */
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
  if (certificate === null) return wrong("ssl-certfile", certfile, `is no certificate; ${PEM}`);
  const privateKey = keyOf(key);
  if (typeof privateKey === "string") {
    if (keyfile === null)
      return wrong("ssl-certfile", certfile, "holds no private key beside the certificate; give --ssl-keyfile");
    return wrong("ssl-keyfile", keyfile, `${privateKey}; ${PEM}`);
  }
  if (!certificate.checkPrivateKey(privateKey))
    return wrong(
      keyfile === null ? "ssl-certfile" : "ssl-keyfile",
      keyfile ?? certfile,
      "does not belong to the certificate",
    );
  if (ca !== undefined && certificateOf(ca) === null)
    return wrong("ssl-ca-certs", caCerts!, `is no certificate; ${PEM}`);
  const asks = certReqs !== CERT_NONE;
  return { cert, key, ...(ca === undefined ? {} : { ca }), requestCert: asks, rejectUnauthorized: asks };
}

const PEM = "it takes a PEM file";

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

/** Or what is wrong. */
function keyOf(pem: string): KeyObject | string {
  if (/BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED/.test(pem))
    return "is encrypted, and vllm serve has no option for its password";
  try {
    return crypto().createPrivateKey(pem);
  } catch {
    return "is no private key";
  }
}
