/** Checks whether the commit may be released as a version, before anything is built and without a network. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { otherVersions } from "./versions.ts";

/** An error that the user can correct. The message is one line. */
export class ReleaseError extends Error {}

export interface ReleaseRequest {
  readonly version: string;
  /** True if nothing will be published from this run, so that the repository needs no confirmation. */
  readonly isDry: boolean;
  /** URL of the repository, as the user confirms it. Null if the user gave no URL. */
  readonly repository: string | null;
  /** Folder for the files. Null for the default, which may have the files of an earlier run. */
  readonly out: string | null;
}

export interface ReleaseFacts {
  /** Hash of the commit, and its time in seconds since 1970. */
  readonly commit: string;
  readonly commitS: number;
  /** URL of the repository in package.json, which the user has confirmed unless the run is dry. */
  readonly repository: string;
  /** Lines of the changelog about the version. */
  readonly notes: string;
}

/** Version of a release, or of a candidate before it (semver.org, without build metadata). */
const VERSION = /^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$/;
/** Bytes that a release takes while it is made: its files, the packages for the build, and the build. */
const BYTES = 2_000_000_000;

/** Programs that a release starts. */
const TOOLS = ["git", "tar", "npm"];

/** Runs git in the repository. Returns its output, or null if it fails. */
function git(root: string, ...words: string[]): string | null {
  const { success, stdout } = Bun.spawnSync(["git", ...words], { cwd: root, stdout: "pipe", stderr: "ignore" });
  return success ? stdout.toString().trimEnd() : null;
}

/** Returns the facts of the release. Throws a `ReleaseError` if a check fails. */
export function checkRelease(root: string, { version, isDry, repository }: ReleaseRequest): ReleaseFacts {
  if (!VERSION.test(version)) throw new ReleaseError(`"${version}" is not a version such as 0.2.0`);
  const missing = TOOLS.filter((name) => Bun.which(name) === null);
  if (missing.length > 0) throw new ReleaseError(`needs ${missing.join(" and ")} on the path`);
  const [commit = "", time = ""] =
    git(root, "-c", "log.showSignature=false", "log", "-1", "--format=%H %ct")?.split(" ") ?? [];
  if (commit === "") throw new ReleaseError("needs a git repository with a commit");
  const status = git(root, "status", "--porcelain", "--untracked-files=all");
  if (status === null) throw new ReleaseError("git status fails in this repository");
  const changed = status.split("\n").filter(Boolean);
  if (changed.length > 0)
    throw new ReleaseError(
      `the tree is not clean: ${changed.length} changed or new files, first ${changed[0]!.slice(3)}`,
    );
  const changelog = join(root, "CHANGELOG.md");
  const notes = notesOf(version, existsSync(changelog) ? readFileSync(changelog, "utf8") : "");
  const others = otherVersions(version, root);
  if (others.length > 0) throw new ReleaseError(`not every part has version ${version}: ${others.join(", ")}`);
  const tagged = git(root, "rev-parse", "--quiet", "--verify", `refs/tags/v${version}^{commit}`);
  // A dry run makes the files of a released version again, for a comparison.
  if (tagged !== null && !(isDry && tagged === commit))
    throw new ReleaseError(`version ${version} exists: the tag v${version} is on commit ${tagged.slice(0, 12)}`);
  const named: string = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).homepage.replace(/#.*$/, "");
  if (repository === null && !isDry)
    throw new ReleaseError(
      `package.json names the repository ${named}, which is a guess: confirm it with --repository URL`,
    );
  if (repository !== null && repository.replace(/(\.git|\/)$/, "") !== named)
    throw new ReleaseError(
      `--repository ${repository}: package.json names ${named}; change it there and in all links first`,
    );
  return { commit, commitS: Number(time), repository: named, notes };
}

/** Returns the changelog's lines about its newest version. Throws a `ReleaseError` if it is another version or has no lines. */
function notesOf(version: string, changelog: string): string {
  const [, newest = ""] = changelog.split(/^## /m);
  const [heading = ""] = newest.split("\n");
  const found = heading.split(/[\s:(]/)[0]!;
  if (found !== version)
    throw new ReleaseError(`CHANGELOG.md has no heading "## ${version}" at its top (its newest is "## ${heading}")`);
  const notes = newest.slice(heading.length).trim();
  if (!/^- /m.test(notes)) throw new ReleaseError(`CHANGELOG.md has no line under "## ${version}"`);
  return notes;
}

/**
 * Makes the folder in which the release is built, next to the one that it will become. Returns its path. Throws a `ReleaseError`
 * if the folder cannot be used.
 */
export function makeFolder(out: string, mayReplace: boolean): string {
  const partial = `${out}.${process.pid}`;
  try {
    if (!mayReplace && existsSync(out) && readdirSync(out).length > 0)
      throw new ReleaseError(`${out} is not empty; name another folder with --out`);
    mkdirSync(dirname(out), { recursive: true });
    const { bavail, bsize } = statfsSync(dirname(out));
    if (bavail * bsize < BYTES)
      throw new ReleaseError(
        `${dirname(out)} has ${megabytes(bavail * bsize)} free, and a release needs ${megabytes(BYTES)}`,
      );
    rmSync(partial, { recursive: true, force: true });
    mkdirSync(partial);
  } catch (error) {
    throw error instanceof ReleaseError ? error : new ReleaseError(`cannot write ${out}: ${codeOf(error)}`);
  }
  return partial;
}

const megabytes = (bytes: number): string => `${Math.floor(bytes / 1e6)} MB`;

/** Returns the system's name of an error, such as ENOSPC. */
export const codeOf = (error: unknown): string => (error as { code?: string }).code ?? "";
