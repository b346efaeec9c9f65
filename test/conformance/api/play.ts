/** Repeats recorded exchanges on a live server: one server per group of flags, and separate sockets per case. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inLanes } from "../../../scripts/test-lanes.ts";
import { hosted } from "../../hosted.ts";
import { serve } from "../../server.ts";
import { type Case, type Clean, type Exchange, exchangesOf, type Folder } from "./cases.ts";
import { difference, headDifference, Ids } from "./compare.ts";
import { exchange, type PlayedAnswer } from "./wire.ts";

/** Flags of the recordings' server, and those that the stand-in needs in addition. */
const BASE = [
  ..."--model model --no-async-scheduling --max-num-batched-tokens 4096 --max-num-seqs 64 --block-size 16".split(" "),
  ..."--num-gpu-blocks-override 512 --timing none --disable-uvicorn-access-log --disable-log-stats".split(" "),
];
/** Time for a request to get from the encoder to the engine, in milliseconds. */
const SETTLE_MS = 60;
/** Number of servers that run at the same time. */
const SERVERS = 3;
const RELEASE = { release: true };
const SILENCE = { script: { sequences: [], logprobs: "ranked" } };

export interface Verdict {
  readonly name: string;
  /** Difference from the recording. Null if there is none. */
  readonly wrong: string | null;
  /** Difference from the changed recording. Null if there is none, or no changed recording. */
  readonly noticed: string | null;
}

/**
 * Plays all cases, those of a group one after the other, and passes each verdict to `told`. If `change` is set, the same
 * answers are also compared with the changed case.
 */
export async function playAll(
  { cases, model, clean }: Folder,
  report: (verdict: Verdict) => void,
  change: ((testCase: Case) => Case) | null = null,
): Promise<void> {
  const ids = new Ids();
  const groups = groupsOf(cases).map((group) => async () => {
    const folder = mkdtempSync(join(tmpdir(), "understudy-api-"));
    let server: PlayServer | null = null;
    try {
      const script = join(folder, "scripts.json");
      writeFileSync(script, JSON.stringify({ scripts: group.flatMap(scriptsOf) }));
      server = await started(group, flagsOf(group[0]!, model, script));
      const port = Number(new URL(server.url).port);
      for (const testCase of group) {
        // A recording may leave the engine paused, and recordings were made in a different order.
        if (testCase.server_env?.VLLM_SERVER_DEV_MODE) await fetch(`${server.url}/resume`, { method: "POST" });
        const player = new Player(port, clean, ids);
        const wrong = await player.play(testCase, change?.(testCase)).catch((error: Error) => error.message);
        report({ name: testCase.name, wrong, noticed: player.noticed });
      }
    } catch (error) {
      for (const { name } of group) report({ name, wrong: `no server: ${(error as Error).message}`, noticed: null });
    } finally {
      await server?.cut();
      rmSync(folder, { recursive: true });
    }
  });
  // Run groups at the same time, because servers start and recordings wait for keep-alive comments or releases.
  await inLanes(groups, SERVERS);
}

interface PlayServer {
  readonly url: string;
  cut(): Promise<unknown>;
}

/**
 * Starts a server. If a recording measures what arrives in a time, the server gets a separate process, because other servers
 * would delay it.
 */
async function started(group: readonly Case[], flags: readonly string[]): Promise<PlayServer> {
  const env = group[0]!.server_env ?? {};
  if (group.every((testCase) => exchangesOf(testCase).every((each) => each.release_after_s === undefined))) {
    const { url, stop } = await hosted(flags, env);
    return { url, cut: () => stop(0) };
  }
  const { url, stop } = await serve(flags, env);
  return { url, cut: () => stop("SIGKILL") };
}

/** Groups cases with the same flags. A case that kills the engine gets a separate server. */
function groupsOf(cases: readonly Case[]): Case[][] {
  const groups = new Map<string, Case[]>();
  for (const testCase of cases) {
    const kills = exchangesOf(testCase).some(({ script }) => script && "engine_dies_at_step" in script);
    const key = JSON.stringify([testCase.server_flags ?? [], testCase.server_env ?? {}, kills ? testCase.name : ""]);
    groups.set(key, [...(groups.get(key) ?? []), testCase]);
  }
  return [...groups.values()];
}

function flagsOf({ server_flags: flags = [] }: Case, model: string, script: string): string[] {
  const named = flags.includes("--served-model-name") ? [] : ["--served-model-name", "golden"];
  const { max_position_embeddings: length } = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
  return [...BASE, "--max-model-len", String(length), "--tokenizer", model, "--script", script, ...named, ...flags];
}

