/**
 * Builds the image and runs it, in the whole only: `npx bun run test image`. Needs root, Linux on x64, mmdebstrap and, to build it
 * as users do, buildah (image.ts).
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { version } from "../../package.json";
import { done } from "../packed.ts";
import { eventually } from "../server.ts";
import { SUITE_MS, SUITES, suiteWith } from "../single-file.ts";
import { figure, leavesOut, sized } from "../size.ts";
import { composeFile, mountsOf } from "./compose.ts";
import { Container } from "./container.ts";
import { builtImage, filesUnder, type Image, readIn, removeImage } from "./image.ts";

setDefaultTimeout(1_800_000);

const root = new URL("../../", import.meta.url).pathname;
const isWhole = sized("image", { sample: false, whole: true }) && !leavesOut("mmdebstrap");
/** Bounds that the image must keep. */
const BYTES_MOST = 220e6;
const HEALTHY_MS_MOST = 2000;
const END_MS_MOST = 1000;

let folder: string;
let image: Image;
let commit: string;
beforeAll(async () => {
  if (!isWhole) return;
  folder = mkdtempSync(join(tmpdir(), "understudy-image-"));
  await done([process.execPath, "scripts/build.ts"], root);
  await done([process.execPath, "scripts/compile.ts", "--target", "linux-x64"], root);
  commit = (await done(["git", "rev-parse", "HEAD"], root)).out.trim();
  image = await builtImage(folder, commit);
  figure("built", image.built);
  console.log(`image: ${image.built}`);
});
afterAll(async () => {
  if (isWhole) await removeImage(folder);
});

/** Starts a container, waits until it is healthy, and stops it. Returns the measured times and what `use` returns. */
async function within<T>(words: readonly string[], use: (container: Container) => Promise<T>) {
  const container = new Container(image, folder, words);
  try {
    const healthyMs = await container.healthyMs();
    const value = await use(container);
    const { code, ms: endMs } = await container.stop();
    return { value, code, healthyMs, endMs };
  } finally {
    await container.stop();
  }
}

describe.skipIf(!isWhole)("the image", () => {
  test("has the single file, the C library and licences, and no other file", () => {
    expect(filesUnder(image.root)).toEqual([
      "lib/x86_64-linux-gnu/libc.so.6",
      "lib/x86_64-linux-gnu/libdl.so.2",
      "lib/x86_64-linux-gnu/libm.so.6",
      "lib/x86_64-linux-gnu/libpthread.so.0",
      "lib64/ld-linux-x86-64.so.2",
      "usr/local/bin/understudy",
      "usr/share/doc/libc6/copyright",
      "usr/share/doc/understudy/NOTICE",
    ]);
    expect(readIn(image, "usr/share/doc/libc6/copyright")).toContain("Lesser General Public");
    figure("bytes", image.bytes);
    expect(image.bytes).toBeLessThanOrEqual(BYTES_MOST);
  });

  test("has a user without rights, a check, and the version and the commit as labels", () => {
    const { user, health, labels } = image.config;
    expect([user, health.command]).toEqual(["65532:65532", ["understudy", "health"]]);
    expect(labels).toMatchObject({
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.revision": commit,
    });
  });
});

