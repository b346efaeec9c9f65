/** Chooses the faults of a request: a fault may replace the server's answer or disturb it. */
import { ORDER_HEADER } from "../../openai/front/order-header.ts";
import { errorText, type HttpAnswer, type HttpCall, jsonAnswer } from "./call.ts";

/** Returns the answer of a fault, or null if the server answers, disturbed or not. Synchronous if no fault can apply. */
export function disturbed(call: HttpCall, body: Uint8Array): HttpAnswer | null | Promise<HttpAnswer | null> {
  return call.around.faults.may(call.header(ORDER_HEADER)) ? disturbedBy(call, body) : null;
}

async function disturbedBy(call: HttpCall, body: Uint8Array): Promise<HttpAnswer | null> {
  const { faults, server } = call.around;
  const found = faults.of({
    model: call.found[0] ?? "",
    get path() {
      return call.target;
    },
    get over() {
      return call.http2 ? ("2" as const) : ("1.1" as const);
    },
    get open() {
      return server.live;
    },
    header: (name) => call.header(name),
    headers: () => call.headers(),
    body: () => jsonIn(body),
  });
  const disturbance = found instanceof Promise ? await found : found;
  if (disturbance === null) return null;
  if ("message" in disturbance) return jsonAnswer(errorText(disturbance.message), disturbance.status);
  await call.disturb(disturbance);
  if (disturbance.instead === null) return null;
  const { status, body: said } = disturbance.instead;
  const headers = capitalized(disturbance.instead.headers);
  if (!said.startsWith('{"error":{')) return { status, headers, body: said };
  return { status, headers, body: errorText(JSON.parse(said).error.message) };
}

/** Capitalizes header names like this server does. */
const capitalized = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.replaceAll(/\b[a-z]/g, (one) => one.toUpperCase()), value]),
  );

function jsonIn(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString());
  } catch {
    return undefined;
  }
}
