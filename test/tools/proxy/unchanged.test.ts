/** Tests that a proxy forwards HTTP unchanged (RFC 9110, 7.6). Compares the bytes of a raw client and a raw server. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { CLOSES, RESETS, rawPair, wire } from "./raw-pair.ts";

setDefaultTimeout(30_000);

const OK = wire("HTTP/1.1 200 OK\nContent-Length: 2\n\nok");
const END = "Connection: close\n";
const get = (lines = "", target = "/") => wire(`GET ${target} HTTP/1.1\nHost: proxy\n${lines}${END}\n`);
const headOf = (text: string) => text.slice(0, text.indexOf("\r\n\r\n"));

/** Returns the bytes that the client receives for each answer to a GET, and how each connection ends. */
async function passed(answers: readonly string[], request = get()): Promise<{ texts: string[]; ends: string[] }> {
  const texts: string[] = [];
  const ends: string[] = [];
  await rawPair(answers, async ({ ask }) => {
    for (const _ of answers) {
      const { text, end } = await ask(request);
      texts.push(text);
      ends.push(end);
    }
  });
  return { texts, ends };
}

/** Returns the bytes that the server receives of each request. */
async function forwarded(requests: readonly string[]): Promise<{ seen: string[]; host: string; texts: string[] }> {
  const answers = requests.map(() => OK);
  const texts: string[] = [];
  let seen: string[] = [];
  let host = "";
  await rawPair(answers, async (pair) => {
    for (const request of requests) texts.push((await pair.ask(request)).text);
    ({ seen, host } = pair);
  });
  return { seen, host, texts };
}

test("request headers keep order, letter case and repetitions, but Host becomes the server's", async () => {
  const lines = wire(
    "X-Dup: 1\nAccept: */*\nx-dup: 2\nX-DUP: 3\nCookie: a=1\nCookie: b=2\nX-Empty: \nX-Latin: \xe9\xff\n",
  );
  const { seen, host } = await forwarded([wire("GET /p HTTP/1.1\nHOST: me\n") + lines + wire(`${END}\n`)]);
  expect(seen[0]).toBe(wire(`GET /p HTTP/1.1\nHOST: ${host}\n`) + lines + wire("Connection: keep-alive\n\n"));
});

test("answer headers, the reason phrase and Set-Cookie lines reach the client as they were sent", async () => {
  const head = wire(
    "HTTP/1.1 299 Very  Fine \xe9\nX-B: 1\nSet-Cookie: a=1\nx-b: 2\nSet-Cookie: b=2; Path=/\nContent-Length: 2\n",
  );
  const { texts } = await passed([`${head}\r\nok`, wire("HTTP/1.1 599 \nX-Empty: \nContent-Length: 0\n\n")]);
  expect(texts).toEqual([
    `${head}connection: close\r\n\r\nok`,
    wire("HTTP/1.1 599 \nX-Empty: \nContent-Length: 0\nconnection: close\n\n"),
  ]);
});

test("any header lines pass both ways in their order", async () => {
  const name = fc
    .stringMatching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}$/)
    .filter(
      (header) =>
        !/^(connection|keep-alive|te|upgrade|proxy-.*|host|content-length|transfer-encoding|trailer|expect)$/i.test(
          header,
        ),
    );
  const value = fc.stringMatching(/^([!-~\xa1-\xff]([ !-~\xa1-\xff]{0,40}[!-~\xa1-\xff])?)?$/);
  const lines = fc
    .array(fc.tuple(name, value), { maxLength: 12 })
    .map((all) => all.map(([header, text]) => `${header}: ${text}\r\n`).join(""));
  await fc.assert(
    fc.asyncProperty(lines, lines, async (asked, answered) => {
      const answer = `HTTP/1.1 200 OK\r\n${answered}Content-Length: 0\r\n\r\n`;
      await rawPair([answer], async ({ ask, seen, host }) => {
        const { text } = await ask(`GET / HTTP/1.1\r\nHost: x\r\n${asked}Connection: close\r\n\r\n`);
        expect(seen[0]).toBe(`GET / HTTP/1.1\r\nHost: ${host}\r\n${asked}Connection: keep-alive\r\n\r\n`);
        expect(text).toBe(answer.replace(/\r\n$/, "connection: close\r\n\r\n"));
      });
    }),
    { numRuns: 60 },
  );
});

