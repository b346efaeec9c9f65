/** Tests that large bodies of a Triton server wait for each other, and that room is free again after any end of a request. */
import { expect, test } from "bun:test";
import { HeldBodies, HeldBody } from "../../../../src/servers/triton/inference/held-bodies.ts";

const MIB = 2 ** 20;

/** Returns a room of 100 MiB for bodies, and a clock that only advances in `pass`. */
function rooms() {
  let nowUs = 0;
  const timers: { dueUs: number; act: () => void }[] = [];
  const after = (us: number, act: () => void) => {
    timers.push({ dueUs: nowUs + us, act });
    return () => {};
  };
  const pass = async (us: number) => {
    nowUs += us;
    for (const one of timers.splice(0))
      if (one.dueUs <= nowUs) one.act();
      else timers.push(one);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const bodies = new HeldBodies({ nowUs: () => nowUs, after }, 100 * MIB);
  /** Returns a request that asks for room, the outcome in `seen`, and functions that complete or abort it. */
  const body = (bytes: number, json: number | null = null) => {
    const left: (() => void)[] = [];
    const headers = new Headers(json === null ? {} : { "inference-header-content-length": `${json}` });
    const signal = { aborted: false, addEventListener: (_: string, act: () => void) => void left.push(act) };
    const one = new HeldBody({ headers, signal } as never, bodies);
    const seen = { answer: "waits" };
    const entering = one.enter(bytes);
    if (entering === undefined) seen.answer = "in";
    else
      entering.then(
        () => (seen.answer = "in"),
        (why: Error) => (seen.answer = why.message),
      );
    const come = () => {
      one.came(bytes);
      one.cameWhole();
    };
    const abort = () => {
      for (const act of left) act();
    };
    return { one, seen, come, abort };
  };
  return { body, pass };
}

test("JSON counts twice and binary tensors once, and a waiting body enters when another request is answered", async () => {
  const { body, pass } = rooms();
  const [json, binary] = [body(20 * MIB), body(60 * MIB, 0)];
  expect([json.seen.answer, binary.seen.answer]).toEqual(["in", "in"]);
  json.come();
  binary.come();
  const next = body(20 * MIB);
  await pass(1000);
  expect(next.seen.answer).toBe("waits");
  binary.one.leave();
  await pass(0);
  expect(next.seen.answer).toBe("in");
});

test("a client that disconnects frees its room unless its request is running, and a body that waits too long is refused", async () => {
  const { body, pass } = rooms();
  const [first, second] = [body(30 * MIB), body(20 * MIB)];
  first.abort();
  const third = body(30 * MIB);
  await pass(0);
  expect(third.seen.answer).toBe("in");
  third.come();
  second.come();
  second.abort();
  const fourth = body(30 * MIB);
  await pass(60e6);
  expect(fourth.seen.answer).toBe("waits");
  await pass(61e6);
  expect(fourth.seen.answer).toBe("too many bytes of bodies come at once");
  second.one.leave();
  third.one.leave();
  expect(body(50 * MIB).seen.answer).toBe("in");
});

test("bodies are parsed one after the other if they are large together", async () => {
  const { body, pass } = rooms();
  const done: string[] = [];
  const parse = (name: string, bytes: number) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const ended = body(1).one.parse(bytes, () => {
      done.push(`${name} begins`);
      return promise;
    });
    void ended.then(() => done.push(`${name} ends`));
    return resolve;
  };
  const end = parse("first", 60 * MIB);
  parse("second", 60 * MIB);
  parse("short", MIB);
  await pass(0);
  expect(done).toEqual(["short begins", "first begins"]);
  end();
  await pass(0);
  expect(done.slice(2).toSorted()).toEqual(["first ends", "second begins"]);
});

test("four small bodies are parsed at a time", async () => {
  const { body, pass } = rooms();
  let begun = 0;
  const ends = Array.from({ length: 6 }, () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    void body(1).one.parse(MIB, () => {
      begun++;
      return promise;
    });
    return resolve;
  });
  await pass(0);
  expect(begun).toBe(4);
  ends[0]!();
  await pass(0);
  await pass(0);
  expect(begun).toBe(5);
});

test("decompressed bytes count instead of the compressed body, at the limit until their number is known", async () => {
  const { body, pass } = rooms();
  const packed = body(2 * MIB);
  packed.come();
  const { promise, resolve } = Promise.withResolvers<Uint8Array>();
  const made = packed.one.replace(48 * MIB, () => promise);
  const other = body(20 * MIB);
  await pass(0);
  expect(other.seen.answer).toBe("waits");
  resolve(new Uint8Array(3 * MIB));
  expect((await made).length).toBe(3 * MIB);
  await pass(0);
  expect(other.seen.answer).toBe("in");
});
