/** Writes the lines of the truth log about disturbed answers, and their bytes if `--truth-wire` is set. */
import type { FaultLine, WireLine } from "./schema.ts";

/** A disturbed answer. `fired`: how often each fault acted. */
interface DisturbedAnswer extends Pick<FaultLine, "beganUs" | "end" | "operations" | "unkept"> {
  readonly line: string;
  readonly account: FaultLine["events"] & {
    readonly fired: readonly { readonly fault: string; readonly times: number }[];
  };
}

/** Receives lines. */
interface FaultLog {
  fault(line: string): void;
}

/** Largest number of bytes of an answer in one line. */
const WIRE_BYTES = 49_152;

/**
 * Returns a function that creates an observer for a disturbed answer, by the key of its draws. `withBytes`: lines with
 * the sent bytes come first.
 */
export function faultLines(log: FaultLog, withBytes: boolean) {
  return (key: string) => {
    const wire = withBytes ? new WireLines(key, log) : null;
    const told = (answer: DisturbedAnswer) => {
      wire?.write();
      log.fault(faultLine(key, answer));
    };
    return wire === null ? { told } : { told, sent: (bytes: Uint8Array) => wire.sent(bytes) };
  };
}

class WireLines {
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #offset = 0;

  constructor(
    private readonly key: string,
    private readonly log: FaultLog,
  ) {}

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
    const line: WireLine = { type: "wire", key: this.key, offset: this.#offset, base64 };
    this.log.fault(inAscii(line));
    this.#offset += this.#bytes;
    this.#parts = [];
    this.#bytes = 0;
  }
}

function faultLine(key: string, { line, account, beganUs, end, operations, unkept }: DisturbedAnswer): string {
  const { came, dropped, whole, cut, fired } = account;
  const acted = fired.map(({ fault, times }) => [fault, times] as const);
  const events = { came, dropped, whole, cut };
  const faultRow: FaultLine = { type: "fault", key, plan: line, beganUs, end, operations, unkept, events, acted };
  return inAscii(faultRow);
}

const inAscii = (value: object): string =>
  JSON.stringify(value).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
