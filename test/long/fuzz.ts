/** Sends many inputs to a server. Judges each answer when it arrives, and the process at the end. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { type Server, sample } from "../server.ts";
import { type Answer, HASTY, type Outcome, PATIENT, send } from "./client.ts";
import { corpus, type Input, inputOf } from "./inputs.ts";

export interface Plan {
  readonly seed: number;
  readonly inputs: number;
  /** Time limit of the run in seconds. */
  readonly seconds: number;
  /** True to send valid, whole requests, for the control run. */
  readonly plain?: boolean;
  /** True to wait for every answer. A request without an answer is then an error. */
  readonly patient?: boolean;
  /** Called after each tenth of the run. */
  readonly tenth?: () => void | Promise<void>;
}

export interface Report {
  readonly sent: number;
  readonly seconds: number;
  /** Number of answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Errors, each with the number of its input. */
  readonly wrong: readonly string[];
}

/** Number of open connections, and of new connections per second. */
const OPEN = 32;
const PER_SECOND = 800;
/** Limit of recorded errors. */
const WRONG_MOST = 20;

/** Statuses that a server may answer without network faults. 403 answers an order that clients may not give. */
const STATUSES = new Set([200, 307, 400, 401, 403, 404, 405, 413, 431, 500, 505]);

/**
 * Matches the accepted messages of status 500. vLLM answers 500 with Python's text if it accesses an attribute that a value's
 * type lacks. Examples are `structured_outputs` that is not an object, and a tool without `function` or `name`. The text is
 * empty for an integer that does not fit the message to the engine (recordings p-top-k-64, p-interval-70-stream).
 *
 * The fuzzed server has no full queue, pause or failure, so it never answers 503, or 500 for a failed engine (recordings queue-*,
 * dev-pause-*, err-engine-error*, engine-dies-*).
 */
const PYTHON_ERRORS = /^(?:'(?:\w+' object has no attribute 'get|function|name)')?$/;

/** Matches uvicorn's texts for a refused preflight and for bytes that are not HTTP. */
const PLAIN_TEXTS = /^(?:Disallowed CORS .*|Invalid HTTP request received\.)$/;

/**
 * Reports whether the input may order a token that the request's grammar rejects. Like in the real scheduler, such an answer
 * ends with the engine's error.
 */
function ordersAgainstItself(input: Input | undefined): boolean {
  return input !== undefined && /"understudy"[\s\S]*"(?:steps|script)"/.test(latin(input));
}

/** Describes the error of an answer. Null if vLLM could give the answer, or if docs/reference/differences.md lists it. */
export function wrongWith({ status, body }: Answer): string | null {
  if (!STATUSES.has(status)) return `status ${status}`;
  if (status < 400 || body === "") return status === 500 ? "500 without a body" : null;
  let json: { type?: string; error?: { message: string; code?: number } | string; detail?: string };
  try {
    json = JSON.parse(Buffer.from(body, "latin1").toString());
  } catch {
    // An answer to HEAD has no body, and a closed connection may cut a body.
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
    // An unknown method gets no answer from Bun: docs/reference/differences.md.
    if (patient && answers.length === 0 && !/^BREW /.test(latin(inFlight.get(index)!)))
      wrong.push(`${index}: no answer`);
    if (answers.length === 0) count(statuses, closed ? "closed" : "silent");
    answers.forEach((answer, i) => {
      count(statuses, String(answer.status));
      // The last answer may be cut if the client disconnected.
      const fault = i === answers.length - 1 && !closed && answer.status < 500 ? null : wrongWith(answer);
      if (fault === null || (answer.status === 500 && ordersAgainstItself(inFlight.get(index)))) return;
      if (wrong.length < WRONG_MOST) wrong.push(`${index}: ${fault}`);
    });
  };
  const sendInputs = async () => {
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
  await Promise.all(Array.from({ length: OPEN }, sendInputs));
  if (!alive(server.pid))
    wrong.push(`the process ended; ${savedInputs(seed, inFlight)}\n${server.output().slice(-2000)}`);
  return { sent: next, seconds: (performance.now() - began) / 1000, statuses, wrong };
}

/** Writes the inputs that were in flight when a process ended to files, and returns a message. */
function savedInputs(seed: number, inputs: ReadonlyMap<number, Input>): string {
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

/** Resources of a process. */
export interface ProcessResources {
  readonly descriptors: number;
  readonly residentMb: number;
}

export function resourcesOf(pid: number): ProcessResources {
  const resident = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { descriptors: readdirSync(`/proc/${pid}/fd`).length, residentMb: Number(resident) / 1024 };
}

/** Returns the sum of the requests in the engine, the open requests and streams of the server, and the buffered bytes. */
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