const playName = (name: string, at: number) => `${name}#${at}`;

function scriptsOf(testCase: Case): object[] {
  return exchangesOf(testCase).flatMap((each, at) => {
    if (!each.script) return [];
    const held = each === testCase.background ? { hold_after: each.hold_after ?? 1 } : {};
    const released = each.release_after_s === undefined ? {} : { release_after_s: each.release_after_s };
    return [{ name: playName(testCase.name, at), logprobs: "ranked", ...each.script, ...held, ...released }];
  });
}

class Player {
  readonly #port: number;
  readonly #clean: Clean;
  readonly #ids: Ids;
  /** Difference from the changed case. Null if there is none so far. */
  noticed: string | null = null;

  constructor(port: number, clean: Clean, ids: Ids) {
    this.#port = port;
    this.#clean = clean;
    this.#ids = ids;
  }

  /** Plays a case. Returns the difference, or null. */
  async play(testCase: Case, changed?: Case): Promise<string | null> {
    if (testCase.background) return this.#playBehind(testCase, testCase.background, changed);
    const saved = new Map<string, string>();
    for (const [at, each] of exchangesOf(testCase).entries()) {
      const played = await this.#send(filled(each, saved), order(testCase, each, at));
      const other = changed && exchangesOf(changed)[at];
      const wrong = this.#wrong(each, played, testCase.free_order === true, other);
      if (wrong !== null) return testCase.exchanges ? `exchange ${at}, ${each.request.path}: ${wrong}` : wrong;
      for (const [name, pattern] of Object.entries(each.save ?? {}))
        saved.set(name, new RegExp(pattern).exec(played.body)?.[1] ?? "");
    }
    return null;
  }

  /** Plays a request that arrives while another one is being served. */
  async #playBehind(testCase: Case, background: Exchange, changed?: Case): Promise<string | null> {
    let frames = 0;
    const behind = this.#send(background, order(testCase, background, 0), (text) => {
      frames = text.split("data: ").length - 1;
    });
    behind.catch(() => {}); // handled below
    // Wait for the frames received so far: the role, and one frame per step.
    const steps = background.hold_after ?? 1;
    const wanted = background.response.frames && steps > 0 ? steps : 0;
    for (let i = 0; i < 500 && frames < wanted; i++) await Bun.sleep(10);
    await this.#send({ request: barrier, response: testCase.response }, {});
    await Bun.sleep(SETTLE_MS);
    const played = await this.#send(testCase, { ...order(testCase, testCase, 1), ...RELEASE });
    const wrong = this.#wrong(testCase, played, false, changed);
    const late = this.#wrong(background, await behind, false, changed?.background);
    return wrong ?? (late === null ? null : `in the background: ${late}`);
  }

  #send({ request }: Exchange, ordered: object, seen?: (text: string) => void): Promise<PlayedAnswer> {
    const more = Object.keys(ordered).length === 0 ? {} : { "X-Understudy": JSON.stringify(ordered) };
    return exchange(request, this.#port, this.#clean, more as Record<string, string>, seen);
  }

  #wrong({ request, response }: Exchange, played: PlayedAnswer, freeOrder: boolean, changed?: Exchange): string | null {
    if (changed) this.noticed ??= difference(changed.response, played.response, freeOrder);
    // A GET returns an object with an earlier id.
    const repeated = request.method === "GET";
    const wrong = difference(response, played.response, freeOrder) ?? (repeated ? null : this.#ids.wrong(played));
    return wrong ?? headDifference(played);
  }
}

/** A request that is answered after all earlier prompts have reached the engine. */
const barrier = { method: "POST", path: "/tokenize", body: {}, sent: '{"prompt":"x"}' };

/** Returns the order for a request. Without a script the recordings' engine returns the end of sequence. */
function order(testCase: Case, each: Exchange, at: number): object {
  if (each.script) return { play: playName(testCase.name, at) };
  return each.request.method === "POST" ? SILENCE : {};
}

/** Replaces names by values from earlier answers. */
function filled(each: Exchange, saved: ReadonlyMap<string, string>): Exchange {
  const fill = (text: string) => text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => saved.get(name) ?? "");
  const { path, sent, ...request } = each.request;
  return { ...each, request: { ...request, path: fill(path), ...(sent === undefined ? {} : { sent: fill(sent) }) } };
}
