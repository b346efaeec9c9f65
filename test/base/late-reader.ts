/**
 * Sends an event to an output that breaks the contract of `Output.send`: it reads the bytes in a later turn of the event loop.
 * Prints the bytes that it reads. Runs as a child process, because the debug mode is read when a file is loaded.
 */
import { type Output, SocketStream } from "../../src/wire/http1/stream.ts";

const copies = process.argv.includes("--copy");

const output: Output = {
  fd: -1,
  finished: () => {},
  broken: () => {},
  send: (bytes, length) => {
    const seen = copies ? Buffer.from(bytes.subarray(0, length)) : Buffer.from(bytes.buffer, bytes.byteOffset, length);
    setTimeout(() => console.log(seen.toString("latin1")), 20);
    return 0;
  },
};
const stream = new SocketStream({ onDrain: () => {}, onGone: () => {} }, null, output);
stream.begin("", null);
stream.write("data: hello\n\n");
