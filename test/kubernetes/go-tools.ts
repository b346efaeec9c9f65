/**
 * Builds Helm and kubectl-validate from their Go modules. kubectl-validate runs the API server's own validation, with the rules of
 * CRDs in CEL, without a cluster.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findToolchain, missingLine, TOOLCHAINS } from "../clients/toolchains.ts";
import { CRDS, type KubernetesObject, root, type Yaml } from "./objects.ts";

const FOLDER = `${root}build/go-tools`;
const MODULES = ["helm.sh/helm/v3/cmd/helm@v3.22.0", "sigs.k8s.io/kubectl-validate@v0.0.4"];

export interface GoTools {
  readonly helm: string;
  readonly kubectlValidate: string;
}

/** Returns the path of Go. Throws an error that says how to get Go if the path is null. */
export function required(go: string | null): string {
  if (go !== null) return go;
  throw new Error(`${missingLine(TOOLCHAINS.go, ["Helm", "kubectl-validate"])}; --without-go leaves them out`);
}

/** Installs the tools unless they are there. The first time takes minutes. Throws if Go is missing. */
export function goTools(): GoTools {
  const tools = { helm: `${FOLDER}/helm`, kubectlValidate: `${FOLDER}/kubectl-validate` };
  const marker = `${FOLDER}/modules.txt`;
  if (existsSync(marker) && readFileSync(marker, "utf8") === MODULES.join("\n")) return tools;
  const go = required(findToolchain(TOOLCHAINS.go));
  for (const module of MODULES) {
    const env = { ...process.env, GOBIN: FOLDER };
    const { exitCode, stderr } = Bun.spawnSync([go, "install", module], { env, cwd: tmpdir() });
    if (exitCode !== 0) throw new Error(`go install ${module}: ${stderr}`);
  }
  writeFileSync(marker, MODULES.join("\n"));
  return tools;
}

/**
 * Validates objects by kubectl-validate with the CRDs of this folder. Returns the error of each object, "" for a valid one.
 */
export function kubectlErrors({ kubectlValidate }: GoTools, objects: readonly KubernetesObject[]): string[] {
  const folder = mkdtempSync(join(tmpdir(), "understudy-kubectl-"));
  try {
    for (const [at, object] of objects.entries()) writeFileSync(`${folder}/${at}.json`, JSON.stringify(object));
    const folders = readdirSync(CRDS).flatMap((name) => ["--local-crds", CRDS + name]);
    const { stdout, stderr } = Bun.spawnSync([kubectlValidate, folder, ...folders, "--output", "json"]);
    if (stdout.length === 0) throw new Error(stderr.toString());
    const results: Readonly<Record<string, readonly Yaml[]>> = JSON.parse(stdout.toString());
    return objects.map((_, at) => {
      const [result] = results[`${folder}/${at}.json`]!;
      return result.status === "Success" ? "" : String(result.message);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
