/** Scenarios of a test author's work with a server, for Bun and Node. Each returns its results without times. */

const json = { "content-type": "application/json", authorization: "Bearer secret" };

export const post = (server, body, path = "/v1/chat/completions", more = {}) =>
  fetch(server.url + path, { method: "POST", headers: { ...json, ...more }, body: JSON.stringify(body) });

export const chat = (content, more = {}) => ({ messages: [{ role: "user", content }], max_tokens: 40, ...more });
const answerTo = async (server, content, more) =>
  (await (await post(server, chat(content, more))).json()).choices[0].message.content;
const thrown = (promise) =>
  promise.then(
    () => null,
    (error) => `${error.name}: ${error.message}`,
  );

/** Does the same as `await using`, which Node 20 does not support. */
async function using(starting, act) {
  const server = await starting.ready;
  try {
    return await act(server);
  } finally {
    await server[Symbol.asyncDispose]();
  }
}

/** Sends requests of different outcomes and returns the server's records of them. */
export const requests = (createServer) => using(createServer({ timing: "none", apiKey: ["secret"], seed: 1 }), seen);

async function seen(server) {
  await fetch(`${server.url}/v1/models?x=1`, { headers: json });
  await (await post(server, chat("Hello", { max_tokens: 5, ignore_eos: true, stream: true }))).text();
  await (await post(server, { nonsense: 1 })).text();
  await (await post(server, chat("Hello"), "/v1/chat/completions", { authorization: "Bearer other" })).text();
  const leaving = new AbortController();
  const stream = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: json,
    body: JSON.stringify({ prompt: "x", max_tokens: 100000, ignore_eos: true, stream: true }),
    signal: leaving.signal,
  });
  await stream.body.getReader().read();
  leaving.abort();
  await server.idle();
  const all = await server.requests();
  const last = await server.lastRequest();
  return {
    seen: all.slice(0, 4).map(({ method, path, status, outcome, tokens, finish, body, headers }) => ({
      ...{ method, path, status, outcome, tokens, finish, body, key: headers.authorization },
    })),
    times: all.every(({ arrivalMs, endMs }) => endMs >= arrivalMs && arrivalMs > 1e12),
    last: { outcome: last.outcome, finish: last.finish, some: last.tokens > 0, prompt: last.body.prompt },
  };
}

/** Sets answers in code: rules, queued answers, errors, tool calls, tokens. */
export const answers = (createServer) =>
  using(createServer({ timing: "none", toolCallParser: "hermes", enableAutoToolChoice: true }), answered);

async function answered(server) {
  await server.on({ user: { contains: "weather" } }, "Rain.");
  await server.on(({ body, headers }) => body.temperature === 0 || headers["x-who"] === "me", { text: "Cold." });
  await server.next("First.");
  await server.next({ error: { status: 429, message: "Slow down.", headers: { "retry-after": 7 } } });
  const first = await answerTo(server, "weather");
  const limited = await post(server, chat("weather"));
  const error = (await limited.json()).error.message;
  const rules = [await answerTo(server, "what weather"), await answerTo(server, "x", { temperature: 0 })];
  await server.next({ toolCalls: [{ name: "look", arguments: { at: "Rome", days: [1, 2] } }] });
  const tools = [{ type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } }];
  const called = (await (await post(server, chat("x", { tools }))).json()).choices[0];
  const [call] = called.message.tool_calls;
  await server.next({ tokens: [1, 2, 3] });
  const { usage } = await (await post(server, chat("x"))).json();
  const wrong = [
    await thrown(server.on({ usr: "x" }, "y")),
    await thrown(server.next({ txt: "y" })),
    await thrown(server.next({ error: 200 })),
  ];
  await server.reset();
  const free = await answerTo(server, "what weather");
  return {
    ...{ first, status: limited.status, retry: limited.headers.get("retry-after"), error, rules },
    ...{ call: [call.function.name, JSON.parse(call.function.arguments), called.finish_reason] },
    ...{ tokens: usage.completion_tokens, wrong, free: free !== "Rain." && free.length > 0 },
  };
}

/** Uses a predicate that throws: the client gets 500, and the next call of the test gets the error. */
export async function throwing(createServer) {
  const server = await createServer({ timing: "none" }).ready;
  await server.on(() => {
    throw new Error("mine");
  }, "never");
  const { status } = await post(server, chat("x"));
  const told = await thrown(server.reset());
  const after = (await post(server, chat("x"))).status;
  const closed = await thrown(server.close());
  return { status, told, after, closed, late: await thrown(server.reset()) };
}

