/**
 * Runs the reader of `understudy load`, with its sockets and its reader of events, as a client driver. It sends one chat per
 * input line and records no finish reason.
 */
import { WallClock } from "../../../src/base/clock.ts";
import { Client } from "../../../src/tools/load/clients/client.ts";
import type { RequestRecord } from "../../../src/tools/load/requests/types.ts";

interface DriverRequest {
  readonly baseUrl: string;
  readonly model: string;
  readonly timeoutMs: number;
}

const clock = new WallClock();
const turn = {
  conversation: null,
  prompt: "Say it",
  inputTokens: null,
  outputTokens: 33,
  arrivalUs: null,
  thinkUs: 0,
  extra: {},
};

function ask({ baseUrl, model, timeoutMs }: DriverRequest): Promise<[RequestRecord, string]> {
  const { hostname, port, pathname, host } = new URL(`${baseUrl}/chat/completions`);
  const client = new Client(
    {
      target: { hostname, port: Number(port), tls: false, insecure: false, ca: null },
      host,
      path: pathname,
      body: {
        model,
        dialect: "openai-chat",
        stream: true,
        legacyMaxTokens: false,
        ignoreEos: false,
        minTokens: null,
        temperature: null,
        extraBody: {},
      },
      headers: {},
      pooled: false,
      timeoutUs: timeoutMs * 1000,
      retries: 0,
      seed: 1,
      userAgent: "understudy-load",
    },
    clock,
  );
  const { promise, resolve } = Promise.withResolvers<[RequestRecord, string]>();
  const order = {
    index: 0,
    requestId: "stress",
    intendedUs: clock.now(),
    turn,
    history: [],
    keepText: true,
    disturb: null,
    prepared: null,
    more: 0,
  };
  client.send(order, (record, text) => resolve([record, text]));
  return promise;
}

for await (const line of console) {
  const [{ failure, usage, inputTokens, outputTokens }, text] = await ask(JSON.parse(line));
  const error = failure && { kind: failure.kind, message: failure.message, own: true };
  console.log(JSON.stringify({ text, usage: usage ? { prompt: inputTokens, completion: outputTokens } : null, error }));
}
