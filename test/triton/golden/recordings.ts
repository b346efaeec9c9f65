/** Reads recordings of a real Triton. Each scenario has a new server, steps in order, and the answers. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { GrpcCallStep } from "./grpc-wire.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export interface Dict {
  readonly [key: string]: Json;
}

export interface HttpCall {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly text?: string;
  readonly b64?: string;
}

export interface Step {
  readonly http?: HttpCall;
  readonly grpc?: GrpcCallStep;
  readonly scrape?: string;
  readonly refused?: boolean;
  readonly watch?: { readonly families: readonly string[]; readonly every_ms: number; readonly for_ms: number };
  readonly background_watch?: boolean;
  readonly wait_all?: boolean;
  readonly settle_ms?: number;
  readonly signal?: string;
  readonly exit_within_ms?: number;
  readonly at_ms?: number;
  readonly sleep_ms?: number;
  readonly async?: boolean;
  readonly times?: number;
  readonly port?: string;
  readonly close_after_ms?: number;
  readonly only_status?: boolean;
  readonly compare?: string;
  readonly expect?: Json;
}

export interface Scenario {
  readonly name: string;
  readonly server: { readonly flags: readonly string[]; readonly models: readonly string[] };
  readonly timed?: boolean;
  readonly ranked?: boolean;
  readonly steps: readonly Step[];
  /** Raw metrics pages by the label of their scrape. */
  readonly pages: Readonly<Record<string, string>>;
  /** True if each answered step counts as a case; false if the scenario counts as one. */
  readonly bySteps: boolean;
}

export interface Recordings {
  readonly scenarios: readonly Scenario[];
  /** Folder of the models; null if the recordings have none. */
  readonly models: string | null;
}

const PARTS = ["http", "grpc", "metrics"];

/** Reads a folder with `http/`, `grpc/` or `metrics/`, or one with recordings, compressed or not. */
export function readRecordings(dir: string): Recordings {
  const folders = PARTS.map((part) => join(dir, part)).filter(existsSync);
  const scenarios = (folders.length > 0 ? folders : [dir]).flatMap(scenariosIn);
  const models = [join(dir, "models"), join(dir, "..", "models")].find(existsSync) ?? null;
  return { scenarios, models };
}

function scenariosIn(folder: string): Scenario[] {
  const files = readdirSync(folder).sort();
  return files
    .filter((file) => /\.json(\.gz)?$/.test(file))
    .flatMap((file) => {
      const read = JSON.parse(textOf(join(folder, file))) as Partial<Scenario>;
      if (!Array.isArray(read.steps) || read.server === undefined) return [];
      const own = file.replace(/\.json(\.gz)?$/, "");
      const pages = files.filter((one) => one.startsWith(`${own}.`) && /\.txt(\.gz)?$/.test(one));
      return [
        {
          ...(read as Scenario),
          name: read.name ?? `${basename(folder)}/${own}`,
          bySteps: !read.steps.some((step: Step) => step.scrape !== undefined || step.watch !== undefined),
          pages: Object.fromEntries(
            pages.map((page) => [page.slice(own.length + 1).replace(/\.txt(\.gz)?$/, ""), textOf(join(folder, page))]),
          ),
        },
      ];
    });
}

function textOf(file: string): string {
  const bytes = readFileSync(file);
  return file.endsWith(".gz") ? new TextDecoder().decode(Bun.gunzipSync(bytes)) : bytes.toString();
}
