/**
 * Tests the release of a version. The sample: what is refused before a build, each with one line and exit code 2, and the
 * archives. The whole, `npx bun run test release`, makes a release of one commit in two folders, and compares and checks its
 * files. It needs the npm registry for the schema of CycloneDX.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv from "ajv";
import addFormats from "ajv-formats";
import manifest from "../../package.json";
import { REPOSITORY } from "../../scripts/page-links.ts";
import { archiveOf, compressedAgain } from "../../scripts/release/archive.ts";
import { checkRelease } from "../../scripts/release/checks.ts";
import { publishCommands } from "../../scripts/release/publish.ts";
import { otherVersions, VERSIONED } from "../../scripts/release/versions.ts";
import { done, run } from "../packed.ts";
import { sized } from "../size.ts";

setDefaultTimeout(120_000);

const root = new URL("../../", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-release-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WHO = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
const git = async (cwd: string, ...words: string[]) => (await done(["git", ...WHO, ...words], cwd)).out.trim();
const release = (cwd: string, ...words: string[]) => run([process.execPath, "scripts/release.ts", ...words], cwd);

describe("refused", () => {
  /** A small repository with the scripts of the release and all places with a version. */
  const small = join(folder, "small");
  const write = (path: string, text: string) => {
    mkdirSync(join(small, path, ".."), { recursive: true });
    writeFileSync(join(small, path), text);
  };
  const CHANGES = "# Changelog\n\n## 0.2.0\n\n### Added\n\n- A line.\n\n## 0.1.0\n\n- Older.\n";
  const PLACES: Readonly<Record<string, string>> = {
    "package.json": `{\n  "version": "0.2.0",\n  "homepage": "${manifest.homepage}",\n  "dependencies": { "bun": "${Bun.version}" }\n}\n`,
    "deploy/helm/understudy/Chart.yaml": 'name: understudy\nversion: 0.2.0\nappVersion: "0.2.0"\n',
    Dockerfile: "FROM scratch\nARG VERSION=0.2.0\n",
    "deploy/compose.yaml": "services:\n  server:\n    image: llm-understudy:0.2.0\n",
    "deploy/kubernetes/vllm/server.yaml": "containers:\n  - image: llm-understudy:0.2.0\n",
    "deploy/kubernetes/vllm/rules.yaml": "kind: PrometheusRule\n",
    "examples/testcontainers/node.ts": 'new GenericContainer("llm-understudy:0.2.0");\n',
    "docs/understudy.1": '.TH UNDERSTUDY 1 "" "understudy 0.2.0" "User Commands"\n',
    "docs/how-to/ci.md": "uses: llm-understudy/llm-understudy@v0.2.0\n",
    "action.yml": "inputs:\n  version:\n    default: 0.2.0\n",
  };

  beforeAll(async () => {
    mkdirSync(small);
    for (const name of ["scripts", "bun.lock"]) cpSync(root + name, join(small, name), { recursive: true });
    symlinkSync(`${root}node_modules`, join(small, "node_modules"));
    write(".gitignore", "node_modules\nbuild\n");
    write("CHANGELOG.md", CHANGES);
    for (const [path, text] of Object.entries(PLACES)) write(path, text);
    await git(small, "init", "--quiet");
    await commit();
  });
  const commit = async () => {
    await git(small, "add", "--all");
    await git(small, "commit", "--quiet", "--allow-empty", "--message", "Change");
    return git(small, "rev-parse", "HEAD");
  };
  const refusal = async (...words: string[]) => {
    const { code, out, err } = await release(small, ...words);
    expect({ code, out, lines: err.split("\n").length }).toEqual({ code: 2, out: "", lines: 2 });
    return err.trimEnd();
  };
  /** Commits a file with another text, runs `act`, and commits the file with its old text. */
  async function withText(path: string, text: string, act: () => Promise<void>): Promise<void> {
    const before = readFileSync(join(small, path), "utf8");
    write(path, text);
    await commit();
    await act();
    write(path, before);
    await commit();
  }

  test.each([
    [[], "needs one VERSION, such as 0.2.0"],
    [["0.2"], '"0.2" is not a version such as 0.2.0'],
    [["0.2.0", "--publish"], "Unknown option '--publish'."],
    [["0.2.0"], `package.json names the repository ${REPOSITORY}, which is a guess: confirm it with --repository URL`],
    [
      ["0.2.0", "--repository", "https://example.com/other"],
      `--repository https://example.com/other: package.json names ${REPOSITORY}; change it there and in all links first`,
    ],
    [["0.3.0", "--dry-run"], 'CHANGELOG.md has no heading "## 0.3.0" at its top (its newest is "## 0.2.0")'],
    [["0.1.0", "--dry-run"], 'CHANGELOG.md has no heading "## 0.1.0" at its top (its newest is "## 0.2.0")'],
    [["0.2.0", "--dry-run", "--out", "/dev/null/x"], "cannot write /dev/null/x: EEXIST"],
    [["0.2.0", "--dry-run", "--out", root], `${root.replace(/\/$/, "")} is not empty; name another folder with --out`],
  ])("%j", async (words, why) => {
    expect(await refusal(...words)).toStartWith(`release: ${why}`);
  });

  test("a tree with a changed file, or with a new one", async () => {
    write("CHANGELOG.md", `${CHANGES}\n`);
    expect(await refusal("0.2.0", "--dry-run")).toBe(
      "release: the tree is not clean: 1 changed or new files, first CHANGELOG.md",
    );
    write("CHANGELOG.md", CHANGES);
    write("new/file.ts", "");
    expect(await refusal("0.2.0", "--dry-run")).toBe(
      "release: the tree is not clean: 1 changed or new files, first new/file.ts",
    );
    rmSync(join(small, "new"), { recursive: true });
  });

  test("a heading without a line", () =>
    withText("CHANGELOG.md", "# Changelog\n\n## 0.2.0\n\n## 0.1.0\n\n- Older.\n", async () => {
      expect(await refusal("0.2.0", "--dry-run")).toBe('release: CHANGELOG.md has no line under "## 0.2.0"');
    }));

  test("another version or none in any of the places, and no package.json", async () => {
    for (const { path, part, pattern } of VERSIONED) {
      const isPlace = (name: string) => new Bun.Glob(path).match(name) && PLACES[name]!.match(pattern) !== null;
      const at = Object.keys(PLACES).find(isPlace)!;
      const text = PLACES[at]!.replace(pattern, (line, version) => line.replace(version, "0.1.9"));
      write(at, text);
      expect(otherVersions("0.2.0", small)).toEqual([`${at} names 0.1.9 (${part})`]);
      write(at, PLACES[at]!);
    }
    expect(otherVersions("0.2.0", small)).toEqual([]);
    await withText("Dockerfile", "FROM scratch\n", async () => {
      const why = "release: not every part has version 0.2.0: Dockerfile names no version (image)";
      expect(await refusal("0.2.0", "--dry-run")).toBe(why);
    });
    expect(otherVersions("0.2.0", folder)).toEqual(VERSIONED.map(({ path, part }) => `${path} is missing (${part})`));
  });

  test("no place of this repository, because each has the version of package.json", () => {
    expect(otherVersions(manifest.version, root)).toEqual([]);
  });

  test("a version whose tag is on another commit, and, if it is not a dry run, on this one", async () => {
    const first = await git(small, "rev-parse", "HEAD");
    await git(small, "tag", "v0.2.0");
    const exists = (commit: string) =>
      `release: version 0.2.0 exists: the tag v0.2.0 is on commit ${commit.slice(0, 12)}`;
    expect(await refusal("0.2.0", "--repository", REPOSITORY)).toBe(exists(first));
    const dry = { version: "0.2.0", isDry: true, repository: null, out: null };
    expect(checkRelease(small, dry)).toMatchObject({ commit: first, repository: REPOSITORY });
    await commit();
    expect(await refusal("0.2.0", "--dry-run")).toBe(exists(first));
    await git(small, "tag", "--delete", "v0.2.0");
  });

  const canMount = process.getuid?.() === 0 && Bun.spawnSync(["unshare", "--mount", "true"]).exitCode === 0;
  test.skipIf(!canMount)("a full disk, which gets no file", async () => {
    const disk = join(folder, "disk");
    mkdirSync(disk);
    const script =
      'mount -t tmpfs -o size=50m tmpfs "$1"; "$2" scripts/release.ts 0.2.0 --dry-run --out "$1/new"; ls "$1"';
    const { out, err } = await run(["unshare", "--mount", "sh", "-c", script, "sh", disk, process.execPath], small);
    expect([out, err]).toEqual(["", `release: ${disk} has 52 MB free, and a release needs 2000 MB\n`]);
  });
});