describe.skipIf(!isWhole || leavesOut("ip"))("a container of the image", () => {
  test("is healthy within 2 s, and SIGTERM ends it within 1 s with code 0", async () => {
    // Other work of the machine can delay single starts.
    const runs = [];
    for (let round = 0; round < 3; round++) runs.push(await within([], async () => {}));
    const least = (times: readonly number[]) => Math.round(Math.min(...times));
    const [healthyMs, endMs] = [least(runs.map((one) => one.healthyMs)), least(runs.map((one) => one.endMs))];
    figure("healthyMs", healthyMs);
    figure("endMs", endMs);
    expect(runs.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(healthyMs).toBeLessThanOrEqual(HEALTHY_MS_MOST);
    expect(endMs).toBeLessThanOrEqual(END_MS_MOST);
  });

  test.each([
    ["vllm", ["serve", "--host", "0.0.0.0"], "/health"],
    ["two workers", ["serve", "--workers", "2"], "/health"],
    ["trtllm-serve", ["serve", "--role", "trtllm-serve", "--host", "0.0.0.0"], "/health"],
    ["triton", ["serve", "--role", "triton", "--http-address", "0.0.0.0"], "/v2/health/ready"],
  ])("%s is healthy on its default port, as a user without rights", async (_, words, path) => {
    const { value, code } = await within(words, async (container) => {
      const status = (await done(["cat", `/proc/${container.pid}/status`], "/")).out;
      expect(status).toMatch(/^Uid:\s+65532\s+65532/m);
      expect(status).toMatch(/^NSpid:.*\s1$/m);
      return container.exec(["understudy", "health"]);
    });
    expect(value).toMatchObject({ code: 0, out: `http://127.0.0.1:8000: ready (${path} answers 200)\n` });
    expect(code).toBe(0);
  });

  test("a command runs beside the server: load, check and truth, at a host by its name", async () => {
    const { value, code } = await within(["serve", "--host", "0.0.0.0", "--timing", "none"], async (container) => {
      expect(container.text).toContain("writes      one native call for all plain tokens of a step");
      return [
        await container.exec(["understudy", "load", "--url", "http://server:8000", "--num-prompts", "5"]),
        await container.exec(["understudy", "check", "http://server:8000"]),
        await container.exec(["understudy", "truth", "http://server:8000"]),
        await container.exec(["understudy", "stress", "--client", "reference", "--faults", "B8"]),
      ];
    });
    expect(value.map((result) => result.code)).toEqual([0, 0, 0, 0]);
    expect(value[0]!.out).toContain("5 of 5 complete");
    expect(code).toBe(0);
  });

  test.each([
    ["--truth-log", "/truth.jsonl"],
    ["--ready-file", "/ready"],
  ])("%s cannot be written to the root, in one line", async (flag, path) => {
    const container = new Container(image, folder, ["serve", flag, path]);
    expect((await container.ended()).code).toBe(2);
    expect(container.text.trimEnd().split("\n")).toHaveLength(1);
    expect(container.text).toContain(`${flag} ${path}: `);
  });

  test("the server of the Compose file gets the load of its generator", async () => {
    const { server, load } = composeFile.services;
    const { value, code } = await within(server.command!, (container) =>
      container.exec(["understudy", ...load.command!, "--duration=2s"]),
    );
    expect(value).toMatchObject({ code: 0, err: "" });
    expect(code).toBe(0);
  });

  test.skipIf(leavesOut("prometheus"))(
    "Prometheus, configured as in the Compose file, scrapes each job and loads the rules",
    async () => {
      const etc = join(folder, "prometheus");
      for (const { from, to } of mountsOf(composeFile.services.prometheus))
        cpSync(root + from, join(etc, to.replace("/etc/prometheus/", "")), { recursive: true });
      const { value } = await within(composeFile.services.server.command!, async (container) => {
        const words = [`--config.file=${etc}/prometheus.yml`, `--storage.tsdb.path=${etc}/data`];
        const prometheus = Bun.spawn(container.besides(["prometheus", ...words]), {
          stdio: ["ignore", "ignore", "ignore"],
        });
        const asked = async (path: string) => {
          const script = `console.log(await (await fetch("http://127.0.0.1:9090/api/v1/${path}")).text())`;
          return JSON.parse((await done(container.besides([process.execPath, "-e", script]), root)).out).data;
        };
        try {
          let health: string[] = [];
          await eventually(async () => {
            const { activeTargets } = (await asked("targets")) as { activeTargets: { health: string }[] };
            health = activeTargets.map((target) => target.health);
            return health.length > 0 && !health.includes("unknown");
          });
          const { groups } = (await asked("rules")) as { groups: unknown[] };
          return { health, groups: groups.length };
        } finally {
          prometheus.kill();
          await prometheus.exited;
        }
      });
      expect(value.health).toEqual(["up", "up", "up", "up"]);
      expect(value.groups).toBeGreaterThan(3);
    },
  );
});

/** Mounts the folders of the tests into the image, in a mount namespace of its own, and runs the rest of the words. */
const WITH_FOLDERS = `set -e
root=$1
shift
for path in /proc /dev /tmp "$PWD"; do mkdir -p "$root$path"; done
mount --bind "$root" "$root"
for path in /proc /dev /tmp "$PWD"; do mount --rbind "$path" "$root$path"; done
mount -o remount,ro,bind "$root"
exec "$@"`;

test.skipIf(!isWhole).each(sized("image", { sample: [], whole: SUITES }))(
  "%s passes with the image",
  async (path) => {
    // Tests give paths of the machine to the program, so this program runs in the image's root with the folders of the tests.
    // The image has no certificates, which the variable of some machines names.
    const program = join(folder, "in-image");
    const inRoot = `unshare --root=${image.root} --wd="$PWD" /usr/local/bin/understudy "$@"`;
    writeFileSync(program, `#!/bin/sh\nunset NODE_EXTRA_CA_CERTS\nexec ${inRoot}\n`);
    chmodSync(program, 0o755);
    const inImage = ["unshare", "--mount", "sh", "-c", WITH_FOLDERS, "sh", image.root];
    expect(await suiteWith(program, path, inImage)).toEqual({ code: 0, failed: [] });
  },
  SUITE_MS,
);

test.skipIf(!isWhole)("without an image builder, the same steps make the same files", async () => {
  const other = mkdtempSync(join(tmpdir(), "understudy-image-"));
  try {
    const { root: steps, config } = await builtImage(other, commit, "for a comparison");
    expect(filesUnder(steps)).toEqual(filesUnder(image.root));
    const bytes = (folder: string) => filesUnder(folder).map((name) => Bun.hash(readFileSync(join(folder, name))));
    expect(bytes(steps)).toEqual(bytes(image.root));
    const { labels, ...facts } = image.config;
    expect(config).toMatchObject({ ...facts, environment: expect.arrayContaining(config.environment as string[]) });
    expect(labels).toMatchObject(config.labels);
  } finally {
    await removeImage(other);
  }
});
