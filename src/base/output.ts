/**
 * Makes all output of a server pass through a `LineWriter`. A pipe that is closed, or that nobody reads, must not end or stop a
 * server. Bun 1.4.5 helps with neither: `process.stdout.write` raises an uncaught error after EPIPE and keeps unread text
 * without limit, and `console.log` blocks the thread while a pipe is full.
 *
 * Lines are written by a file sink of Bun, because loading the streams and the console of Node takes 10 ms of the start. Node's
 * objects are created only for a program that uses more of them than writing lines.
 */
import { writeSync } from "node:fs";
import { type LineStream, LineWriter } from "./line-writer.ts";

/** Returns a stream that writes to a file descriptor. Opens Bun's sink at the first text. */
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
        // The reader has gone, or the descriptor is closed. Open a new sink for the next text.
        sink = null;
        queueMicrotask(() => done(error as Error));
      }
      return true;
    },
  };
}

/**
 * Returns a stand-in for an object that `make` creates at the first access to a member. Its methods are bound to the real
 * object.
 */
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

/** Returns a stream like `process.stdout` that passes its text to the writer. */
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

/**
 * Returns a console that adds plain lines to the writers. For any other use, it creates the console of Node, which then takes
 * over.
 */
function consoleOf(out: LineWriter, err: LineWriter): Console {
  const native = globalThis.console;
  let isWhole = false;
  const whole = madeOnAccess(() => {
    isWhole = true;
    // Omit `console.write` and reading by `for await`, which exist only in Bun.
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
    // Assign without reading the property, because a read would first create the stream of Node.
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

/**
 * Lets a command continue without output after the reader has gone, as with `| head -1`. The command ends as usual, without a
 * stack trace.
 */
export function ignoreClosedOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: Error & { code?: string }) => {
      if (error.code !== "EPIPE") throw error;
    });
  }
}