describe("archives", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const entries = [
    { path: "understudy/b.yaml", bytes: bytes("b".repeat(700)) },
    { path: "understudy/Chart.yaml", bytes: bytes("") },
  ];

  test("the order of the files and the time of the build do not matter, and tar reads them", async () => {
    const archive = archiveOf(entries, 1.7e9);
    expect(Buffer.from(archiveOf(entries.toReversed(), 1.7e9)).equals(archive)).toBe(true);
    expect(Buffer.from(archiveOf(entries, 1.7e9 + 1)).equals(archive)).toBe(false);
    writeFileSync(join(folder, "a.tgz"), archive);
    const { out } = await done(["tar", "--utc", "--full-time", "-tvzf", "a.tgz"], folder);
    expect(
      out
        .trim()
        .split(/\n/)
        .map((line) => line.split(/\s+/)),
    ).toEqual([
      ["-rw-r--r--", "0/0", "0", "2023-11-14", "22:13:20", "understudy/Chart.yaml"],
      ["-rw-r--r--", "0/0", "700", "2023-11-14", "22:13:20", "understudy/b.yaml"],
    ]);
    await done(["tar", "-xzf", "a.tgz"], folder);
    expect(readFileSync(join(folder, "understudy/b.yaml"), "utf8")).toBe("b".repeat(700));
    expect(() => archiveOf([{ path: "a".repeat(101), bytes: bytes("") }], 0)).toThrow("too long");
  });

  test("an archive that another program compressed gets the same bytes", () => {
    const text = Buffer.from("text ".repeat(1000));
    const [fast, best] = [Bun.gzipSync(text, { level: 1 }), Bun.gzipSync(text, { level: 9 })];
    expect(Buffer.from(compressedAgain(fast)).equals(compressedAgain(best))).toBe(true);
    expect(Buffer.from(Bun.gunzipSync(Buffer.from(compressedAgain(fast)))).equals(text)).toBe(true);
  });
});

