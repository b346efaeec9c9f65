/**
 * Lists the places that name the version of Understudy. A release has the same version in all of them. To move a version,
 * change these places and CHANGELOG.md.
 */

interface VersionedPlace {
  /** Part that has the version, for messages. */
  readonly part: string;
  /** Path from the root of the repository. */
  readonly path: string;
  /** Matches the line with the version, which is the first group. */
  readonly pattern: RegExp;
  /** True if every release must have the file. Otherwise a repository without the file has no such part. */
  readonly isRequired: boolean;
}

export const CHART = "deploy/helm/understudy";

export const VERSIONED: readonly VersionedPlace[] = [
  { part: "package", path: "package.json", pattern: /^ {2}"version": "([^"]*)"/m, isRequired: true },
  { part: "chart", path: `${CHART}/Chart.yaml`, pattern: /^version: *["']?([^\s"']+)/m, isRequired: false },
  { part: "chart's app", path: `${CHART}/Chart.yaml`, pattern: /^appVersion: *["']?([^\s"']+)/m, isRequired: false },
  { part: "image", path: "Dockerfile", pattern: /^ARG VERSION=["']?([^\s"']+)/m, isRequired: false },
  { part: "action", path: "action.yml", pattern: /^ *default: *["']?(\d+\.\d+\.\d+[^\s"']*)/m, isRequired: false },
];

/**
 * Returns a sentence part for each place that does not name the version. `read`: returns the text of a file, or undefined if
 * there is no such file.
 */
export function otherVersions(version: string, read: (path: string) => string | undefined): string[] {
  return VERSIONED.flatMap(({ part, path, pattern, isRequired }) => {
    const text = read(path);
    if (text === undefined) return isRequired ? [`${path} is missing`] : [];
    const found = pattern.exec(text)?.[1];
    if (found === version) return [];
    return [found === undefined ? `${path} names no version (${part})` : `${path} names ${found} (${part})`];
  });
}
