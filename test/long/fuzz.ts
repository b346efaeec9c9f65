/** What becomes of a server that is sent many inputs? Each answer is judged as it comes, the process when it is over. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { type Server, sample } from "../server.ts";
import { type Answer, HASTY, type Outcome, PATIENT, send } from "./client.ts";
import { corpus, type Input, inputOf } from "./inputs.ts";

export interface Plan {
  readonly seed: number;
  readonly inputs: number;
  /** Seconds after which the run ends, where its inputs do not end before. */
  readonly seconds: number;
  /** As meant and whole: the control. */
  readonly plain?: boolean;
  /** Every request is waited for: one without an answer is wrong. */
  readonly patient?: boolean;
  /** Called after each tenth. */
  readonly tenth?: () => void | Promise<void>;
}

export interface Report {
  readonly sent: number;
  readonly seconds: number;
  /** Answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Numbers of inputs, and what was wrong with an answer to them. */
  readonly wrong: readonly string[];
}

/** Connections open at a time, and begun in a second. */
const OPEN = 32;
const PER_SECOND = 800;
/** Kept of what was wrong. */
const WRONG_MOST = 20;

/** The statuses that are answered where nobody spoils the network; others are wrong. 403: an order that no client may give. */
const STATUSES = new Set([200, 307, 400, 401, 403, 404, 405, 413, 431, 500, 505]);

/**
 * 500 is Python's text where vLLM asks a value for something that its type does not have: `structured_outputs` that is
 * no object, a tool without `function` or `name`; and no text at all for an integer that does not fit the message to the
 * engine (recordings p-top-k-64, p-interval-70-stream). (503, and 500 for an engine that failed, need a full queue, a pause or a
 * failure: recordings queue-*, dev-pause-*, err-engine-error*, engine-dies-*. The fuzzed server has none of them.)
 */
const PYTHON_ERRORS = /^(?:'(?:\w+' object has no attribute 'get|function|name)')?$/;

/** What uvicorn says of a preflight that is refused, and of what is no HTTP. */
const PLAIN_TEXTS = /^(?:Disallowed CORS .*|Invalid HTTP request received\.)$/;

/** An ordered token that the request's own grammar rejects ends the answer with the engine's error, as the real scheduler's. */
function ordersAgainstItself(input: Input | undefined): boolean {
  return input !== undefined && /"understudy"[\s\S]*"(?:steps|script)"/.test(latin(input));
}

/** Null: vLLM might have answered so, or it stands in docs/differences.md. */
export function wrongWith({ status, body }: Answer): string | null {
  if (!STATUSES.has(status)) return `status ${status}`;
  if (status < 400 || body === "") return status === 500 ? "500 without a body" : null;
  let json: { type?: string; error?: { message: string; code?: number } | string; detail?: string };
  try {
    json = JSON.parse(Buffer.from(body, "latin1").toString());
  } catch {
    // No body comes to a HEAD, and not all of one on a connection that was cut.
    return status === 400 && PLAIN_TEXTS.test(body) ? null : `${status}: not JSON: ${body.slice(0, 200)}`;
  }
  if (status === 500) {
    const message = typeof json.error === "object" ? json.error.message : "no object";
    return PYTHON_ERRORS.test(message) ? null : `500: ${body.slice(0, 300)}`;
  }
  // Errors of Anthropic's dialect have no code.
  if (typeof json.error === "object" && json.type !== "error" && json.error.code !== status)
    return `${status}: ${body.slice(0, 200)}`;
  return null;
}

export async function fuzz(
  server: Server,
  { seed, inputs, seconds, plain = false, patient = false, tenth }: Plan,
): Promise<Report> {
  const requests = corpus();
  const port = Number(new URL(server.url).port);
  const statuses: Record<string, number> = {};
  const wrong: string[] = [];
  const inFlight = new Map<number, Input>();
  const began = performance.now();
  let next = 0;
  let tenths = 1;
  const judge = (index: number, { answers, refused, closed }: Outcome) => {
    if (refused) wrong.push(`${index}: no connection`);
    // A method word that Bun does not know has no answer: docs/differences.md.
    if (patient && answers.length === 0 && !/^BREW /.test(latin(inFlight.get(index)!)))
      wrong.push(`${index}: no answer`);
    if (answers.length === 0) count(statuses, closed ? "closed" : "silent");
    answers.forEach((answer, i) => {
      count(statuses, String(answer.status));
      // The last one may be cut by whoever left.
      const what = i === answers.length - 1 && !closed && answer.status < 500 ? null : wrongWith(answer);
      if (what === null || (answer.status === 500 && ordersAgainstItself(inFlight.get(index)))) return;
      if (wrong.length < WRONG_MOST) wrong.push(`${index}: ${what}`);
    });
  };
  const one = async () => {
    while (next < inputs && performance.now() - began < seconds * 1000 && wrong.length < WRONG_MOST) {
      const ahead = next / PER_SECOND - (performance.now() - began) / 1000;
      if (ahead > 0) await Bun.sleep(ahead * 1000);
      const index = next++;
      const input = inputOf(requests, seed, index, plain);
      inFlight.set(index, input);
      const outcome = await send(port, input, patient ? PATIENT : HASTY);
      judge(index, outcome);
      if (!alive(server.pid)) break;
      inFlight.delete(index);
      const done = Math.max(next / inputs, (performance.now() - began) / 1000 / seconds);
      if (done * 10 >= tenths) {
        tenths++;
        await tenth?.();
      }
    }
  };
  await Promise.all(Array.from({ length: OPEN }, one));
  if (!alive(server.pid)) wrong.push(`the process ended; ${kept(seed, inFlight)}\n${server.output().slice(-2000)}`);
  return { sent: next, seconds: (performance.now() - began) / 1000, statuses, wrong };
}

/** What was under way when a process ended, as files. */
function kept(seed: number, inputs: ReadonlyMap<number, Input>): string {
  const folder = new URL("../../build/fuzz/", import.meta.url).pathname;
  mkdirSync(folder, { recursive: true });
  for (const [index, { bytes }] of inputs) writeFileSync(`${folder}${seed}-${index}.bin`, bytes);
  return `the ${inputs.size} inputs that were under way are in build/fuzz/`;
}

const latin = ({ bytes }: Input) => Buffer.from(bytes).toString("latin1");

function count(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** What a process holds. */
export interface Holding {
  readonly descriptors: number;
  readonly residentMb: number;
}

export function holding(pid: number): Holding {
  const resident = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { descriptors: readdirSync(`/proc/${pid}/fd`).length, residentMb: Number(resident) / 1024 };
}

/** Requests that the engine has, and those and the streams that the front has. */
export async function underWay(url: string): Promise<number> {
  const gauges = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting{",
    "understudy_requests_open",
    "understudy_streams_open",
    "understudy_held_bytes",
  ];
  const values = await Promise.all(gauges.map((name) => sample(url, name)));
  return values.reduce((sum, value) => sum + value, 0);
}