test("the commands that publish name the packages, the chart, the image, and a channel for candidates", () => {
  const files = ["SHA256SUMS", "llm-understudy-1.0.0-rc.1.tgz", "understudy-1.0.0-rc.1.tgz"];
  const about = { version: "1.0.0-rc.1", commit: "c0", folder: "/out", files, hasImage: true };
  expect(publishCommands({ ...about, repository: "https://github.com/o/r" })).toEqual([
    'git tag -a v1.0.0-rc.1 -m "Understudy 1.0.0-rc.1" c0 && git push https://github.com/o/r v1.0.0-rc.1',
    "npm publish /out/llm-understudy-1.0.0-rc.1.tgz --tag next",
    "gh release create v1.0.0-rc.1 --repo o/r --verify-tag --notes-file /out/NOTES.md /out/*",
    "helm push /out/understudy-1.0.0-rc.1.tgz oci://REGISTRY",
    "mkdir -p build/bin && cp /out/understudy-linux-* /out/NOTICE build/bin/",
    "buildah build --build-arg COMMIT=c0 --tag REGISTRY/llm-understudy:1.0.0-rc.1 . && buildah push REGISTRY/llm-understudy:1.0.0-rc.1",
  ]);
  const other = publishCommands({ ...about, repository: "https://example.com/r", hasImage: false });
  expect(other[2]).toBe("upload /out/* to the page of v1.0.0-rc.1 at https://example.com/r");
  expect(other).toHaveLength(4);
});

const VERSION = "9.8.7";
const WHOLE = sized("release", { sample: [], whole: ["two folders"] });

