/**
 * The shapes of chat messages, in the order in which pydantic tries and reports them. Sources: the typed dictionaries of openai
 * 3.52 (`types/chat/*_param.py`) and of vLLM 0.33 (`renderers/chat_utils/types.py`), and the `Message` of harmony.
 */

import { type Branch, type Members, model, optional, required, typedDict, union } from "../../pydantic/structures.ts";
import {
  bool,
  dict,
  enumeration,
  float,
  int,
  list,
  literal,
  nullable,
  object,
  type Type,
  text,
} from "../../pydantic/types.ts";
import { iterate, type PythonValue } from "../../pydantic/value.ts";

/** `Iterable[...]`: pydantic checks only that the value is iterable. The renderer checks each item later. */
interface Lazy extends Type<unknown> {
  readonly item: Type<unknown>;
}

/** Returns the type of an iterable whose items are checked later. */
function lazy(item: Type<unknown>): Lazy {
  return {
    name: `list of ${item.name}`,
    schema: list(item).schema,
    item,
    check: (value, state) =>
      iterate(value) === undefined ? state.fail("iterable_type", "Input should be iterable", value) : value,
  };
}

const cacheBreakpoint = (name: string): Members => ({
  prompt_cache_breakpoint: optional(
    typedDict(name, { mode: required(literal("explicit")), ttl: optional(literal("30m", "12h")) }),
  ),
});
const labelled = (type: Type<unknown>): Branch<unknown> => ({ type, label: type.name });

const textPart = typedDict("ChatCompletionContentPartTextParam", {
  text: required(text),
  type: required(literal("text")),
  ...cacheBreakpoint("PromptCacheBreakpoint"),
});
const imagePart = typedDict("ChatCompletionContentPartImageParam", {
  image_url: required(
    typedDict("ImageURL", { url: required(text), detail: optional(literal("auto", "low", "high", "original")) }),
  ),
  type: required(literal("image_url")),
  ...cacheBreakpoint("PromptCacheBreakpoint"),
});
const audioPart = typedDict("ChatCompletionContentPartInputAudioParam", {
  input_audio: required(typedDict("InputAudio", { data: required(text), format: required(literal("wav", "mp3")) })),
  type: required(literal("input_audio")),
  ...cacheBreakpoint("PromptCacheBreakpoint"),
});
const filePart = typedDict("File", {
  file: required(
    typedDict("FileFile", { file_data: optional(text), file_id: optional(text), filename: optional(text) }),
  ),
  type: required(literal("file")),
  ...cacheBreakpoint("FilePromptCacheBreakpoint"),
});
const refusalPart = typedDict("ChatCompletionContentPartRefusalParam", {
  refusal: required(text),
  type: required(literal("refusal")),
});
const promptEmbedsPart = typedDict("ChatCompletionContentPartPromptEmbedsParam", {
  data: required(text),
  type: required(literal("prompt_embeds")),
});

const uuid: Members = { uuid: optional(nullable(text)) };
const embeds = optional(nullable(union<unknown>(text, dict(union<unknown>(text, list(union<unknown>(int(), float)))))));
const url = (name: string) => required(typedDict(name, { url: required(text) }));
/** A Python `Image` object, which no JSON value is. */
const picture: Type<PythonValue> = {
  name: "Image",
  schema: { not: {} },
  check: (value, state) =>
    state.fail("is_instance_of", "Input should be an instance of Image", value, { class: "Image" }),
};

const anyPart = union<unknown>(
  ...[
    textPart,
    imagePart,
    audioPart,
    filePart,
    typedDict("ChatCompletionContentPartAudioParam", {
      audio_url: url("AudioURL"),
      type: required(literal("audio_url")),
    }),
    typedDict("ChatCompletionContentPartVideoParam", {
      video_url: url("VideoURL"),
      type: required(literal("video_url")),
    }),
    refusalPart,
    typedDict("CustomChatCompletionContentPILImageParam", {
      image_pil: optional(nullable(model("PILImage", { image_pil: required(picture) }))),
      ...uuid,
    }),
    typedDict("CustomChatCompletionContentSimpleImageParam", { image_url: optional(nullable(text)), ...uuid }),
    typedDict("ChatCompletionContentPartImageEmbedsParam", {
      image_embeds: embeds,
      type: required(literal("image_embeds")),
      ...uuid,
    }),
    typedDict("ChatCompletionContentPartAudioEmbedsParam", {
      audio_embeds: embeds,
      type: required(literal("audio_embeds")),
      ...uuid,
    }),
    typedDict("ChatCompletionContentPartVideoEmbedsParam", {
      video_embeds: embeds,
      audio_embeds: embeds,
      type: required(literal("video_embeds")),
      ...uuid,
    }),
    promptEmbedsPart,
    typedDict("CustomChatCompletionContentSimpleAudioParam", { audio_url: optional(nullable(text)) }),
    typedDict("CustomChatCompletionContentSimpleVideoParam", { video_url: optional(nullable(text)), ...uuid }),
    typedDict("CustomChatCompletionContentToolReferenceParam", {
      name: optional(text),
      type: optional(literal("tool_reference")),
    }),
  ].map(labelled),
  text,
  labelled(
    typedDict("CustomThinkCompletionContentParam", {
      thinking: required(text),
      closed: optional(bool),
      type: required(literal("thinking")),
    }),
  ),
);

