// The client that client.test.js tests. It repeats a request when the server is full, and disconnects when its stream is no longer read.

const post = (url, body, signal) =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
const messages = (content) => [{ role: "user", content }];

export async function ask(url, content) {
  const response = await post(url, { messages: messages(content) });
  if (response.status === 429) {
    await new Promise((again) => setTimeout(again, 1000 * response.headers.get("retry-after")));
    return ask(url, content);
  }
  return (await response.json()).choices[0].message.content;
}

export async function* stream(url, content) {
  const leaving = new AbortController();
  try {
    const { body } = await post(url, { messages: messages(content), stream: true }, leaving.signal);
    for await (const chunk of body.pipeThrough(new TextDecoderStream()))
      for (const [, said] of chunk.matchAll(/"delta":\{"content":"([^"]+)"/g)) yield said;
  } finally {
    leaving.abort();
  }
}
