/**
 * States how the files of a release were made: commit, tools and inputs, as SLSA provenance 1.0 in an in-toto statement. It has
 * no time and no name of a machine, so that a second build of the commit gives the same statement.
 */

interface ProvenanceInput {
  readonly version: string;
  readonly commit: string;
  readonly repository: string;
  /** SHA-256 of each file of the release, and of each input that is not in the commit, by name. */
  readonly files: ReadonlyMap<string, string>;
  readonly inputs: ReadonlyMap<string, string>;
  /** Versions of the tools, by name. */
  readonly tools: Readonly<Record<string, string>>;
}

const PROGRAM = "scripts/release.ts";

export function provenanceOf({ version, commit, repository, files, inputs, tools }: ProvenanceInput) {
  const program = `${repository}/blob/${commit}/${PROGRAM}`;
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [...files].map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: program,
        externalParameters: { repository, version },
        resolvedDependencies: [
          { uri: `git+${repository}`, digest: { gitCommit: commit } },
          ...[...inputs].map(([uri, sha256]) => ({ uri, digest: { sha256 } })),
        ],
      },
      runDetails: { builder: { id: program, version: tools } },
    },
  };
}
