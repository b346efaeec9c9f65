/**
 * Lists the places that name the version of Understudy. A release has the same version in all of them. To move a version,
 * change these places and CHANGELOG.md.
 */
import { readFileSync } from "node:fs";

interface VersionedPlace {
  /** Name of the part in messages, for example "chart". */
  readonly part: string;
  /** Path from the root of the repository. It may have wildcards. */
  readonly path: string;
  /** Matches the texts with the version, which is the first group. Each file needs at least one unless the path has wildcards. */
  readonly pattern: RegExp;
}

export const CHART = "deploy/helm/understudy";
const IMAGE = /\bimage: *["']?llm-understudy:([^\s"']+)/g;

export const VERSIONED: readonly VersionedPlace[] = [
  { part: "package", path: "package.json", pattern: /^ {2}"version": "([^"]*)"/gm },
  { part: "chart", path: `${CHART}/Chart.yaml`, pattern: /^version: *["']?([^\s"']+)/gm },
  { part: "chart's app", path: `${CHART}/Chart.yaml`, pattern: /^appVersion: *["']?([^\s"']+)/gm },
  { part: "image", path: "Dockerfile", pattern: /^ARG VERSION=["']?([^\s"']+)/gm },
  { part: "image in Compose", path: "deploy/compose.yaml", pattern: IMAGE },
  { part: "image in Kubernetes", path: "deploy/kubernetes/**/*.yaml", pattern: IMAGE },
  { part: "image in Testcontainers", path: "examples/testcontainers/*", pattern: /"llm-understudy:([^"]+)"/g },
  { part: "manual", path: "docs/understudy.1", pattern: /^\.TH .* "understudy ([^"]+)"/gm },
  { part: "action in the docs", path: "docs/how-to/ci.md", pattern: /llm-understudy@v(\S+)/g },
  { part: "action", path: "action.yml", pattern: /^ *default: *["']?(\d+\.\d+\.\d[^\s"']*)/gm },
];

/** Returns a message for each file under `root` that does not name the version, such as "Dockerfile names 0.1.0 (image)". */
export function otherVersions(version: string, root: string): string[] {
  return VERSIONED.flatMap(({ part, path, pattern }) => {
    const files = [...new Bun.Glob(path).scanSync(root)].sort();
    if (files.length === 0) return [`${path} is missing (${part})`];
    return files.flatMap((file) => {
      const found = [...readFileSync(`${root}/${file}`, "utf8").matchAll(pattern)].map(([, named]) => named!);
      if (found.length === 0) return file === path ? [`${file} names no version (${part})`] : [];
      const other = found.find((named) => named !== version);
      return other === undefined ? [] : [`${file} names ${other} (${part})`];
    });
  });
}
