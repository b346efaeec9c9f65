/** Writes greetings, commands and messages of ZMTP 3.1, with the mechanism NULL. Source: ZeroMQ RFC 37/ZMTP. */

export enum Flag {
  /** More frames of the message follow. */
  More = 1,
  /** The length has 8 bytes instead of one. */
  Long = 2,
  Command = 4,
}

export const GREETING_BYTES = 64;
/** A reader knows from these bytes that its peer speaks version 2 or later. */
export const SIGNATURE = Buffer.from("ff00000000000000017f", "hex");
const MAJOR = 3;
const MECHANISM_BYTES = 20;

/** Returns the greeting. `minor`: 0 for version 3.0, which knows no commands to subscribe. */
export function greeting(minor: 0 | 1): Buffer {
  const bytes = Buffer.alloc(GREETING_BYTES);
  SIGNATURE.copy(bytes);
  bytes[SIGNATURE.length] = MAJOR;
  bytes[SIGNATURE.length + 1] = minor;
  bytes.write("NULL", SIGNATURE.length + 2, MECHANISM_BYTES, "latin1");
  return bytes;
}

/** Facts about the sender of a greeting. */
export interface GreetingFacts {
  readonly major: number;
  /** Name of the mechanism, such as NULL or CURVE. */
  readonly mechanism: string;
}

export function greetingFacts(bytes: Uint8Array): GreetingFacts {
  const from = SIGNATURE.length + 2;
  const mechanism = Buffer.from(bytes.subarray(from, from + MECHANISM_BYTES))
    .toString("latin1")
    .replace(/\0+$/, "");
  return { major: bytes[SIGNATURE.length]!, mechanism };
}

const LONG_FROM = 256;

function head(flags: number, length: number): Buffer {
  if (length < LONG_FROM) return Buffer.from([flags, length]);
  const bytes = Buffer.alloc(9);
  bytes[0] = flags | Flag.Long;
  bytes.writeBigUInt64BE(BigInt(length), 1);
  return bytes;
}

/** Returns a command, for example PONG with the context of a PING. */
export function command(name: string, data: Uint8Array): Buffer {
  const length = 1 + name.length + data.length;
  return Buffer.concat([head(Flag.Command, length), Buffer.from([name.length]), Buffer.from(name, "latin1"), data]);
}

/** Returns the command that ends the handshake. `identity` null: the command says nothing about it. */
export function ready(type: string, identity: Uint8Array | null): Buffer {
  const property = (name: string, value: Uint8Array): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(value.length);
    return Buffer.concat([Buffer.from([name.length]), Buffer.from(name, "latin1"), length, value]);
  };
  const named = property("Socket-Type", Buffer.from(type, "latin1"));
  return command("READY", identity === null ? named : Buffer.concat([named, property("Identity", identity)]));
}

/** Frames from this size on are sent from where they are instead of being copied. */
export const COPIED_BYTES_MOST = 65_536;

/** Returns a message as parts to write one after the other. Short frames are joined. The parts may contain the frames themselves. */
export function zmtpParts(frames: readonly Uint8Array[]): readonly Uint8Array[] {
  const parts: Uint8Array[] = [];
  let short: Uint8Array[] = [];
  const join = () => {
    if (short.length > 0) parts.push(short.length === 1 ? short[0]! : Buffer.concat(short));
    short = [];
  };
  for (const [at, frame] of frames.entries()) {
    short.push(head(at < frames.length - 1 ? Flag.More : 0, frame.length));
    if (frame.length < COPIED_BYTES_MOST) {
      short.push(frame);
      continue;
    }
    join();
    parts.push(frame);
  }
  join();
  return parts;
}

/** Reads the properties of a READY command. Returns null if they are malformed. Names are in lower case. */
export function readyProperties(data: Uint8Array): ReadonlyMap<string, Uint8Array> | null {
  const found = new Map<string, Uint8Array>();
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  for (let at = 0; at < data.length; ) {
    const nameEnd = at + 1 + data[at]!;
    if (nameEnd + 4 > data.length) return null;
    const end = nameEnd + 4 + view.getUint32(nameEnd);
    if (end > data.length) return null;
    const name = Buffer.from(data.subarray(at + 1, nameEnd))
      .toString("latin1")
      .toLowerCase();
    found.set(name, data.subarray(nameEnd + 4, end));
    at = end;
  }
  return found;
}
