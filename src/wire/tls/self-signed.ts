/** Makes a self-signed certificate, so that a server needs no files for TLS: X.509 v3 over P-256, encoded in DER here. */
import { hostname } from "node:os";
import { randomHex } from "../../base/random.ts";

const [SEQUENCE, SET, INTEGER, BIT_STRING, OCTETS, OID, UTF8, VERSION, EXTENSIONS] = [
  0x30, 0x31, 0x02, 0x03, 0x04, 0x06, 0x0c, 0xa0, 0xa3,
];
/** Tags of times: with years of two digits, and from 2050 on of four. */
const [SHORT_TIME, LONG_TIME] = [0x17, 0x18];
const FROM = "240101000000Z";
const TO = "20991231235959Z";
const [DNS_NAME, IP_ADDRESS] = [0x82, 0x87];
/** Object identifiers, encoded. */
const ECDSA_WITH_SHA256 = "2a8648ce3d040302";
const COMMON_NAME = "550403";
const ALT_NAMES = "551d11";

/** Returns a certificate for localhost and this machine's name, and its key, both as PEM. */
export function selfSigned(): { readonly cert: string; readonly key: string } {
  const { generateKeyPairSync, sign } = process.getBuiltinModule("node:crypto");
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = der(SEQUENCE, oid(ECDSA_WITH_SHA256));
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, oid(COMMON_NAME), der(UTF8, Buffer.from("understudy")))));
  // A positive number whose first byte is not zero.
  const serial = Buffer.from(`40${randomHex(15)}`, "hex");
  const alternatives = der(
    SEQUENCE,
    der(DNS_NAME, Buffer.from("localhost")),
    der(DNS_NAME, Buffer.from(hostname())),
    der(IP_ADDRESS, Buffer.of(127, 0, 0, 1)),
  );
  const extensions = der(EXTENSIONS, der(SEQUENCE, der(SEQUENCE, oid(ALT_NAMES), der(OCTETS, alternatives))));
  const body = der(
    SEQUENCE,
    der(VERSION, der(INTEGER, Buffer.of(2))),
    der(INTEGER, serial),
    algorithm,
    name,
    der(SEQUENCE, der(SHORT_TIME, Buffer.from(FROM)), der(LONG_TIME, Buffer.from(TO))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    extensions,
  );
  const signature = sign("sha256", body, privateKey);
  const whole = der(SEQUENCE, body, algorithm, der(BIT_STRING, Buffer.of(0), signature));
  const lines = whole.toString("base64").match(/.{1,64}/g)!;
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

/** Encodes a value with its tag and length. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), content]);
}

const oid = (hex: string): Buffer => der(OID, Buffer.from(hex, "hex"));
