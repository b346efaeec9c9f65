/** Tests a front end of the library in Bun, with a stub in place of the front end. front-node.test.ts does it in Node. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { startFront } from "../../src/embed/bun.ts";
import { type Front, SharedFront } from "../../src/embed/front.ts";

setDefaultTimeout(30_000);

const stub = new URL("../cli/front/stub-front.ts", import.meta.url).pathname;
const command = [process.execPath, stub, "serve", "some/model"];
const engine = { timing: "none" } as const;
const isGone = (url: string) =>
  fetch(url).then(
    () => false,
    () => true,
  );

test("a front end and its engine start, answer, and end together", async () => {
  let urls: string[];
  {
    await using front = await startFront({ command, engine });
    const args = (await (await fetch(front.url)).json()) as readonly string[];
    expect(args).toContain("--data-parallel-size-local");
    expect(new URL(front.url).port).toBe(args[args.indexOf("--port") + 1]!);
    expect(await front.engine.idle()).toMatchObject({ running: 0, waiting: 0 });
    expect((await front.engine.metrics()).text).toContain('model_name="some/model"');
    expect(await front.output()).toContain("ready to accept requests");
    urls = [front.url, front.engine.url];
  }
  expect(await Promise.all(urls.map(isGone))).toEqual([true, true]);
});

test("the engine ends if the front end ends, and `ended` says so", async () => {
  const front = await startFront({ command, engine });
  await fetch(`${front.url}/end`).catch(() => {});
  expect((await front.ended)?.message).toBe("the front end has ended with code 9");
  await front.close();
  expect(await isGone(front.engine.url)).toBe(true);
});

test.each([
  [{ command: ["no-such-front-end"] }, "command: no-such-front-end: not found"],
  [{ command: [] }, "command: takes the program and its arguments"],
  [{ command: [...command, "-dpl", "1"] }, "must be 0 or left out"],
  [{ command, engine: { role: "vllm" } as const }, "engine.role: is always vllm-engine here"],
  [{ command, engine: { maxNumSeqs: 0 } }, "maxNumSeqs: takes"],
])("%j is refused with a TypeError", async (options, message) => {
  const error = await startFront(options).catch((why: Error) => why);
  expect([(error as Error).name, (error as Error).message]).toEqual(["TypeError", expect.stringContaining(message)]);
});

test("a front end that dies, or is not ready in time, is an error with its output", async () => {
  const dead = startFront({ command, engine, env: { STUB: "dies" } });
  await expect(dead).rejects.toThrow(/ended with code 3 before it was ready\nthe front end: a wrong model$/);
  const silent = startFront({ command, engine, env: { STUB: "silent" }, timeoutMs: 300 });
  await expect(silent).rejects.toThrow(/was not ready within 0.3 s\nthe front end ends$/);
});

test("tests that share a front end take turns, and a front end that has ended is replaced", async () => {
  const started: Front[] = [];
  const shared = new SharedFront(async () => {
    const front = await startFront({ command, engine });
    started.push(front);
    return front;
  });
  const seen: string[] = [];
  const lend = (name: string, act: (front: Front) => Promise<unknown>) =>
    shared.lend(async (front) => {
      seen.push(`${name} begins`);
      await act(front);
      seen.push(`${name} ends`);
    });
  const failing = lend("second", () => Promise.reject(new Error("the test failed"))).catch(({ message }) => message);
  await Promise.all([lend("first", () => Bun.sleep(20)), failing]);
  expect(await failing).toBe("the test failed");
  expect(seen).toEqual(["second begins", "first begins", "first ends"]);
  expect(started).toHaveLength(1);
  await lend("third", (front) => fetch(`${front.url}/end`).catch(() => {}));
  await lend("fourth", async (front) => expect((await fetch(front.url)).status).toBe(200));
  expect(started).toHaveLength(2);
  await started[1]!.close();
});
