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
import type { OptionInput, UsageError } from "./given.ts";
import type { ServeValues } from "./serve-options.ts";

/** Formats of the chosen parsers. Absent: the server has no parser of this kind. */
export interface ChosenParsers {
  readonly toolFormat?: ToolFormat;
  readonly reasoningFormat?: ReasoningFormat;
  /** A line for the log per named parser whose format is not implemented. The line names the similar format that is used instead. */
  readonly notices: readonly string[];
}

/** Spelling of trtllm-serve: `--tool_parser` and `--reasoning_parser`, with underscores. */
const OPTION_OF_TRTLLM = /\b(tool|reasoning)_parser$/;

/** Shortest path, in characters, of a plugin file that vLLM loads. */
const SHORTEST_PLUGIN = 4;

/** Returns an error for an unknown name. `said`: the place of each option, for messages. */
export function chosenParsers(values: ServeValues, said: ReadonlyMap<string, OptionInput>): ChosenParsers | UsageError {
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
   * Finds the format of a name. `ofVllm`: vLLM's parsers, also accepted in the role of trtllm-serve unless the option has that
   * server's spelling. `unregistered`: the format for names that a plugin file may register. Null if there is no plugin file.
   */
  function read<F extends string>(
    option: "tool-call-parser" | "reasoning-parser",
    name: string | undefined,
    registry: Registry<F>,
    ofVllm: Registry<F>,
    unregistered: F | null,
  ): { readonly format: F | null; readonly notices: readonly string[] } | UsageError {
    const where = said.get(option)?.where ?? `--${option}`;
    // For vLLM "none", in upper or lower case, means no reasoning parser (`arg_utils.py`, `parse_reasoning_parser`).
    const isNone = option === "reasoning-parser" && !ofTrtllm && name?.toLowerCase() === "none";
    if (name === undefined || isNone) return { format: null, notices: [] };
    if (ofTrtllm && name === "auto") return { format: null, notices: [unresolved(where)] };
    const others = ofTrtllm && OPTION_OF_TRTLLM.test(where) ? registry : ofVllm;
    const fallback = unregistered === null ? undefined : { format: unregistered, exact: false };
    const found: RegisteredParser<F> | undefined = registry.get(name) ?? others.get(name) ?? fallback;
    if (found === undefined) return { error: `${where}: takes ${orList([...registry.keys()])}, not "${name}"` };
    if (found.exact) return { format: found.format, notices: [] };
    const what =
      option === "tool-call-parser" ? "tool calls are generated and parsed" : "reasoning is generated and split off";
    return { format: found.format, notices: [`${where} ${name}: ${what} ${standIn(name, found.format)}`] };
  }
}

function standIn(name: string, format: string): string {
  return `in the format of vLLM's ${format}; answers have the same fields, but ${name} may cut streams differently`;
}

/** Words the warning for the parser "auto". trtllm-serve would choose by the model's `config.json` (`resolve_auto_tool_parser`). */
function unresolved(where: string): string {
  return `${where} auto: no parser is used, because model files are not read; name a parser`;
}

function orList(names: readonly string[]): string {
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
