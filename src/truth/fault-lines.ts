/** What does the truth log say of an answer that was disturbed? A line on how it went, and its bytes where they are wanted. */
import type { FaultLine, WireLine } from "./schema.ts";

/** What is known of it; `fired`: each fault with how often it acted. */
interface Disturbed extends Pick<FaultLine, "beganUs" | "end" | "operations" | "unkept"> {
  readonly line: string;
  readonly account: FaultLine["events"] & {
    readonly fired: readonly { readonly fault: string; readonly times: number }[];
  };
}

/** Where lines go. */
interface FaultLog {
  fault(line: string): void;
}

/** Bytes of an answer in one line. */
const WIRE_BYTES = 49_152;

/** Who is told of disturbed answers, each by the key of its draws; `withBytes`: what left stands in lines before. */
export function faultLines(log: FaultLog, withBytes: boolean) {
  return (key: string) => {
    const wire = withBytes ? new WireLines(key, log) : null;
    const told = (answer: Disturbed) => {
      wire?.write();
      log.fault(faultLine(key, answer));
    };
    return wire === null ? { told } : { told, sent: (bytes: Uint8Array) => wire.sent(bytes) };
  };
}

class WireLines {
  readonly #key: string;
  readonly #log: FaultLog;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #offset = 0;

  constructor(key: string, log: FaultLog) {
    this.#key = key;
    this.#log = log;
  }

  sent(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += WIRE_BYTES) {
      const part = bytes.subarray(at, at + WIRE_BYTES);
      if (this.#bytes + part.length > WIRE_BYTES) this.write();
      this.#parts.push(part);
      this.#bytes += part.length;
    }
  }

  write(): void {
    if (this.#bytes === 0) return;
    const base64 = Buffer.concat(this.#parts).toString("base64");
    const line: WireLine = { type: "wire", key: this.#key, offset: this.#offset, base64 };
    this.#log.fault(inAscii(line));
    this.#offset += this.#bytes;
    this.#parts = [];
    this.#bytes = 0;
  }
}

function faultLine(key: string, { line, account, beganUs, end, operations, unkept }: Disturbed): string {
  const { came, dropped, whole, cut, fired } = account;
  const acted = fired.map(({ fault, times }) => [fault, times] as const);
  const events = { came, dropped, whole, cut };
  const said: FaultLine = { type: "fault", key, plan: line, beganUs, end, operations, unkept, events, acted };
  return inAscii(said);
}

const inAscii = (value: object): string =>
  JSON.stringify(value).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
