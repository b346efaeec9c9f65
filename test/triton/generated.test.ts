/**
 * Tests clients that protobuf's compilers generate from our tables of fields: Go and Java, each method once, and
 * grpc-health-probe.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdirSync } from "node:fs";
import { findToolchain, missingLine, TOOLCHAINS } from "../clients/toolchains.ts";
import { goMessages, javaMessages, protocolFile, run } from "../clients/triton/generate.ts";
import { sized } from "../size.ts";
import { hostTriton } from "./child.ts";

setDefaultTimeout(600_000);

const root = new URL("../../", import.meta.url).pathname;
const built = `${root}build/test/triton-clients`;
const PROTOC = "com.google.protobuf:protoc:4.36.2:exe:linux-x86_64";
const PROBE = "github.com/grpc-ecosystem/grpc-health-probe@v0.4.40";
const CHECKS = ["state", "about", "repository", "settings", "infer", "errors", "stream", "cancel"];

/** True in the whole run only, because the compilers take a minute. */
const whole = sized("triton", { sample: false, whole: true });

test("the compilers get each message of the service and of the model configuration", () => {
  expect(protocolFile.messageType.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["ModelInferRequest", "ModelStreamInferResponse", "ModelConfig", "LogSettingsResponse"]),
  );
});

if (whole) {
  const go = findToolchain(TOOLCHAINS.go);
  const java = Bun.which("mvn") && Bun.which("javac") ? findToolchain(TOOLCHAINS.java) : null;
  if (go === null) console.log(missingLine(TOOLCHAINS.go, ["Go, generated", "grpc-health-probe"]));
  else goClients(go);
  if (java === null) console.log(missingLine(TOOLCHAINS.java, ["Java, generated (Maven and a JDK)"]));
  else javaClient(java);
}

/** Runs the client against a server that is started for it. */
async function served(ask: (address: string) => void): Promise<void> {
  const models = ["plain", "batched", "tokens"].map((name) => `--load-model=${name}`);
  const repository = `--model-repository=${root}test/triton/models`;
  const server = await hostTriton([repository, "--model-control-mode=explicit", "--allow-client-shm=true", ...models]);
  try {
    ask(`127.0.0.1:${server.grpc}`);
  } finally {
    await server.stop();
  }
}

/** Copies the client's files into a folder for building. */
function folderFor(language: string, files: readonly string[]): string {
  const folder = `${built}/${language}`;
  mkdirSync(folder, { recursive: true });
  for (const file of files) copyFileSync(`${root}test/clients/triton/${language}/${file}`, `${folder}/${file}`);
  return folder;
}

function expectChecks(out: Uint8Array): void {
  const seen = Buffer.from(out)
    .toString()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as { check: string; error?: string });
  expect(seen).toEqual(CHECKS.map((check) => ({ check })));
}

function goClients(go: string): void {
  test("Go", () => {
    const folder = folderFor("go", ["main.go", "go.mod", "go.sum"]);
    goMessages(go, folder, "triton");
    run([go, "build", "-o", "client", "."], folder);
    return served((address) => expectChecks(run([`${folder}/client`, address], folder)));
  });

  test("grpc-health-probe", () => {
    mkdirSync(built, { recursive: true });
    const env = { ...process.env, GOBIN: built };
    const { exitCode, stderr } = Bun.spawnSync([go, "install", PROBE], { env });
    expect([exitCode, exitCode === 0 ? "" : `${stderr}`]).toEqual([0, ""]);
    return served((address) => {
      const probed = Bun.spawnSync([`${built}/grpc-health-probe`, `-addr=${address}`]);
      expect([probed.exitCode, `${probed.stderr}`]).toEqual([0, expect.stringContaining("status: SERVING")]);
    });
  });
}

function javaClient(java: string): void {
  test("Java", () => {
    const folder = folderFor("java", ["Client.java", "pom.xml"]);
    run(["mvn", "-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${folder}/jars`], folder);
    run(["mvn", "-q", "-B", "dependency:copy", `-Dartifact=${PROTOC}`, `-DoutputDirectory=${folder}/bin`], folder);
    const protoc = `${folder}/bin/protoc-4.36.2-linux-x86_64.exe`;
    run(["chmod", "+x", protoc], folder);
    javaMessages(protoc, folder);
    run(["javac", "-cp", "jars/*", "-d", "classes", "Client.java", "inference/Inference.java"], folder);
    const client = [java, "-cp", "jars/*:classes", "Client"];
    return served((address) => expectChecks(run([...client, ...address.split(":")], folder)));
  });
}