/** Resets a server, also under load, and checks that it behaves like after its start. */
export async function resets(createServer) {
  const server = await createServer({ timing: "constant:ttft=5ms,itl=5ms", seed: 7, maxNumSeqs: 1 }).ready;
  const round = async () => {
    const answer = await (
      await post(server, chat("Hello there, this is a prompt that fills a block or two of the cache."))
    ).json();
    const { value } = await server.metrics();
    const { generationTokens } = await server.snapshot();
    return {
      id: answer.id,
      text: answer.choices[0].message.content,
      counted: generationTokens === answer.usage.completion_tokens,
      hits: value("vllm:prefix_cache_hits_total"),
      ended: value("vllm:request_success_total", { finished_reason: ["stop", "length"] }),
      requests: (await server.requests()).length,
    };
  };
  const first = await round();
  await server.reset();
  const second = await round();
  const long = { max_tokens: 4000, ignore_eos: true, stream: true };
  const running = await Promise.all([1, 2, 3].map(() => post(server, chat("x", long))));
  const loaded = await server.until(({ waiting }) => waiting >= 2);
  await Promise.all([server.reset(), server.reset()]);
  const ends = await Promise.all(
    running.map((response) =>
      response.text().then(
        (text) => text.includes("[DONE]"),
        () => false,
      ),
    ),
  );
  const idle = await server.idle();
  const never = await thrown(server.until(({ running }) => running > 5, { timeoutMs: 30 }));
  const third = await round();
  await server.close();
  return {
    same: [second, third].every((round) => JSON.stringify(round) === JSON.stringify(first)),
    first: { ...first, id: first.id.length > 9, text: first.text.length > 0 },
    loaded: [loaded.running, loaded.waiting],
    ends: ends.length,
    idle: [idle.open, idle.running, idle.waiting],
    never,
  };
}

/** Streams tokens at ordered times. Then closes the server in mid-stream, which ends the stream and rejects `until`. */
export async function streams(createServer) {
  const server = await createServer({ timing: "none" }).ready;
  const began = performance.now();
  await server.next({ tokens: [1, 2, 3], times_ms: [0, 30, 60] });
  const timed = await post(server, chat("x", { stream: true, stream_options: { include_usage: true } }));
  const text = await timed.text();
  const waited = performance.now() - began >= 60;
  await server.next({ text: "Late.", times_ms: [3_600_000] });
  const late = post(server, chat("x")).then(
    ({ status }) => status,
    () => "cut",
  );
  await server.until(({ open, running }) => open === 1 && running === 0);
  const endless = { max_tokens: 100000, ignore_eos: true, stream: true };
  const stream = await post(server, chat("y", endless));
  const reader = stream.body.getReader();
  await reader.read();
  const waiting = thrown(server.until(() => false));
  await server.close();
  const rest = await (async () => {
    while (!(await reader.read()).done);
  })().then(
    () => "ended",
    () => "ended",
  );
  const gone = await fetch(server.url).then(
    () => false,
    () => true,
  );
  return {
    tokens: JSON.parse(text.split("\n\n").at(-3).slice(6)).usage.completion_tokens,
    done: text.includes("[DONE]"),
    ...{ waited, late: typeof (await late), waiting: await waiting, rest, gone, ended: await server.ended },
  };
}

/** Returns the timeline that a failed test prints about its server. */
export const tells = (createServer) => using(createServer({ timing: "none", seed: 1 }), told);

async function told(server) {
  const nothing = await server.timeline();
  await (await post(server, chat("Hello there", { max_tokens: 3, ignore_eos: true }))).text();
  await (await post(server, { nonsense: "x".repeat(500) })).text();
  const [{ generations, arrivalMs, endMs }] = await server.requests();
  const [{ queuedMs, scheduledMs, firstTokenMs, promptTokens }] = generations;
  const times = [arrivalMs, queuedMs, scheduledMs, firstTokenMs, endMs];
  // The two clocks differ by less than 5 ms.
  const rising = times.every((ms, i) => i === 0 || ms >= times[i - 1] - 5);
  for (let i = 0; i < 30; i++) await (await fetch(`${server.url}/v1/models`)).text();
  return {
    ...{ nothing, rising, prompt: promptTokens > 0, generations: generations.length },
    lines: (await server.timeline()).split("\n").length,
    first: (await server.timeline()).split("\n")[0],
  };
}
