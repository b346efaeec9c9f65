/**
 * Starts three servers that answer the same requests: our own one, and real front ends over an engine of ours. All have the
 * same model and parsers.
 */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../src/cli/front/free-port.ts";
import { hosted } from "../../hosted.ts";
import { type ReadAnswer, readAnswer } from "../answers.ts";
import { type FrontName, startFront } from "../real-front.ts";
import type { CutScript } from "./cuts.ts";
import type { OracleRequest } from "./draw.ts";

export type ServerName = "own" | FrontName;

/** Parsers of a server. */
export interface OracleParsers {
  readonly tools: string;
  readonly reasoning?: string;
}

export interface OracleServer {
  readonly name: ServerName;
  /** Returns the answer, or the status and the body if it has no choices. */
  ask(request: OracleRequest, script: CutScript): Promise<OracleAnswer>;
  stop(): Promise<unknown>;
}

export type OracleAnswer = ReadAnswer | { readonly status: number; readonly body: string };

const SAME = ["--max-model-len", "1024", "--seed", "1", "--max-num-seqs", "256"];

/** Starts a server. `model`: folder of the model. `timing`: of the steps. A front end merges those that arrive together. */
export async function startServer(
  name: ServerName,
  model: string,
  parsers: OracleParsers,
  timing = "none",
): Promise<OracleServer> {
  const reasoning = parsers.reasoning === undefined ? [] : ["--reasoning-parser", parsers.reasoning];
  const tools = ["--enable-auto-tool-choice", "--tool-call-parser", parsers.tools];
  const named = ["--served-model-name", "golden"];
  const same = [...SAME, "--timing", timing];
  if (name === "own") {
    const server = await hosted([...named, "--tokenizer", model, ...same, ...tools, ...reasoning]);
    return { name, ask: asking(server.url, true), stop: () => server.stop(0) };
  }
  const rpcPort = await freePort();
  const engine = await hosted([
    ...["--role", "vllm-engine", "--data-parallel-rpc-port", `${rpcPort}`, "--tokenizer", model],
    ...[...named, ...same, ...reasoning],
  ]);
  const folder = mkdtempSync(join(tmpdir(), "understudy-oracle-"));
  symlinkSync(model, join(folder, "model"));
  const front = await startFront(name, { rpcPort, folder, flags: [...named, ...tools, ...reasoning] });
  const stop = async () => {
    await front.stop();
    await engine.stop(0);
    rmSync(folder, { recursive: true });
  };
  return { name, ask: asking(`http://127.0.0.1:${front.port}`, false), stop };
}

/** `own`: the order is a header. Front ends pass on only a member of the body. */
function asking(url: string, own: boolean): OracleServer["ask"] {
  return async ({ path, body }, script) => {
    const order = JSON.stringify({ script });
    const response = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...(own ? { "x-understudy": order } : {}) },
      body: JSON.stringify(own ? body : { ...body, vllm_xargs: { understudy: order } }),
    });
    const text = await response.text();
    const frames = response.headers.get("content-type")?.includes("event-stream") ? text.split("\n\n") : undefined;
    return readAnswer(frames ? { frames } : { body: text }) ?? { status: response.status, body: text };
  };
}
