/**
 * Builds the image of the Dockerfile without a registry and without a Docker daemon, for the tests of image.test.ts. The system
 * with the C library is made by mmdebstrap. The builder is buildah, which runs the steps in a chroot. If it is left out or not
 * permitted here, this file carries out the steps itself, also in a chroot.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { done, run } from "../packed.ts";
import { leavesOut } from "../size.ts";
import { argument, configOf, type ImageConfig, stages } from "./dockerfile.ts";

const root = new URL("../../", import.meta.url).pathname;

export interface Image {
  /** Folder with the image's files. */
  readonly root: string;
  readonly config: ImageConfig;
  readonly bytes: number;
  /** Method by which the image was built, for the file of results. */
  readonly built: string;
}

/** Name of Debian's release in the Dockerfile's default system, by its number. */
const RELEASES: Readonly<Record<string, string>> = { "debian:12-slim": "bookworm", "debian:13-slim": "trixie" };
const SYSTEM = "localhost/understudy-system";
const NAME = "localhost/understudy";

/** Builds the image in `folder`, with this commit as a label. `without`: a reason to do without buildah. */
export async function builtImage(folder: string, commit: string, without?: string): Promise<Image> {
  if (process.getuid?.() !== 0) throw new Error("needs root, to change the root folder and the user");
  const release = RELEASES[argument("SYSTEM")];
  if (release === undefined) throw new Error(`no release of Debian is known for ${argument("SYSTEM")}`);
  const system = join(folder, "system");
  await done(
    ["mmdebstrap", "--quiet", "--variant=essential", "--format=directory", release, system],
    folder,
    {},
    600_000,
  );
  const leftOut = leavesOut("buildah") ? "buildah was left out" : without;
  const refusal = leftOut ?? (await refusalOfBuildah(folder));
  if (refusal !== null) return builtInChroot(folder, system, commit, refusal);
  return builtByBuildah(folder, system, commit);
}

/** Returns the command of buildah with a store of its own in `folder`. */
function buildah(folder: string, ...words: readonly string[]): string[] {
  const store = ["--root", join(folder, "store"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  return ["buildah", ...store, ...words];
}

/** Flags of each build: no registry, no daemon, and the format that keeps HEALTHCHECK. */
const BUILD = ["build", "--pull=never", "--isolation", "chroot", "--format", "docker"];

/** Returns null if buildah can build here, else its last line. */
async function refusalOfBuildah(folder: string): Promise<string | null> {
  const context = join(folder, "nothing");
  mkdirSync(context);
  await Bun.write(join(context, "Dockerfile"), "FROM scratch\nCOPY Dockerfile /\n");
  const { code, err } = await run(buildah(folder, ...BUILD, context), folder);
  return code === 0 ? null : (err.trim().split("\n").at(-1) ?? `exit code ${code}`);
}

async function builtByBuildah(folder: string, system: string, commit: string): Promise<Image> {
  const build = async (context: string, ...words: readonly string[]) =>
    done(buildah(folder, ...BUILD, ...words, context), root, {}, 600_000);
  await Bun.write(join(folder, "system.Dockerfile"), "FROM scratch\nCOPY . /\n");
  await build(system, "--file", join(folder, "system.Dockerfile"), "--tag", SYSTEM);
  await build(root, "--build-arg", `SYSTEM=${SYSTEM}`, "--build-arg", `COMMIT=${commit}`, "--tag", NAME);
  const show = async (...words: readonly string[]) => (await done(buildah(folder, ...words), folder)).out.trim();
  const { Docker, FromImage } = JSON.parse(await show("inspect", "--type", "image", NAME));
  const { User, Entrypoint, Cmd, Env, ExposedPorts, Healthcheck, Labels } = Docker.config;
  const [form, ...health] = Healthcheck.Test as string[];
  if (form !== "CMD") throw new Error(`the check of ${FromImage} needs a shell: ${Healthcheck.Test}`);
  const container = await show("from", "--pull=never", NAME);
  const mounted = await show("mount", container);
  return {
    root: mounted,
    config: {
      ...{ user: User, entrypoint: Entrypoint, command: Cmd, environment: Env, labels: Labels },
      ports: Object.keys(ExposedPorts).map((port) => Number.parseInt(port, 10)),
      health: { command: health, intervalMs: Healthcheck.Interval / 1e6 },
    },
    bytes: bytesUnder(mounted),
    built: "buildah build --pull=never --isolation chroot",
  };
}

/** Carries out the steps of the Dockerfile in `system`, which becomes the first stage, and copies the rest into a new folder. */
async function builtInChroot(folder: string, system: string, commit: string, why: string): Promise<Image> {
  const [parts, last] = stages();
  for (const { name, text } of parts!) {
    if (name === "RUN") await done(["chroot", system, "/bin/sh", "-c", text], folder);
    else if (name === "COPY") copy(root, system, text);
    else if (name !== "FROM") throw new Error(`${name} is not known`);
  }
  const image = join(folder, "image");
  mkdirSync(image);
  for (const { name, text } of last!) if (name === "COPY") copy(system, image, text.replace(/^--from=parts /, ""));
  const built = `the steps of the Dockerfile in a chroot, without an image builder: ${why}`;
  return { root: image, config: configOf({ COMMIT: commit }), bytes: bytesUnder(image), built };
}

/** Carries out a COPY of one folder. Leaves out subfolders, as .dockerignore does for the folder of files. */
function copy(from: string, to: string, text: string): void {
  const [source = "", target = ""] = text.split(" ");
  mkdirSync(dirname(join(to, target)), { recursive: true });
  cpSync(join(from, source), join(to, target), { recursive: true });
}

/** Returns the paths of all files under a folder. */
export function filesUnder(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => statSync(join(folder, name)).isFile()).sort();
}

const bytesUnder = (folder: string): number =>
  filesUnder(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);

/** Unmounts and deletes everything that `builtImage` made. */
export async function removeImage(folder: string): Promise<void> {
  if (existsSync(join(folder, "store"))) {
    await run(buildah(folder, "rm", "--all"), folder);
    await run(buildah(folder, "rmi", "--all", "--force"), folder);
  }
  rmSync(folder, { recursive: true, force: true });
}

/** Returns the text of a file of the image. */
export const readIn = (image: Image, path: string): string => readFileSync(join(image.root, path), "utf8");
