/** What does the truth log say of an answer that was disturbed? */
import type { FaultLine } from "./schema.ts";

/** What is known of it; `fired`: each fault with how often it acted. */
interface Disturbed extends Pick<FaultLine, "beganUs" | "end" | "operations" | "unkept"> {
  readonly line: string;
  readonly account: FaultLine["events"] & {
    readonly fired: readonly { readonly fault: string; readonly times: number }[];
  };
}

/** JSON in ASCII. */
export function faultLine(key: string, { line, account, beganUs, end, operations, unkept }: Disturbed): string {
  const { came, dropped, whole, cut, fired } = account;
  const acted = fired.map(({ fault, times }) => [fault, times] as const);
  const events = { came, dropped, whole, cut };
  const said: FaultLine = { type: "fault", key, plan: line, beganUs, end, operations, unkept, events, acted };
  return JSON.stringify(said).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
