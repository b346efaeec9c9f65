/**
 * Reads the values of `--tool-call-parser` and `--reasoning-parser`. Like the real servers, refuses a name that no parser is
 * registered under: vLLM 0.33 in `entrypoints/common/cli_args.py`, after loading plugin files; trtllm-serve in
 * `commands/serve.py`.
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

/** Output formats of the chosen parsers. A format is absent if the server has no parser of that kind. */
export interface ChosenParsers {
  readonly toolFormat?: ToolFormat;
  readonly reasoningFormat?: ReasoningFormat;
  /**
   * Lines for the log. There is one for each named parser whose format is not implemented; it names the similar format that is
   * used instead.
   */
  readonly notices: readonly string[];
}

/** Matches the spellings `--tool_parser` and `--reasoning_parser`, which only trtllm-serve has. */
const OPTION_OF_TRTLLM = /\b(tool|reasoning)_parser$/;

/** Flags of vLLM that name a plugin file, by the option whose parsers the file may register. */
const PLUGINS = { "tool-call-parser": "tool-parser-plugin", "reasoning-parser": "reasoning-parser-plugin" };
/** Minimum number of characters in the path of a plugin file. vLLM ignores a shorter path. */
const SHORTEST_PLUGIN = 4;

/**
 * Returns the formats of the chosen parsers, or an error for an unknown name. `said`: for each option the place where the user
 * set it, for messages.
 */
export function chosenParsers(values: ServeValues, said: ReadonlyMap<string, OptionInput>): ChosenParsers | UsageError {
  const ofTrtllm = values.role === TRTLLM_SERVE;
  const tools = ofTrtllm ? TRTLLM_TOOL_PARSERS : TOOL_PARSERS;
  if (values["enable-auto-tool-choice"] && values["tool-call-parser"] === undefined) {
    const where = said.get("enable-auto-tool-choice")?.where ?? "--enable-auto-tool-choice";
    return { error: `${where}: needs --tool-call-parser (${[...tools.keys()].join(", ")})` };
  }
  const tool = read("tool-call-parser", tools, TOOL_PARSERS, "hermes");
  if ("error" in tool) return tool;
  const reasonings = ofTrtllm ? TRTLLM_REASONING_PARSERS : REASONING_PARSERS;
  const reasoning = read("reasoning-parser", reasonings, REASONING_PARSERS, "deepseek_r1");
  if ("error" in reasoning) return reasoning;
  return {
    ...(tool.format === null ? {} : { toolFormat: tool.format }),
    ...(reasoning.format === null ? {} : { reasoningFormat: reasoning.format }),
    notices: [...tool.notices, ...reasoning.notices],
  };

  /**
   * Finds the format of the parser that the option names. `registry`: the parsers of the role's server. `ofVllm`: vLLM's
   * parsers, which the role of trtllm-serve also accepts, unless the option is spelled in the form of trtllm-serve.
   * `unregistered`: if there is a plugin file, format for a name that is not registered, because the file may register it.
   */
  function read<F extends string>(
    option: keyof typeof PLUGINS,
    registry: Registry<F>,
    ofVllm: Registry<F>,
    unregistered: F,
  ): { readonly format: F | null; readonly notices: readonly string[] } | UsageError {
    const name: string | undefined = values[option];
    const where = said.get(option)?.where ?? `--${option}`;
    // In vLLM the name "none", in upper or lower case, turns the reasoning parser off (`arg_utils.py`,
    // `parse_reasoning_parser`).
    const isNone = option === "reasoning-parser" && !ofTrtllm && name?.toLowerCase() === "none";
    if (name === undefined || isNone) return { format: null, notices: [] };
    if (ofTrtllm && name === "auto") return { format: null, notices: [unresolved(where)] };
    const others = ofTrtllm && OPTION_OF_TRTLLM.test(where) ? registry : ofVllm;
    const hasPlugin = (said.get(PLUGINS[option])?.texts[0]?.length ?? 0) >= SHORTEST_PLUGIN;
    const fallback = hasPlugin ? { format: unregistered, exact: false } : undefined;
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

/**
 * Returns a warning that the name "auto" selects no parser here. trtllm-serve selects a parser from the model's `config.json`
 * (`resolve_auto_tool_parser`).
 */
function unresolved(where: string): string {
  return `${where} auto: no parser is used, because model files are not read; name a parser`;
}

function orList(names: readonly string[]): string {
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