describe.skipIf(WHOLE.length === 0)("a release of one commit in two folders", () => {
  const [first, second] = [join(folder, "first"), join(folder, "deeper/second-folder")];
  const made = (name: string) => join(first, "build/release", VERSION, name);
  const json = (name: string) => JSON.parse(readFileSync(made(name), "utf8"));

  beforeAll(async () => {
    await git(folder, "clone", "--quiet", root, first);
    for (const { path, pattern } of VERSIONED) {
      for (const name of new Bun.Glob(path).scanSync(first)) {
        const file = join(first, name);
        const text = readFileSync(file, "utf8");
        writeFileSync(
          file,
          text.replace(pattern, (line, version) => line.replace(version, VERSION)),
        );
      }
    }
    const changes = readFileSync(join(first, "CHANGELOG.md"), "utf8");
    writeFileSync(
      join(first, "CHANGELOG.md"),
      changes.replace(/^## /m, `## ${VERSION}\n\n### Added\n\n- A [test](docs/README.md).\n\n## `),
    );
    await git(first, "commit", "--quiet", "--all", "--message", "Change the version");
    await git(folder, "clone", "--quiet", first, second);
    for (const [place, mask] of [
      [first, "022"],
      [second, "077"],
    ] as const) {
      await done([process.execPath, "install", "--frozen-lockfile", "--ignore-scripts"], place);
      mkdirSync(join(place, "build/tmp"), { recursive: true });
      const script = `umask ${mask}; exec "$1" scripts/release.ts ${VERSION} --dry-run`;
      await done(["sh", "-c", script, "sh", process.execPath], place, { TMPDIR: join(place, "build/tmp") }, 900_000);
    }
  }, 1_800_000);

  test("has the same bytes, and the checksums are true", async () => {
    const sums = readFileSync(made("SHA256SUMS"), "utf8");
    expect(readFileSync(join(second, "build/release", VERSION, "SHA256SUMS"), "utf8")).toBe(sums);
    await done(["sha256sum", "--check", "--strict", "SHA256SUMS"], made(""));
    const named = sums
      .trim()
      .split("\n")
      .map((line) => line.slice(66));
    expect([...named, "SHA256SUMS"].sort()).toEqual(readdirSync(made("")).sort());
  });

  test("has both packages, three programs, the chart, the manual, completion, and texts", () => {
    const chart = existsSync(join(first, "deploy/helm/understudy")) ? [`understudy-${VERSION}.tgz`] : [];
    expect(readdirSync(made("")).sort()).toEqual(
      [
        ...["LICENSE", "NOTES.md", "NOTICE", "SHA256SUMS", ...chart],
        ...[`llm-understudy-${VERSION}.tgz`, `llm-understudy-engine-${VERSION}.tgz`],
        ...[`understudy-${VERSION}.cdx.json`, `understudy-${VERSION}.provenance.json`],
        ...["understudy.1", "understudy.bash", "understudy.fish", "understudy.zsh"],
        ...["understudy-darwin-arm64", "understudy-linux-arm64", "understudy-linux-x64"],
      ].sort(),
    );
    expect(readFileSync(made("NOTES.md"), "utf8")).toBe(
      `### Added\n\n- A [test](${REPOSITORY}/blob/v${VERSION}/docs/README.md).\n`,
    );
  });

  test("has the version in the packages and in the program", async () => {
    for (const name of ["llm-understudy", "llm-understudy-engine"]) {
      const { out } = await done(["tar", "-xzOf", made(`${name}-${VERSION}.tgz`), "package/package.json"], folder);
      expect(JSON.parse(out)).toMatchObject({ name, version: VERSION });
    }
    expect((await done([made("understudy-linux-x64"), "version"], folder)).out).toBe(`${VERSION}\n`);
  });

  test("has a provenance with the commit and the checksum of each file", async () => {
    const { subject, predicate } = json(`understudy-${VERSION}.provenance.json`);
    const sums = readFileSync(made("SHA256SUMS"), "utf8");
    expect(subject.length).toBe(sums.trim().split("\n").length - 1);
    for (const { name, digest } of subject) expect(sums).toContain(`${digest.sha256}  ${name}\n`);
    const { resolvedDependencies } = predicate.buildDefinition;
    expect(resolvedDependencies[0].digest).toEqual({ gitCommit: await git(first, "rev-parse", "HEAD") });
    expect(resolvedDependencies.map(({ uri }: { uri: string }) => uri)).toContain("bun.lock");
    expect(predicate.runDetails.builder.version.bun).toBe(Bun.version);
  });

  test("has an SBOM by the schema of CycloneDX, with everything that NOTICE names and a licence for each", async () => {
    const schemas = join(folder, "schemas");
    mkdirSync(schemas);
    await done(["npm", "pack", "--silent", "@cyclonedx/cyclonedx-library@10.3.0"], schemas);
    await done(["tar", "-xzf", readdirSync(schemas)[0]!], schemas);
    const schema = (name: string) =>
      JSON.parse(readFileSync(join(schemas, `package/res/schema/${name}.SNAPSHOT.schema.json`), "utf8"));
    const ajv = addFormats(new Ajv({ strict: false, formats: { "iri-reference": true, "idn-email": true } }));
    for (const name of ["spdx", "jsf-0.82"])
      ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
    const validate = ajv.compile(schema("bom-1.6"));
    const sbom = json(`understudy-${VERSION}.cdx.json`);
    expect([validate(sbom), validate.errors]).toEqual([true, null]);
    expect(validate({ ...sbom, components: [{ name: "x" }] })).toBe(false);

    const notice = readFileSync(made("NOTICE"), "utf8");
    const named = [...notice.matchAll(/^-{100}\n(\S+?)(?: (\d\S*))?: /gm)].map(
      ([, name, version]) => `${name} ${version}`,
    );
    const components: readonly Record<string, never>[] = sbom.components;
    const listed = components.map(({ group, name, version }) => `${group ? `${group}/` : ""}${name} ${version}`);
    expect(named.length).toBeGreaterThan(25);
    expect(named.filter((name) => !listed.includes(name))).toEqual([]);
    const bun = sbom.components.find(({ name }: { name: string }) => name === "bun");
    const inside = bun.components.map(({ name }: { name: string }) => name);
    expect(inside).toEqual(expect.arrayContaining(["JavaScriptCore", "boringssl", "zstd", "uWebsockets", "punycode"]));
    for (const component of [...sbom.components, ...bun.components])
      expect([component.name, component.licenses?.length]).toEqual([component.name, 1]);
    const vocabulary = sbom.components.find(({ type }: { type: string }) => type === "data");
    expect(vocabulary.licenses[0].license).toMatchObject({
      id: "MIT",
      text: { content: expect.stringContaining("OpenAI") },
    });
  }, 300_000);
});
