/**
 * Makes all output of a server pass through a `LineWriter`. A pipe that is closed, or that nobody reads, must not end or
 * stop a server. Bun 1.4.5 helps with neither: `process.stdout.write` raises an uncaught error after EPIPE and keeps unread
 * text without limit, and `console.log` blocks the thread while a pipe is full.
 *
 * Lines leave by a sink of Bun. Loading the streams of Node and its console takes 10 ms of the start. They are only made for
 * a program that writes more than lines of text to them.
 */
import { writeSync } from "node:fs";
import { type LineStream, LineWriter } from "./line-writer.ts";

/** Returns a stream that writes to a descriptor. Opens the sink with the first text. */
function sinkOf(fd: number): LineStream {
  let sink: Bun.FileSink | null = null;
  return {
    write(text, done) {
      try {
        sink ??= Bun.file(fd).writer();
        sink.write(text);
        const flushed = sink.flush();
        if (flushed instanceof Promise) {
          flushed.then(() => done(null), done);
          return false;
        }
        queueMicrotask(() => done(null));
      } catch (error) {
        // The reader has gone, or the descriptor is closed: the next text tries a new sink.
        sink = null;
        queueMicrotask(() => done(error as Error));
      }
      return true;
    },
  };
}

/** Returns a stand-in for an object that the first access to a member makes. Methods are those of the object itself. */
function madeOnAccess<T extends object>(make: () => T): T {
  let made: T | undefined;
  const object = () => (made ??= make());
  return new Proxy({} as T, {
    get(_, name) {
      const value = Reflect.get(object(), name);
      return typeof value === "function" ? value.bind(object()) : value;
    },
    set: (_, name, value) => Reflect.set(object(), name, value),
    has: (_, name) => name in object(),
    getPrototypeOf: () => Reflect.getPrototypeOf(object()),
  });
}

/** Returns a stream like `process.stdout` that adds what it is given to the writer. */
function streamTo(writer: LineWriter, fd: number): NodeJS.WriteStream {
  const { Writable } = process.getBuiltinModule("node:stream");
  const { isatty } = process.getBuiltinModule("node:tty");
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, _, done) {
      writer.add(typeof chunk === "string" ? chunk : Buffer.from(chunk).toString());
      done();
    },
  });
  return Object.assign(stream, { fd, isTTY: isatty(fd) }) as unknown as NodeJS.WriteStream;
}

/** Returns a console that adds plain lines to the writers. Anything else makes the console of Node, which then takes over. */
function consoleOf(out: LineWriter, err: LineWriter): Console {
  const native = globalThis.console;
  let isWhole = false;
  const whole = madeOnAccess(() => {
    isWhole = true;
    // Without `console.write` and reading by `for await`, which are only of Bun.
    return new native.Console({ stdout: process.stdout, stderr: process.stderr }) as unknown as Console;
  });
  const lineBy =
    (name: "log" | "info" | "debug" | "warn" | "error", writer: LineWriter) =>
    (...values: unknown[]): void => {
      const [text] = values;
      if (!isWhole && values.length === 1 && typeof text === "string") writer.add(`${text}\n`);
      else whole[name](...values);
    };
  const lines: Record<PropertyKey, unknown> = {
    log: lineBy("log", out),
    info: lineBy("info", out),
    debug: lineBy("debug", out),
    warn: lineBy("warn", err),
    error: lineBy("error", err),
  };
  return new Proxy(whole, { get: (_, name) => lines[name] ?? Reflect.get(whole, name) });
}

/**
 * Makes everything that this thread prints pass through a `LineWriter`: `console`, `process.stdout.write` and
 * `process.stderr.write`, of our own code and of a user's `model.ts`. Call once, before the first line.
 * `name` begins the notice of dropped lines. Returns the writer of standard output.
 */
export function takeOverOutput(name: string): LineWriter {
  const notice = (dropped: number) =>
    `${name}: ${dropped} log ${dropped === 1 ? "line was" : "lines were"} dropped because nothing read them`;
  const take = (stream: "stdout" | "stderr", fd: number) => {
    const writer = new LineWriter(sinkOf(fd), notice);
    // Assigned, because any other access to the property would first make the stream of Node.
    Reflect.set(
      process,
      stream,
      madeOnAccess(() => streamTo(writer, fd)),
    );
    process.on("exit", () => writer.finish((bytes) => writeSync(fd, bytes)));
    return writer;
  };
  const out = take("stdout", 1);
  const err = take("stderr", 2);
  globalThis.console = consoleOf(out, err);
  return out;
}

/** Makes a command continue without its output if the reader has gone, as after `| head -1`: it ends as usual, without a stack trace. */
export function ignoreClosedOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: Error & { code?: string }) => {
      if (error.code !== "EPIPE") throw error;
    });
  }
}