test("hop-by-hop headers, including those listed in Connection, are removed from requests and answers", async () => {
  const hop =
    "Connection: X-Secret , x-other\nX-Secret: 1\nx-OTHER: 2\nKeep-Alive: timeout=5\nTE: trailers\nProxy-Connection: x\nProxy-Authorization: x\nUpgrade: h2c\nCONNECTION: Third,,\nThird: 3\n";
  const { seen, host } = await forwarded([get(`${hop}X-Stays: 1\n`)]);
  expect(seen[0]).toBe(wire(`GET / HTTP/1.1\nHost: ${host}\nX-Stays: 1\nConnection: keep-alive\n\n`));
  const { texts } = await passed([
    wire(
      `HTTP/1.1 200 OK\n${hop.replace("TE: trailers\n", "")}Proxy-Authenticate: x\nX-Stays: 1\nContent-Length: 2\n\nok`,
    ),
  ]);
  expect(texts[0]).toBe(wire("HTTP/1.1 200 OK\nX-Stays: 1\nContent-Length: 2\nconnection: close\n\nok"));
});

test("Connection cannot remove the necessary headers Host, Content-Length and Transfer-Encoding", async () => {
  const post = (framing: string, body: string) =>
    wire(`POST / HTTP/1.1\nHost: x\n${framing}Connection: close, host, content-length, transfer-encoding\n\n${body}`);
  const { seen, host } = await forwarded([
    post("Content-Length: 2\n", "hi"),
    post("Transfer-Encoding: chunked\n", "2\nhi\n0\n\n"),
  ]);
  expect(seen).toEqual([
    wire(`POST / HTTP/1.1\nHost: ${host}\nContent-Length: 2\nConnection: keep-alive\n\nhi`),
    wire(`POST / HTTP/1.1\nHost: ${host}\nTransfer-Encoding: chunked\nConnection: keep-alive\n\n2\nhi\n0\n\n`),
  ]);
});

test("the request target is forwarded byte for byte, and an absolute form is reduced to path and query", async () => {
  const targets = [
    "/a/../b/./c//d",
    "/%7e%2F%zz?q=%41&+&a=b=c&&",
    "/?x={}|\"<>^`\\[]'",
    "/p?",
    "/p?a#f?b",
    "//x",
    "/?a=http://b/c",
  ];
  const { seen } = await forwarded(targets.map((target) => get("", target)));
  expect(seen.map((request) => request.split(" ")[1])).toEqual(targets);
  const other = await forwarded([get("", "http://other:1/p/?q"), get("", "HTTP://other?q"), get("", "http://other")]);
  expect(other.seen.map((request) => request.split(" ")[1])).toEqual(["/p/?q", "/?q", "/"]);
  // A target may only have ASCII (RFC 3986). Others are refused and not forwarded.
  const { seen: none, texts } = await forwarded([get("", "/\xe9?\xff")]);
  expect([none, texts[0]!.slice(0, 12)]).toEqual([[], "HTTP/1.1 400"]);
  const { seen: options } = await forwarded([
    wire(`OPTIONS * HTTP/1.1\nHost: x\n${END}\n`),
    wire(`OPTIONS /* HTTP/1.1\nHost: x\n${END}\n`),
  ]);
  expect(options.map((request) => request.split(" ")[1])).toEqual(["*", "/*"]);
});

test("request bodies keep length or chunks, and a missing body becomes Content-Length: 0 if the method has a body", async () => {
  const ask = (method: string, lines: string, body = "") =>
    wire(`${method} / HTTP/1.1\nHost: x\n${lines}${END}\n`) + body;
  const { seen } = await forwarded([
    ask("POST", "content-length: 3\n", "\x00\xff\n"),
    ask("POST", "Transfer-Encoding: chunked\n", wire("2;ext=1\nhi\n3\nyou\n0\nX-Trailer: 1\n\n")),
    ask("GET", "Content-Length: 2\n", "hi"),
    ask("DELETE", ""),
    ask("POST", ""),
    ask("POST", "Content-Length: 0\n"),
    ask("POST", "Expect: 100-continue\nContent-Length: 2\n", "hi"),
  ]);
  const rest = seen.map((request) =>
    request
      .split("\r\n")
      .slice(2)
      .filter((line) => !line.startsWith("Connection"))
      .join("\n"),
  );
  expect(rest).toEqual([
    "content-length: 3\n\n\x00\xff\n",
    "Transfer-Encoding: chunked\n\n5\nhiyou\n0\n\n",
    "Content-Length: 2\n\nhi",
    "\n",
    "Content-Length: 0\n\n",
    "Content-Length: 0\n\n",
    "Content-Length: 2\n\nhi",
  ]);
});

test("the proxy answers Expect: 100-continue before the body, and refuses a body that is too long before it arrives", async () => {
  const ask = (bytes: number) =>
    wire(`POST / HTTP/1.1\nHost: x\nExpect: 100-continue\nContent-Length: ${bytes}\n${END}\n`);
  await rawPair([OK], async (pair) => {
    const { text } = await pair.ask(ask(2), 25);
    expect(text).toBe(wire("HTTP/1.1 100 Continue\n\n"));
    expect((await pair.ask(ask(64 * 2 ** 20 + 1))).text).toStartWith("HTTP/1.1 413 ");
    expect(pair.seen).toEqual([]);
  });
});

