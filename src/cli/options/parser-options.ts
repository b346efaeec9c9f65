/**
 * Reads the names of `--tool-call-parser` and `--reasoning-parser`. vLLM refuses an unregistered name in
 * `entrypoints/common/cli_args.py` (0.33), after it has loaded the plugin files; trtllm-serve in `commands/serve.py`.
 */

import { TRTLLM_SERVE } from "../../app/config/roles.ts";
import {
  REASONING_PARSERS,
  type ReasoningFormat,
  type RegisteredParser,
  type Registry,
  TOOL_PARSERS,
  type ToolFormat,
  TRTLLM_REASONING_PARSERS,
  TRTLLM_TOOL_PARSERS,
} from "../../text/grammar/parsers.ts";
import type { Given, UsageError } from "./given.ts";
import type { ServeValues } from "./serve-options.ts";

/** Formats of the chosen parsers; absent: no such parser. */
export interface ChosenParsers {
  readonly toolFormat?: ToolFormat;
  readonly reasoningFormat?: ReasoningFormat;
  /** One line for each name whose own format is not written. */
  readonly notices: readonly string[];
}

/** `--tool_parser`, `--reasoning_parser`: trtllm-serve has underscores, and another name for the first. */
const OPTION_OF_TRTLLM = /\b(tool|reasoning)_parser$/;

/** vLLM loads no plugin file whose path is shorter. */
const SHORTEST_PLUGIN = 4;

/** `said`: by option, where each value comes from. Returns an error for a name that nothing registers. */
export function chosenParsers(values: ServeValues, said: ReadonlyMap<string, Given>): ChosenParsers | UsageError {
  const ofTrtllm = values.role === TRTLLM_SERVE;
  const tools = ofTrtllm ? TRTLLM_TOOL_PARSERS : TOOL_PARSERS;
  if (values["enable-auto-tool-choice"] && values["tool-call-parser"] === undefined) {
    const where = said.get("enable-auto-tool-choice")?.where ?? "--enable-auto-tool-choice";
    return { error: `${where}: needs --tool-call-parser (${[...tools.keys()].join(", ")})` };
  }
  const hasPlugin = (flag: string) => (said.get(flag)?.texts[0]?.length ?? 0) >= SHORTEST_PLUGIN;
  const tool = read(
    "tool-call-parser",
    values["tool-call-parser"],
    tools,
    TOOL_PARSERS,
    hasPlugin("tool-parser-plugin") ? "hermes" : null,
  );
  if ("error" in tool) return tool;
  const reasoning = read(
    "reasoning-parser",
    values["reasoning-parser"],
    ofTrtllm ? TRTLLM_REASONING_PARSERS : REASONING_PARSERS,
    REASONING_PARSERS,
    hasPlugin("reasoning-parser-plugin") ? "deepseek_r1" : null,
  );
  if ("error" in reasoning) return reasoning;
  return {
    ...(tool.format === null ? {} : { toolFormat: tool.format }),
    ...(reasoning.format === null ? {} : { reasoningFormat: reasoning.format }),
    notices: [...tool.notices, ...reasoning.notices],
  };

  /**
   * `ofVllm`: its names are accepted in every role, unless the option has the name that trtllm-serve gives it: that server
   * refuses them. `unregistered`: the format of names that a plugin file may register; null if there is no such file.
   */
  function read<F extends string>(
    option: "tool-call-parser" | "reasoning-parser",
    name: string | undefined,
    registry: Registry<F>,
    ofVllm: Registry<F>,
    unregistered: F | null,
  ): { readonly format: F | null; readonly notices: readonly string[] } | UsageError {
    const where = said.get(option)?.where ?? `--${option}`;
    // vLLM reads this word as no reasoning parser, in any case (`arg_utils.py`, `parse_reasoning_parser`).
    const isNone = option === "reasoning-parser" && !ofTrtllm && name?.toLowerCase() === "none";
    if (name === undefined || isNone) return { format: null, notices: [] };
    if (ofTrtllm && name === "auto") return { format: null, notices: [unresolved(where)] };
    const others = ofTrtllm && OPTION_OF_TRTLLM.test(where) ? registry : ofVllm;
    const fallback = unregistered === null ? undefined : { format: unregistered, exact: false };
    const found: RegisteredParser<F> | undefined = registry.get(name) ?? others.get(name) ?? fallback;
    if (found === undefined) return { error: `${where}: takes ${orList([...registry.keys()])}, not "${name}"` };
    if (found.exact) return { format: found.format, notices: [] };
    const what =
      option === "tool-call-parser" ? "tool calls are written and read" : "reasoning is written and split off";
    return { format: found.format, notices: [`${where} ${name}: ${what} ${standIn(name, found.format)}`] };
  }
}

function standIn(name: string, format: string): string {
  return `in the format of vLLM's ${format}; answers have the same fields, but ${name} may cut streams differently`;
}

/** trtllm-serve chooses by the `config.json` of the model's folder (`resolve_auto_tool_parser`). */
function unresolved(where: string): string {
  return `${where} auto: the files of the model are not read, so no parser is chosen; name one`;
}

function orList(names: readonly string[]): string {
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
