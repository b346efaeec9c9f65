/** Runs the checks of a client one after the other; a line of JSON each: `check`, and `error` where it failed. */
import assert from "node:assert/strict";

export const url = process.argv[2];
export const model = "m";
export const hello = [{ role: "user", content: "Hello, who are you?" }];
export const WEATHER = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["city", "days"],
  additionalProperties: false,
};

export function assertWeather(value) {
  assert.deepEqual(Object.keys(value).sort(), ["city", "days"]);
  assert.equal(typeof value.city, "string");
  assert.ok(Number.isInteger(value.days) && value.days >= 1 && value.days <= 7, `days: ${value.days}`);
}

/** One sample of the server's own page. */
export async function sample(series) {
  const page = await (await fetch(`${url}/metrics`)).text();
  const line = page.split("\n").find((one) => one.startsWith(series));
  assert.ok(line, `no ${series}`);
  return Number(line.slice(line.lastIndexOf(" ") + 1));
}

/** What the client left must end on the server: nothing runs any more, and one abort more is counted. */
export async function aborted(leave) {
  const aborts = 'understudy_requests_total{outcome="abort"}';
  const before = await sample(aborts);
  await leave();
  for (let i = 0; i < 300; i++) {
    if ((await sample("vllm:num_requests_running")) === 0 && (await sample(aborts)) === before + 1) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail("the request goes on");
}

export async function run(checks) {
  for (const [check, work] of Object.entries(checks)) {
    try {
      await work();
      console.log(JSON.stringify({ check }));
    } catch (error) {
      console.log(JSON.stringify({ check, error: String(error?.stack ?? error).slice(0, 2000) }));
    }
  }
}