const textParts = lazy(textPart);
const userParts = lazy(union<unknown>(...[textPart, imagePart, audioPart, filePart].map(labelled)));
const assistantParts = lazy(union<unknown>(...[textPart, refusalPart].map(labelled)));

const functionCall = typedDict("ChatCompletionMessageFunctionToolCallParam", {
  id: required(text),
  function: required(typedDict("Function", { arguments: required(text), name: required(text) })),
  type: required(literal("function")),
});
const customCall = typedDict("ChatCompletionMessageCustomToolCallParam", {
  id: required(text),
  custom: required(typedDict("Custom", { input: required(text), name: required(text) })),
  type: required(literal("custom")),
});
const toolCalls = lazy(union<unknown>(labelled(functionCall), labelled(customCall)));

const contentOf = (parts: Lazy) => required(union<unknown>(text, parts));

/** A branch of the union of messages. `parts` and `calls`: types of the items that the renderer checks later. */
interface Shape extends Branch<unknown> {
  readonly parts?: Type<unknown>;
  readonly calls?: Type<unknown>;
}

function shape(name: string, members: Members, lazyTypes: Pick<Shape, "parts" | "calls"> = {}): Shape {
  return { type: typedDict(name, members), label: name, ...lazyTypes };
}

/** All shapes, in the order in which pydantic tries them. */
export const SHAPES: readonly Shape[] = [
  shape(
    "ChatCompletionDeveloperMessageParam",
    { content: contentOf(textParts), role: required(literal("developer")), name: optional(text) },
    { parts: textPart },
  ),
  shape(
    "ChatCompletionSystemMessageParam",
    { content: contentOf(textParts), role: required(literal("system")), name: optional(text) },
    { parts: textPart },
  ),
  shape(
    "ChatCompletionUserMessageParam",
    { content: contentOf(userParts), role: required(literal("user")), name: optional(text) },
    { parts: userParts.item },
  ),
  shape(
    "ChatCompletionAssistantMessageParam",
    {
      role: required(literal("assistant")),
      audio: optional(nullable(typedDict("Audio", { id: required(text) }))),
      content: optional(nullable(union<unknown>(text, assistantParts))),
      function_call: optional(nullable(typedDict("FunctionCall", { arguments: required(text), name: required(text) }))),
      name: optional(text),
      refusal: optional(nullable(text)),
      tool_calls: optional(toolCalls),
    },
    { parts: assistantParts.item, calls: toolCalls.item },
  ),
  shape(
    "ChatCompletionToolMessageParam",
    { content: contentOf(textParts), role: required(literal("tool")), tool_call_id: required(text) },
    { parts: textPart },
  ),
  shape("ChatCompletionFunctionMessageParam", {
    content: required(nullable(text)),
    name: required(text),
    role: required(literal("function")),
  }),
  shape("CustomChatCompletionMessageParam", {
    role: required(text),
    content: optional(union<unknown>(text, list(anyPart))),
    name: optional(text),
    tool_call_id: optional(nullable(text)),
    tool_calls: optional(nullable(list(functionCall))),
    reasoning: optional(nullable(union<unknown>(text, labelled(promptEmbedsPart)))),
    tools: optional(
      nullable(
        list(
          typedDict("ChatCompletionFunctionToolParam", {
            function: required(
              typedDict("FunctionDefinition", {
                name: required(text),
                description: optional(text),
                parameters: optional(object),
                strict: optional(nullable(bool)),
              }),
            ),
            type: required(literal("function")),
          }),
        ),
      ),
    ),
    task: optional(nullable(text)),
  }),
  {
    label: "Message",
    type: model("Message", {
      author: required(
        model("Author", {
          role: required(enumeration("user", "assistant", "system", "developer", "tool")),
          name: optional(nullable(text)),
        }),
      ),
      content: optional(list(model("Content", {}))),
      channel: optional(nullable(text)),
      recipient: optional(nullable(text)),
      content_type: optional(nullable(text)),
    }),
  },
];

/** Index in SHAPES of the harmony message, which the renderer cannot read. */
export const HARMONY_SHAPE = SHAPES.length - 1;