test("HEAD, 204 and 304 keep the length that the server states, and have no body", async () => {
  const heads = [
    "HTTP/1.1 200 OK\nContent-Length: 1234\nX-A: 1\n",
    "HTTP/1.1 204 No Content\nX-A: 1\n",
    'HTTP/1.1 304 Not Modified\nETag: "x"\nContent-Length: 77\n',
  ];
  await rawPair(
    heads.map((head) => wire(`${head}\n`)),
    async ({ ask }) => {
      for (const [at, head] of heads.entries()) {
        const { text } = await ask(at === 0 ? get().replace("GET", "HEAD") : get());
        expect(text).toBe(wire(`${head}connection: close\n\n`));
      }
    },
  );
});

test("bodies with content codings, binary bytes or a length of 9 MiB are forwarded unchanged", async () => {
  const gzip = `${wire("HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 6\n\n")}\x1f\x8b\x00\xff\r\n`;
  const long = `${wire(`HTTP/1.1 200 OK\nContent-Type: text/event-stream\nContent-Length: ${9 * 2 ** 20}\n`)}`;
  const { texts } = await passed([gzip, `${long}\r\n${"x".repeat(9 * 2 ** 20)}`]);
  expect(texts[0]).toBe(gzip.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
  expect(headOf(texts[1]!)).toBe(`${long}connection: close`);
  expect(texts[1]!.length - headOf(texts[1]!).length).toBe(9 * 2 ** 20 + 4);
});

test("chunks keep their trailers, and a body without a length is sent in chunks", async () => {
  const { texts } = await passed([
    wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-T\n\n2\nok\n0\nX-T: 1\nx-t: 2\n\n"),
    wire(`HTTP/1.0 200 OK\nX-A: 1\n\nuntil it closes${CLOSES}`),
    wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n0\n\n"),
  ]);
  expect(texts).toEqual([
    wire(
      "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-T\nconnection: close\n\n2\nok\n0\nX-T: 1\nx-t: 2\n\n",
    ),
    wire("HTTP/1.1 200 OK\nX-A: 1\ntransfer-encoding: chunked\nconnection: close\n\nf\nuntil it closes\n0\n\n"),
    wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nconnection: close\n\n0\n\n"),
  ]);
});

test("interim answers are forwarded before the answer, except 100, and except to a client of HTTP/1.0", async () => {
  const hints = wire("HTTP/1.1 103 Early Hints\nLink: </a>\nLink: </b>\n\nHTTP/1.1 102 Processing\n\n");
  const answer = wire("HTTP/1.1 100 Continue\n\n") + hints + OK;
  await rawPair([answer, answer], async ({ ask }) => {
    const closed = OK.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    expect((await ask(get())).text).toBe(hints + closed);
    expect((await ask(wire("GET / HTTP/1.0\n\n"))).text).toBe(closed);
  });
});

test("101 from the server becomes 502, and a request with Upgrade is forwarded without that header", async () => {
  const switching = wire("HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\nhello");
  const upgrade = "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAA\n";
  await rawPair([switching, OK, OK, OK, OK], async ({ ask, seen, host }) => {
    const { text } = await ask(get());
    expect(text).toMatch(
      /^HTTP\/1\.1 502 Bad Gateway\r\n[\s\S]*answered 101 Switching Protocols; the proxy does not switch protocols/,
    );
    const first = wire(`POST /a HTTP/1.1\nHost: x\n${upgrade}Content-Length: 4\n\nbody`);
    const chunked = wire(`POST /b HTTP/1.1\nHost: x\n${upgrade}Transfer-Encoding: chunked\n\n2\nhi\n0\n\n`);
    const bodiless = wire(`GET /c HTTP/1.1\nHost: x\n${upgrade}\n`);
    await ask(first + chunked + bodiless + get("", "/d"));
    const head = (line: string, framing: string) =>
      wire(`${line} HTTP/1.1\nHost: ${host}\n${framing}Connection: keep-alive\n\n`);
    expect(seen.slice(1)).toEqual([
      `${head("POST /a", "Content-Length: 4\n")}body`,
      head("POST /b", "Transfer-Encoding: chunked\n") + wire("2\nhi\n0\n\n"),
      head("GET /c", ""),
      head("GET /d", ""),
    ]);
  });
});

test("a client of HTTP/1.0 gets no chunks: its body ends with the connection, and an incomplete body with a reset", async () => {
  const chunks = (end: string) => wire(`HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-T\n\n2\nok\n${end}`);
  const { texts, ends } = await passed(
    [chunks("0\nX-T: 1\n\n"), chunks(`4\nbr${RESETS}`)],
    wire("GET / HTTP/1.0\nHost: x\n\n"),
  );
  expect([texts[0], ...ends]).toEqual([wire("HTTP/1.1 200 OK\nconnection: close\n\nok"), "fin", "rst"]);
});

test("an incomplete answer is also incomplete for the client, with any framing", async () => {
  const { texts } = await passed([
    wire(`HTTP/1.1 200 OK\nContent-Length: 100\n\nshort${CLOSES}`),
    wire(`HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n64\nshort${CLOSES}`),
    wire(`HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nshort\n${CLOSES}`),
    wire(`HTTP/1.0 200 OK\n\nshort${RESETS}`),
  ]);
  expect(texts[0]).toBe(wire("HTTP/1.1 200 OK\nContent-Length: 100\nconnection: close\n\nshort"));
  for (const text of texts.slice(1)) {
    expect(text).toContain("5\r\nshort");
    expect(text).not.toContain("\r\n0\r\n");
  }
});

test("an answer that cannot be forwarded is 502 and says why; a request that cannot be is refused without being forwarded", async () => {
  const answers = [
    [wire(`NOT HTTP\n\n${CLOSES}`), "Expected HTTP/"],
    [CLOSES, "socket hang up"],
    [wire("HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n\nok"), "Content-Length"],
    [wire("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n0\n\n"), "transfer coding gzip"],
  ] as const;
  await rawPair(
    answers.map(([answer]) => answer),
    async ({ ask, reports }) => {
      for (const [at, [, why]] of answers.entries()) {
        const { text } = await ask(get());
        expect(text).toStartWith("HTTP/1.1 502 Bad Gateway\r\n");
        const { error } = JSON.parse(text.slice(headOf(text).length));
        expect([error.type, error.code]).toEqual(["ProxyError", 502]);
        expect(error.message).toContain(why);
        expect(reports[at]).toContain(why);
      }
    },
  );
  await rawPair([], async ({ ask, seen }) => {
    const gzip = wire(`POST / HTTP/1.1\nHost: x\nTransfer-Encoding: gzip\nTransfer-Encoding: chunked\n${END}\n0\n\n`);
    expect((await ask(gzip)).text).toStartWith("HTTP/1.1 501 ");
    expect((await ask(wire("CONNECT x:1 HTTP/1.1\nHost: x:1\n\n"), 1)).text).toStartWith("HTTP/1.1 501 ");
    expect((await ask(wire("GET / HTTP/1.1\nBad Name: x\n\n"))).text).toMatch(/^HTTP\/1\.1 400 [\s\S]*ProxyError/);
    expect(seen).toEqual([]);
  });
});

test("header values of 1 MB and 5,000 header lines pass both ways", async () => {
  const lines = wire(`X-Long: ${"v".repeat(1e6)}\n${Array.from({ length: 5000 }, (_, at) => `X-${at}: 1\n`).join("")}`);
  await rawPair([`HTTP/1.1 200 OK\r\n${lines}Content-Length: 0\r\n\r\n`], async ({ ask, seen }) => {
    const { text } = await ask(`GET / HTTP/1.1\r\nHost: x\r\n${lines}Connection: close\r\n\r\n`);
    expect(text.includes(lines)).toBe(true);
    expect(seen[0]!.includes(lines)).toBe(true);
  });
});

test("at most 100 interim answers of a request, and at most 256 KiB of them, are forwarded", async () => {
  const hint = (value: string) => wire(`HTTP/1.1 103 Early Hints\nLink: ${value}\n\n`);
  const { texts } = await passed([hint("x").repeat(150) + OK, hint("x".repeat(60_000)).repeat(20) + OK]);
  expect(texts.map((text) => text.match(/ 103 /g)?.length)).toEqual([100, 4]);
  expect(texts.map((text) => text.endsWith("\r\n\r\nok"))).toEqual([true, true]);
});

test("a head of more than 4 MiB gives 431 for a request and 502 for an answer", async () => {
  const long = `X-Long: ${"v".repeat(2 ** 22)}\n`;
  await rawPair([wire(`HTTP/1.1 200 OK\n${long}Content-Length: 0\n\n`)], async ({ ask, seen }) => {
    expect((await ask(get())).text).toMatch(/^HTTP\/1\.1 502 [\s\S]*Header overflow/);
    expect((await ask(get(long))).text).toMatch(/^HTTP\/1\.1 431 [\s\S]*ProxyError/);
    expect(seen).toHaveLength(1);
  });
});

test("the client's connection stays open between requests, even if the server's closes", async () => {
  const closing = wire(`HTTP/1.1 200 OK\nConnection: close\nContent-Length: 2\n\nok${CLOSES}`);
  await rawPair([closing, OK, OK], async ({ ask }) => {
    const more = wire("GET / HTTP/1.1\nHost: x\n\n");
    const { text } = await ask(more + more + get());
    expect(text.match(/HTTP\/1\.1 200 OK/g)?.length).toBe(3);
  });
});
