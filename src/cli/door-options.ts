/** Which options guard the server's door: TLS, the sizes and times that it allows? */
import type { TlsConfig } from "../config/door.ts";
import { integer, type Option, text } from "./option.ts";

const group = "Server";

const certReqs: Option<0 | 2> = {
  ...integer(0, 2),
  accepts: "0 (no client certificate) or 2 (one is required)",
  read: ([text]) => (text === "0" ? 0 : text === "2" ? 2 : undefined),
};

export const doorOptions = {
  "ssl-keyfile": {
    ...text("FILE", "the path of a PEM file"),
    group,
    default: "none",
    about: "Private key of --ssl-certfile.",
  },
  "ssl-certfile": {
    ...text("FILE", "the path of a PEM file"),
    group,
    default: "none",
    about: "Certificate, with its chain: the server speaks HTTPS. May hold the private key too.",
  },
  "ssl-ca-certs": {
    ...text("FILE", "the path of a PEM file"),
    group,
    default: "none",
    about: "Authorities whose client certificates are accepted.",
  },
  "ssl-cert-reqs": {
    ...certReqs,
    group,
    default: "0",
    about: "Client certificates: 0 none, 2 one of --ssl-ca-certs is required. vLLM's 1 (optional) is not built.",
  },
} as const;

type Values = { readonly [K in keyof typeof doorOptions]?: ReturnType<(typeof doorOptions)[K]["read"]> };

/** `at`: where an option was given. */
export function tlsConfig(
  values: Values,
  at: (option: string) => string,
): { readonly tls?: TlsConfig } | { readonly error: string } {
  const { "ssl-certfile": certfile, "ssl-keyfile": keyfile, "ssl-ca-certs": caCerts } = values;
  const certReqs = values["ssl-cert-reqs"] ?? 0;
  if (certfile === undefined) {
    const lonely = (["ssl-keyfile", "ssl-ca-certs"] as const).find((name) => values[name] !== undefined);
    if (lonely !== undefined) return { error: `${at(lonely)}: there is no TLS without --ssl-certfile` };
    return certReqs === 0 ? {} : { error: `${at("ssl-cert-reqs")}: there is no TLS without --ssl-certfile` };
  }
  if (certReqs === 2 && caCerts === undefined)
    return { error: `${at("ssl-cert-reqs")}: client certificates cannot be checked without --ssl-ca-certs` };
  return { tls: { certfile, keyfile: keyfile ?? null, caCerts: caCerts ?? null, certReqs } };
}
