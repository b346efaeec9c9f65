/**
 * Implements the routes of Triton's OpenAI front end (`python/openai`, 2026): a FastAPI application that sends its requests to
 * Triton's models like any client, so that Triton counts them.
 */
import { application, type ElysiaApplication } from "../../../wire/http/elysia.ts";
import { type Handler, routes } from "../../../wire/http/routes.ts";
import type { Context } from "../../../wire/http/sink.ts";
import type { TritonOpenAiConfig } from "../config/triton-config.ts";
import type { ServerAround } from "../inference/around.ts";
import { EventQueue } from "../inference/event-queue.ts";
import { HeldBody } from "../inference/held-bodies.ts";
import type { InferAnswer, InferInput, InferRequest } from "../inference/request.ts";
import { TritonError } from "../model-config/status.ts";
import { embeddingAnswer, OpenAiAnswer } from "./answer.ts";
import { CHAT, COMPLETION, EMBEDDING, type OpenAiBody, readOpenAi, Unprocessable } from "./fields.ts";
import { embeddingInputs, inputsOf } from "./inputs.ts";
import { OpenAiModels } from "./models.ts";
import { ClientError, chatAsked, completionAsked, type FrontSettings, type ModelQuery, namedModel } from "./wishes.ts";

export interface OpenAiFront
  extends FrontSettings,
    Omit<TritonOpenAiConfig, "host" | "port">,
    Pick<ServerAround, "server" | "waiting" | "bodies" | "turns"> {
  readonly maxInputBytes: number;
  readonly metrics: () => Promise<string | Uint8Array>;
  /** Seconds since 1970. */
  readonly epochSeconds: () => number;
  /** Returns random hexadecimal digits for this number of bytes. */
  readonly newId: (bytes: number) => string;
}

const JSON_TYPE = { "content-type": "application/json" };
const SSE = { "content-type": "text/event-stream; charset=utf-8" };
const TEXT = { "content-type": "text/plain; charset=utf-8" };

const give = (
  context: Context,
  status: number,
  body: string | Uint8Array | null,
  headers: Record<string, string> = JSON_TYPE,
) => context.front.answer(context.request, status, body === null ? {} : headers, body ?? "");
const detail = (context: Context, status: number, what: string | readonly object[]) =>
  give(context, status, JSON.stringify({ detail: what }));

export function openAiFrontEnd(front: OpenAiFront): ElysiaApplication {
  const { server, backend, loraSeparator, epochSeconds } = front;
  const models = new OpenAiModels(server, backend, loraSeparator);
  const created = Math.floor(epochSeconds());
  const shown = (id: string) => ({ id, created, object: "model", owned_by: "Triton Inference Server" });
  const control = (act: (name: string) => Promise<object>): Handler =>
    guarded(async (context, { model = "" }) => give(context, 200, JSON.stringify(await act(model))));
  const handlers: Record<string, Handler> = {
    "GET /health/ready": (context) =>
      server.ready
        ? give(context, 200, null)
        : detail(context, 400, "Attached inference engine is not ready for inference requests."),
    "GET /metrics": async (context) => give(context, 200, await front.metrics(), TEXT),
    "GET /v1/models": (context) =>
      give(context, 200, JSON.stringify({ object: "list", data: models.names.map(shown) })),
    "GET /v1/models/:model": (context, { model = "" }) =>
      models.names.includes(model)
        ? give(context, 200, JSON.stringify(shown(model)))
        : detail(context, 404, `Unknown model: ${model}`),
    "POST /v1/models/:model/load": control(async (name) => {
      await server.load(name, { config: null, files: new Map() });
      return shown(name);
    }),
    "POST /v1/models/:model/unload": control(async (name) => {
      server.unload(name, false);
      return { status: "success", model: name };
    }),
    "POST /v1/chat/completions": withBody(front, (context, bytes) => {
      const body = readOpenAi(bytes, CHAT);
      return generated(context, front, chatAsked(body, models.find(String(body.model)), front), true);
    }),
    "POST /v1/completions": withBody(front, (context, bytes) => {
      const body = readOpenAi(bytes, COMPLETION);
      return generated(context, front, completionAsked(body, models.find(String(body.model)), front), false);
    }),
    "POST /v1/embeddings": withBody(front, (context, bytes) =>
      embedded(context, front, readOpenAi(bytes, EMBEDDING), models),
    ),
  };
  const fixed = Object.keys(handlers).filter((route) => !route.includes(":"));
  const methods = new Map(fixed.map((route) => route.split(" ").toReversed() as [string, string]));
  const unmatched = (context: Context) => fallback(context, methods);
  return application({ routes: routes(handlers), unmatched, failed: unmatched });
}

/** Returns FastAPI's answers for unknown paths and methods. `methods`: allowed methods by path. */
function fallback(context: Context, methods: ReadonlyMap<string, string>): Response {
  const path = new URL(context.request.url, "http://here").pathname;
  const allow = methods.get(path);
  if (allow === undefined || allow === context.request.method) return detail(context, 404, "Not Found");
  return give(context, 405, '{"detail":"Method Not Allowed"}', { allow, ...JSON_TYPE });
}

