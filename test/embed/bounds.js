/** Sends many requests and large bodies to a server, in Bun or in Node, and returns how much of them the server keeps. */
const headers = { "content-type": "application/json" };
const post = async (server, text) => {
  const response = await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body: text });
  await response.text();
  return response.status;
};

export async function bounds(createServer, count, megabytes) {
  const server = await createServer({ timing: "none" }).ready;
  const [at, statuses] = [{ next: 0 }, new Set()];
  const ask = async () => {
    while (at.next < count) statuses.add(await post(server, JSON.stringify({ prompt: `${at.next++}`, max_tokens: 1 })));
  };
  await Promise.all(Array.from({ length: 8 }, ask));
  const kept = await server.requests();
  const numbers = kept.map(({ body }) => Number(body.prompt));
  const { generationTokens } = await server.snapshot();
  await server.reset();
  const large = JSON.stringify({ prompt: "hello ".repeat((megabytes * 1_000_000) / 6) });
  const refused = [await post(server, large), await post(server, large)];
  const sent = await server.requests();
  await server.reset();
  const after = (await server.requests()).length;
  const small = await post(server, '{"prompt": "Hi"}');
  await server.close();
  return {
    ...{ kept: kept.length, statuses: [...statuses], generationTokens, refused, after, small },
    /** True if the newest requests are kept. Concurrent requests may be counted in any order. */
    newest: Math.min(...numbers) >= count - kept.length - 8 && new Set(numbers).size === kept.length,
    outcomes: sent.map(({ outcome, bodyBytes }) => [outcome, bodyBytes === large.length]),
    bodies: sent.map(({ body }) => (body === null ? null : body.prompt.length)),
  };
}
