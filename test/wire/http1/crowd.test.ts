/** Tests that many open connections are reported, so that the garbage next to them is collected in small parts. */

import { expect, test } from "bun:test";
import net from "node:net";
import { WallClock } from "../../../src/base/clock.ts";
import { HttpServer } from "../../../src/wire/http1/server.ts";
import { eventually } from "../../server.ts";
import { LOCAL } from "./local-options.ts";

test("each 512 connections opened beyond the first 511 are reported; closed ones do not count", async () => {
  const clock = new WallClock();
  let crowds = 0;
  let open = 0;
  const server = new HttpServer(
    { fetch: () => new Response("answer") },
    { ...LOCAL, clock, catchUp: () => void open++, crowded: () => void crowds++ },
  );
  const sockets: net.Socket[] = [];
  /** Opens connections one after the other, because a full backlog would drop some. */
  const connect = async (count: number) => {
    for (let n = 0; n < count; n++) {
      const socket = net.connect(server.port, "127.0.0.1");
      sockets.push(socket);
      await new Promise((done, fail) => socket.once("connect", done).once("error", fail));
    }
    await eventually(() => open >= sockets.length);
  };
  try {
    await connect(400);
    // The server closes its side too, so that the client sees the end after the server has.
    const closed = sockets.map((socket) => new Promise((done) => socket.once("close", done).resume().end()));
    await Promise.all(closed);
    await connect(1022);
    expect(crowds).toBe(0);
    await connect(1);
    expect(crowds).toBe(1);
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.stop(true);
    clock.close();
  }
});
