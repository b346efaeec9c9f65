/** Tests that overdue callbacks run between requests when many requests arrive in one turn of the event loop. */

import { afterEach, expect, test } from "bun:test";
import net from "node:net";
import { WallClock } from "../../../src/base/clock.ts";
import { HttpServer } from "../../../src/wire/http1/server.ts";
import { apiKeepAlive } from "../../../src/wire/http2/api.ts";
import { Http2Server } from "../../../src/wire/http2/server.ts";
import { eventually } from "../../server.ts";
import { WireClient } from "../http2/wire-client.ts";
import { LOCAL } from "./local-options.ts";

const COUNT = 30;
/** Work per request, in microseconds: less than the delay after which a callback counts as overdue. */
const WORK_US = 600;
/** Requests that may run before the overdue callback: as many as take longer than that delay, and the one that set it. */
const MEANWHILE_MOST = 4;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** The handler of each request, and a log of events. The server calls `catchUp`. */
function world() {
  const clock = new WallClock();
  ends.push(() => clock.close());
  const order: string[] = [];
  const seen = { order, looks: 0 };
  return {
    clock,
    seen,
    catchUp: () => {
      seen.looks++;
      clock.catchUp();
    },
    work: () => {
      const fromUs = clock.now();
      if (order.length === 0) clock.at(fromUs + 1, () => order.push("woken"));
      order.push("request");
      while (clock.now() < fromUs + WORK_US);
    },
  };
}

const requests = (order: readonly string[]) => order.filter((one) => one === "request").length;
const LISTEN = { hostname: "127.0.0.1", port: 0, reusePort: false };

test("over HTTP/1, on a connection each", async () => {
  const { clock, seen, catchUp, work } = world();
  const fetch = () => {
    work();
    return new Response("done");
  };
  const server = new HttpServer({ fetch }, { ...LOCAL, clock, catchUp });
  ends.push(() => server.stop(true));
  const sockets = Array.from({ length: COUNT }, () => net.connect(server.port, "127.0.0.1"));
  for (const socket of sockets) {
    socket.on("error", () => {});
    ends.push(() => socket.destroy());
  }
  await Promise.all(sockets.map((socket) => new Promise((done) => socket.once("connect", done))));
  for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(() => requests(seen.order) === COUNT);
  expect(seen.order.indexOf("woken")).toBeWithin(1, MEANWHILE_MOST + 1);
  expect(seen.looks).toBeGreaterThanOrEqual(2 * COUNT);
});

test("over HTTP/2, on a connection each", async () => {
  const { clock, seen, catchUp, work } = world();
  const application = { open: () => ({ data() {}, ended: work, gone() {} }) };
  const server = new Http2Server(application, { ...LISTEN, tls: null, keepAlive: apiKeepAlive(0), clock, catchUp });
  ends.push(() => server.stop(true));
  const clients = await Promise.all(Array.from({ length: COUNT }, () => WireClient.connect(server.port)));
  for (const client of clients) ends.push(() => client.leave());
  for (const client of clients) client.post("/", {});
  await eventually(() => requests(seen.order) === COUNT);
  expect(seen.order.indexOf("woken")).toBeWithin(1, MEANWHILE_MOST + 1);
  expect(seen.looks).toBeGreaterThanOrEqual(2 * COUNT);
});
