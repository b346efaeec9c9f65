/** Tests a front end of the library, and its fixture for Vitest, in Node. A stub takes the place of the front end. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../server.ts";

setDefaultTimeout(30_000);

const root = new URL("../../", import.meta.url).pathname;
const stub = `${root}test/cli/front/stub-front.ts`;
const options = JSON.stringify({
  command: [process.execPath, stub, "serve", "some/model"],
  engine: { timing: "none", servedModelName: ["small"] },
});

const start = (text: string) =>
  Bun.spawn(["node", "--input-type=module", "--eval", text], { cwd: root, stdout: "pipe", stderr: "pipe" });

async function run(text: string): Promise<unknown> {
  const child = start(text);
  const [out, error, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect([code, error]).toEqual([0, ""]);
  return JSON.parse(out);
}

beforeAll(async () => {
  const child = Bun.spawn([process.execPath, "scripts/build.ts", "--library"], { cwd: root, stdout: "pipe" });
  if ((await child.exited) !== 0) throw new Error(await child.stdout.text());
});

test("a front end starts in Node, shows its output, and Node exits after close", async () => {
  const seen = await run(`
    import { startFront } from "llm-understudy";
    const front = await startFront(${options});
    const args = await (await fetch(front.url)).json();
    const { running } = await front.engine.idle();
    const output = await front.output();
    const page = await (await fetch(front.engine.url + "/metrics")).text();
    await front.close();
    const wrong = await startFront({ command: ["no-such-front-end"] }).catch(({ name, message }) => name + ": " + message);
    const ended = await front.ended;
    console.log(JSON.stringify({ args: args.includes("--data-parallel-rpc-port"), running, output, ended, wrong,
      named: page.includes('model_name="small"') }));
  `);
  expect(seen).toEqual({
    ...{ args: true, running: 0, ended: null, named: true },
    output: expect.stringContaining("ready to accept requests"),
    wrong: expect.stringMatching(/^TypeError: command: no-such-front-end: not found/),
  });
});

test("a front end that was not closed does not keep Node alive, and is gone when Node is killed", async () => {
  const begin = `import { startFront } from "llm-understudy"; const front = await startFront(${options}); console.log(JSON.stringify(front.url));`;
  const isGone = (url: string) =>
    fetch(url).then(
      () => false,
      () => true,
    );
  const forgotten = (await run(begin)) as string;
  await eventually(() => isGone(forgotten));
  const killed = start(`${begin} setInterval(() => {}, 1000);`);
  const { value } = await killed.stdout.getReader().read();
  killed.kill("SIGKILL");
  await eventually(() => isGone(JSON.parse(new TextDecoder().decode(value))));
});

test("tests with the fixture for Vitest share a front end, and a failure shows its output", async () => {
  const seen = await run(`
    import { frontFixture } from "llm-understudy/vitest";
    const fixture = frontFixture(${options});
    const urls = [];
    const use = (front) => { urls.push(front.url); return Promise.resolve(); };
    await fixture({ task: {} }, use);
    const error = { message: "2 == 1", stack: "Error: 2 == 1\\n at test" };
    await fixture({ task: { result: { state: "fail", errors: [error] } } }, use);
    console.log(JSON.stringify({ same: urls[0] === urls[1], ...error }));
  `);
  const longer = expect.stringContaining("2 == 1\n\nthe front end printed:\nOpenAI server is ready");
  expect(seen).toEqual({ same: true, message: longer, stack: longer });
});
