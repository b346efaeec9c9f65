/** Lists all commands with their options, for shell completion and the man page. */

import { ROLE_NAMES } from "../../app/config/roles.ts";
import { checkOptions } from "../check/check-options.ts";
import { frontOptions } from "../front/front-options.ts";
import { healthOptions } from "../health/health-options.ts";
import { kvCheckOptions } from "../kv-check/kv-check-options.ts";
import { loadOptions } from "../load/load-options.ts";
import { type OptionRow, onlyOn } from "../options/option.ts";
import { serveOptions } from "../options/serve-options.ts";
import { tritonServerOptions } from "../options/triton-server-options.ts";
import { proxyOptions } from "../proxy/proxy-options.ts";
import { replayOptions } from "../replay/replay-options.ts";
import { stressOptions } from "../stress/stress-options.ts";
import { timingOptions } from "../timing/timing-options.ts";
import { truthOptions } from "../truth/truth-options.ts";

type Options = Readonly<Record<string, OptionRow>>;

export interface CommandEntry {
  /** Name of the command. With the name of a role if the role has options of its own. */
  readonly name: string;
  /** Arguments, as in a synopsis. */
  readonly takes: string;
  readonly about: string;
  readonly options: Options;
  /** True if the command also takes the options of `serve`. Absent: false. */
  readonly takesServeOptions?: true;
  /** Words that the first argument can be. Absent: the argument is a file, an address or a command. */
  readonly words?: readonly string[];
}

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** Name of the entry of Triton's role, whose options are other than those of `serve`. */
export const TRITON = "serve --role triton";

const json: Options = { json: { ...onlyOn, group: "Output", about: "Print JSON." } };
const role: OptionRow = { ...serveOptions.role, choices: ROLE_NAMES };

const WITH_OPTIONS: readonly CommandEntry[] = [
  {
    name: "serve",
    takes: "[MODEL] [options]",
    about: "Starts a server like vLLM's or, with --role trtllm-serve, like trtllm-serve.",
    options: { ...serveOptions, role },
  },
  {
    name: TRITON,
    takes: "[options]",
    about: "Starts a server like Triton. From the environment it reads only UNDERSTUDY_ROLE and UNDERSTUDY_CONFIG.",
    options: { role, ...tritonServerOptions },
  },
  {
    name: "front",
    takes: "[options] -- COMMAND",
    about: "Starts a front end of vLLM with an engine behind it. Also takes the options of serve.",
    options: frontOptions,
    takesServeOptions: true,
  },
  {
    name: "replay",
    takes: "TRACE [options]",
    about: "Runs a trace through the same engine in simulated time. Also takes the options of serve.",
    options: replayOptions,
    takesServeOptions: true,
  },
  { name: "load", takes: "[options]", about: "Loads a server and measures its answers.", options: loadOptions },
  {
    name: "check",
    takes: "URL-or-FILE... [options]",
    about: "Checks that metrics keep their laws.",
    options: checkOptions,
  },
  {
    name: "kv-check",
    takes: "ENDPOINT... [options]",
    about: "Checks that KV events keep their laws.",
    options: kvCheckOptions,
  },
  {
    name: "stress",
    takes: "[options] -- COMMAND",
    about: "Finds the faults of a stream that a client cannot handle.",
    options: stressOptions,
  },
  {
    name: "proxy",
    takes: "--to URL [options]",
    about: "Forwards requests to a real server, with faults or a record.",
    options: proxyOptions,
  },
  {
    name: "truth",
    takes: "URL-or-FILE [options]",
    about: "Prints the true times of each request.",
    options: truthOptions,
  },
  { name: "health", takes: "[URL] [options]", about: "Reports whether a server is ready.", options: healthOptions },
  {
    name: "fault",
    takes: "list [NAME...] | explain PLAN",
    about: "Lists the faults of answers, or explains a plan of faults.",
    options: json,
    words: ["list", "explain"],
  },
  {
    name: "timing",
    takes: "list | show TIMING | fit FILE... [options]",
    about: "Lists, shows or fits the times of steps. fit also takes the options of serve.",
    options: timingOptions,
    takesServeOptions: true,
    words: ["list", "show", "fit"],
  },
  {
    name: "completion",
    takes: SHELLS.join("|"),
    about: "Prints the completion script of a shell.",
    options: {},
    words: SHELLS,
  },
  { name: "man", takes: "", about: "Prints this page in the format of man.", options: {}, words: [] },
  { name: "version", takes: "", about: "Prints the version.", options: {}, words: [] },
];

const isCommand = ({ name }: CommandEntry) => name !== TRITON;

export const COMMANDS: readonly CommandEntry[] = [
  ...WITH_OPTIONS,
  {
    name: "help",
    takes: "[COMMAND]",
    about: "Prints a list of commands, or the options of a command.",
    options: {},
    words: WITH_OPTIONS.filter(isCommand).map(({ name }) => name),
  },
];

/** Each command once, without the entry of Triton's role. */
export const COMMANDS_ONCE: readonly CommandEntry[] = COMMANDS.filter(isCommand);

export interface CompletedFlag {
  readonly flag: string;
  readonly row: OptionRow;
  /** True if a value follows the flag. */
  readonly takesValue: boolean;
  /** First sentence of the option's effect, without a final dot. */
  readonly brief: string;
}

/** Returns the flags that a shell can complete for a command. A toggle has two flags. */
export function completedFlags({ options, takesServeOptions }: CommandEntry): readonly CompletedFlag[] {
  const all = { ...(takesServeOptions ? serveOptions : {}), ...options };
  const flags = Object.entries<OptionRow>(all).flatMap(([name, row]) => {
    const takesValue = row.arity !== "toggle" && row.arity !== "switch";
    const forms = row.arity === "toggle" ? [name, `no-${name}`] : [name];
    return forms.map((form) => ({ flag: `--${form}`, row, takesValue, brief: briefOf(row) }));
  });
  const about = "Print the options";
  return [...flags, { flag: "--help", row: { ...onlyOn, group: "", about }, takesValue: false, brief: about }];
}

const briefOf = ({ about }: OptionRow): string => about.split(/(?<=\w)[.:;] /)[0]!.replace(/\.$/, "");
