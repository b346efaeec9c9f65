/** A stand-in for a runner of GitHub Actions: runs the shell steps of a composite action, with the files that a step writes. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PLAIN } from "../packed.ts";

interface Step {
  readonly id?: string;
  readonly if?: string;
  readonly shell?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, string>>;
}

export interface Action {
  readonly inputs: Readonly<Record<string, { readonly default: string }>>;
  readonly outputs: Readonly<Record<string, { readonly value: string }>>;
  readonly runs: { readonly steps: readonly Step[] };
}

export interface JobResult {
  readonly ok: boolean;
  readonly outputs: Readonly<Record<string, string>>;
  /** Output of all steps. */
  readonly log: string;
  /** Values of `with` of the actions that steps use. */
  readonly used: readonly Readonly<Record<string, string>>[];
}

export class Runner {
  readonly folder = mkdtempSync(join(tmpdir(), "understudy-runner-"));
  readonly workspace = join(this.folder, "work");

  constructor() {
    mkdirSync(this.workspace);
    mkdirSync(join(this.folder, "temp"));
  }

  /** Runs the steps in order. `env`: more variables of the job. */
  async run(action: Action, given: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) {
    const defaults = Object.fromEntries(
      Object.entries(action.inputs).map(([name, input]) => [name, `${input.default}`]),
    );
    const inputs: Record<string, string> = { ...defaults, ...given };
    const steps: Record<string, Record<string, string>> = {};
    const evaluated = (text: string) =>
      text.replace(/\$\{\{ *([\w.-]+) *\}\}/g, (_, path: string) => {
        const [kind, name = "", , output = ""] = path.split(".");
        return (kind === "inputs" ? inputs[name] : steps[name]?.[output]) ?? "";
      });
    let [ok, log] = [true, ""];
    const used: Record<string, string>[] = [];
    for (const step of action.runs.steps) {
      const condition = step.if ?? "";
      const [, name] = /inputs\.([\w-]+) != ''/.exec(condition) ?? [];
      if ((name !== undefined && inputs[name] === "") || (!ok && !condition.includes("always()"))) continue;
      const values = (texts: Readonly<Record<string, string>> = {}) =>
        Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, evaluated(`${text}`)]));
      if (step.run === undefined) {
        used.push(values(step.with));
        continue;
      }
      const file = join(this.folder, "output");
      writeFileSync(file, "");
      const child = Bun.spawn(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.run], {
        cwd: this.workspace,
        env: {
          ...PLAIN,
          ...{ GITHUB_OUTPUT: file, RUNNER_TEMP: join(this.folder, "temp") },
          ...env,
          ...values(step.env),
        },
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [out, complaint] = await Promise.all([child.stdout.text(), child.stderr.text()]);
      log += out + complaint;
      ok &&= (await child.exited) === 0;
      const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
      if (step.id !== undefined)
        steps[step.id] = Object.fromEntries(
          lines.map((line) => [line.split("=")[0]!, line.slice(line.indexOf("=") + 1)]),
        );
    }
    const outputs = Object.entries(action.outputs).map(([name, { value }]) => [name, evaluated(value)]);
    return { ok, outputs: Object.fromEntries(outputs), log, used } satisfies JobResult;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
