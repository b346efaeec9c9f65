/** Lists the commands that publish the files of a release. A release itself publishes nothing. */

interface PublishInput {
  readonly version: string;
  readonly commit: string;
  readonly repository: string;
  readonly folder: string;
  /** Names of the files in the folder. */
  readonly files: readonly string[];
  readonly hasImage: boolean;
}

/** Returns a line per command. Upper-case words stand for names that only the publisher knows. */
export function publishCommands({ version, commit, repository, folder, files, hasImage }: PublishInput): string[] {
  const tag = `v${version}`;
  const channel = version.includes("-") ? " --tag next" : "";
  const packages = files.filter((name) => /^llm-understudy-.*\.tgz$/.test(name));
  const chart = files.find((name) => /^understudy-\d.*\.tgz$/.test(name));
  const [, owner] = /^https:\/\/github\.com\/([^/]+\/[^/]+)$/.exec(repository) ?? [];
  const image = `REGISTRY/llm-understudy:${version}`;
  return [
    `git tag -a ${tag} -m "Understudy ${version}" ${commit} && git push ${repository} ${tag}`,
    ...packages.map((name) => `npm publish ${folder}/${name}${channel}`),
    owner === undefined
      ? `upload ${folder}/* to the page of ${tag} at ${repository}`
      : `gh release create ${tag} --repo ${owner} --verify-tag --notes-file ${folder}/NOTES.md ${folder}/*`,
    ...(chart === undefined ? [] : [`helm push ${folder}/${chart} oci://REGISTRY`]),
    ...(hasImage
      ? [
          `mkdir -p build/bin && cp ${folder}/understudy-linux-* ${folder}/NOTICE build/bin/`,
          `buildah build --build-arg COMMIT=${commit} --tag ${image} . && buildah push ${image}`,
        ]
      : []),
  ];
}
