/**
 * Finds free ports below the system's ephemeral range (Linux: from 32768 on). The engine asks again and again whether the
 * front end listens, and in the ephemeral range such a connection could be given the very port that it asks for.
 */
import { createServer } from "node:net";

const FIRST = 20_000;
const LAST = 32_000;
/** Distance of the first ports of two processes with neighbouring ids. */
const STRIDE = 37;
const HOST = "127.0.0.1";

let turn = 0;

/** Returns a port that nobody listens on. Other processes start at other ports, because nothing reserves the port. */
export async function freePort(): Promise<number> {
  for (let tries = FIRST; tries < LAST; tries++) {
    const port = FIRST + ((process.pid * STRIDE + turn++) % (LAST - FIRST));
    if (await isFree(port)) return port;
  }
  throw new Error(`all ports from ${FIRST} to ${LAST - 1} are in use`);
}

const isFree = (port: number) =>
  new Promise<boolean>((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, HOST, () => probe.close(() => resolve(true)));
  });