class TooLarge {
  constructor(readonly message: string) {}
}

/** Wraps a handler that needs the body. The body's memory counts until the answer is made or its stream has begun. */
function withBody(front: OpenAiFront, handle: (context: Context, body: Uint8Array) => Promise<Response>): Handler {
  return guarded(async (context) => {
    const held = new HeldBody(context.request, front.bodies);
    try {
      return await handle(context, await held.read(context.front, front.maxInputBytes, tooLarge));
    } finally {
      held.leave();
    }
  });
}

/** The error for a body that is too large. */
const tooLarge = (most: number) =>
  new TooLarge(
    `Request content size exceeds the maximum allowed input size of ${most} bytes. Use --http-max-input-size to increase the limit.`,
  );

/** Turns exceptions into answers: client errors 400, schema errors 422, others 500. */
function guarded(handle: Handler): Handler {
  return async (context, params) => {
    try {
      return await handle(context, params);
    } catch (error) {
      if (error instanceof Unprocessable) return detail(context, 422, error.detail);
      if (error instanceof ClientError) return detail(context, 400, error.message);
      if (error instanceof TooLarge) {
        const said = { message: error.message, type: "invalid_request_error", code: "content_too_large" };
        return give(context, 413, JSON.stringify({ error: said }));
      }
      const controls = error instanceof TritonError && error.code === "UNAVAILABLE" && /load/.test(error.message);
      return detail(context, controls ? 400 : 500, (error as Error).message);
    }
  };
}

type Respond = (answer: InferAnswer | TritonError | null, final: boolean) => void;
type ModelSender = (respond: Respond) => InferRequest;

/** Returns a function that sends a request to a model. `respond`: see `InferReceiver`. Throws a `TritonError`. */
const asking =
  ({ server }: OpenAiFront, model: string, inputs: readonly InferInput[]): ModelSender =>
  (respond) =>
    server.infer(model, -1, { id: "", inputs, outputs: [], parameters: [], priority: 0, timeoutUs: 0 }, { respond });

/** Sends a request and resolves with its only response. Rejects with a `TritonError`. */
function only(ask: ModelSender): Promise<InferAnswer> {
  return new Promise((resolve, reject) => {
    const all: InferAnswer[] = [];
    ask((answer, final) => {
      if (answer instanceof TritonError) reject(answer);
      else if (answer !== null) all.push(answer);
      if (!final) return;
      if (all.length === 1) resolve(all[0]!);
      else reject(new Error(`Unexpected number of responses: ${all.length}, expected 1.`));
    });
  });
}

async function generated(context: Context, front: OpenAiFront, asked: ModelQuery, chat: boolean): Promise<Response> {
  const { model, wish } = asked;
  const ask = asking(front, model.served.name, inputsOf(model, wish));
  // A version 1 UUID contains the time; this one is entirely random.
  const [a, b, c, d, e] = [4, 2, 2, 2, 6].map((bytes) => front.newId(bytes));
  const id = `cmpl-${a}-${b}-1${c!.slice(1)}-${d}-${e}`;
  const answer = new OpenAiAnswer({ id, created: Math.floor(front.epochSeconds()), asked, chat });
  if (wish.body.stream !== true) return give(context, 200, answer.whole((await only(ask)).outputs));
  return streamed(context, front, ask, answer);
}

/** Streams an answer. The header is sent at once; an error of the model resets the stream. */
function streamed(context: Context, front: OpenAiFront, ask: ModelSender, answer: OpenAiAnswer): Response {
  const http = context.front;
  const { request: http1 } = context;
  let asked: InferRequest | null = null;
  const events = new EventQueue(
    (owner, waiting) => http.open(http1, owner, waiting),
    (broken) => asked?.leave(broken),
    front.waiting,
    front.turns,
  );
  const write = (text: string) => text !== "" && events.write(Buffer.from(text));
  const begun = http.begin(http1, 200, SSE);
  write(answer.first());
  try {
    asked = ask((response, final) => {
      if (response instanceof TritonError) return events.reset();
      if (response !== null || final) write(answer.chunk(response?.outputs ?? [], final));
      if (!final) return;
      write(answer.last());
      events.end();
    });
  } catch (error) {
    if (!(error instanceof TritonError)) throw error;
    events.reset();
  }
  return begun;
}

async function embedded(
  context: Context,
  front: OpenAiFront,
  body: OpenAiBody,
  models: OpenAiModels,
): Promise<Response> {
  const model = namedModel(body, models.find(String(body.model)));
  if (model.format !== "vllm") throw new Error("Embedding request is not supported for TRT-LLM backend");
  const { outputs } = await only(asking(front, model.served.name, embeddingInputs(body)));
  return give(context, 200, embeddingAnswer(outputs, body.model, body.encoding_format === "base64"));
}
