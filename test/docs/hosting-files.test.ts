/** Checks the files for a hosting site and its visitors: workflows, issue forms, SECURITY and the changelog. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { serveHelp } from "../../src/cli/options/help.ts";
import { tritonServerOptions } from "../../src/cli/options/triton-server-options.ts";
import { proxyHelp } from "../../src/cli/proxy/proxy-options.ts";
import { stressHelp } from "../../src/cli/stress/stress-options.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<
    Record<
      string,
      { readonly "timeout-minutes"?: number; readonly permissions?: object; readonly steps: readonly Step[] }
    >
  >;
}

const workflows = readdirSync(new URL(".github/workflows/", root)).map((name) => `.github/workflows/${name}`);

describe.each(workflows)("%s", (path) => {
  const { permissions, jobs } = parse(read(path)) as Workflow;
  const steps = Object.values(jobs).flatMap((job) => job.steps);

  test("may only read the repository, and keeps no credentials", () => {
    expect(permissions).toEqual({ contents: "read" });
    for (const job of Object.values(jobs)) expect(job.permissions).toBeUndefined();
    const checkouts = steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    expect(checkouts.map((step) => step.with?.["persist-credentials"])).toEqual(checkouts.map(() => false));
  });

  test("each action is pinned to a commit, with its version in a comment, and each job has a time limit", () => {
    const uses = read(path).match(/uses: .*/g) ?? [];
    expect(uses.filter((line) => !/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([]);
    for (const job of Object.values(jobs)) expect(job["timeout-minutes"]).toBeLessThanOrEqual(60);
  });
});

test("one workflow runs .ci/run with the versions of Node and Python that it needs", () => {
  const steps = workflows.flatMap((path) =>
    Object.values((parse(read(path)) as Workflow).jobs).flatMap((job) => job.steps),
  );
  expect(steps.filter(({ run }) => run === ".ci/run")).toHaveLength(1);
  const wanted = /with Node (\d+), npm, Python ([\d.]+)/.exec(read(".ci/run"))!.slice(1);
  const versions = steps.map((step) => step.with?.["node-version"] ?? step.with?.["python-version"]);
  expect(versions.filter(Boolean)).toEqual(wanted);
});

test("each issue form has a name, a description, and fields with unique ids", () => {
  const folder = ".github/ISSUE_TEMPLATE/";
  const forms = readdirSync(new URL(folder, root)).filter((name) => name !== "config.yml");
  expect(forms.length).toBeGreaterThan(1);
  for (const name of forms) {
    const form = parse(read(folder + name)) as {
      name: string;
      description: string;
      body: { id: string; type: string }[];
    };
    expect(form.name.length).toBeGreaterThan(2);
    expect(form.description.length).toBeGreaterThan(10);
    expect(new Set(form.body.map(({ id }) => id)).size).toBe(form.body.length);
    expect(form.body.every(({ type }) => ["textarea", "input", "dropdown"].includes(type))).toBe(true);
  }
});

test("every option that SECURITY.md names exists", () => {
  const known = [
    serveHelp("all"),
    proxyHelp(),
    stressHelp(),
    ...Object.keys(tritonServerOptions).map((name) => `--${name}`),
  ];
  const words = new Set(
    known
      .join("\n")
      .split(/[\s,=[\]]/)
      .map((word) => word.replace(/^--no-/, "--")),
  );
  for (const name of known.join("\n").matchAll(/--\[no-\]([\w-]+)/g)) words.add(`--${name[1]}`);
  const named = [...read("SECURITY.md").matchAll(/`(?:[^`]* )?(--[a-z][\w-]*)/g)].map(([, flag]) => flag!);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((flag) => !words.has(flag))).toEqual([]);
});

/** Lines of each version in the changelog, newest first. */
const versions = read("CHANGELOG.md")
  .split(/^## /m)
  .slice(1)
  .map((text) => ({ name: text.split("\n")[0]!, lines: text.split("\n").slice(1).filter(Boolean) }));

test("the changelog has Added, Changed and Fixed, and a line for each entry", () => {
  for (const { name, lines } of versions) {
    expect(name).toMatch(/^(Unreleased|\d+\.\d+\.\d+( \(\d{4}-\d\d-\d\d\))?)$/);
    expect(lines[0]).toMatch(/^### /);
    const texts = lines.map((line) => line.replace(/\]\([^)]*\)/g, "]")); // a reader does not see the paths of links
    const wrong = texts.filter((line) => !/^### (Added|Changed|Fixed)$/.test(line) && !/^- .{10,200}$/.test(line));
    expect(wrong).toEqual([]);
  }
});

test("the changelog of 0.2.0, the first version, lists only features", () => {
  const { lines } = versions.find(({ name }) => name.startsWith("0.2.0"))!;
  expect(lines.filter((line) => line.startsWith("### "))).toEqual(["### Added"]);
  expect(lines.length).toBeLessThanOrEqual(60);
});
