/**
 * The shapes of chat messages, in the order in which pydantic tries and reports them. Sources: the typed dictionaries of openai
 * 3.52 (`types/chat/*_param.py`) and of vLLM 0.33 (`renderers/chat_utils/types.py`), and the `Message` of harmony.
 */

import { type Branch, type Members, model, optional, required, typedDict, union } from "../../pydantic/structures.ts";
import * as t from "../../pydantic/types.ts";
import { iterate, type PythonValue } from "../../pydantic/value.ts";

/** `Iterable[...]`: pydantic checks only that the value is iterable. The renderer checks each item later. */
interface Lazy extends t.Type<unknown> {
  readonly item: t.Type<unknown>;
}

/** Returns the type of an iterable whose items are checked later. */
function lazy(item: t.Type<unknown>): Lazy {
  return {
    name: `list of ${item.name}`,
    schema: t.list(item).schema,
    item,
    check: (value, state) =>
      iterate(value) === undefined ? state.fail("iterable_type", "Input should be iterable", value) : value,
  };
}

const cacheBreakpoint = (name: string): Members => ({
  prompt_cache_breakpoint: optional(
    typedDict(name, { mode: required(t.literal("explicit")), ttl: optional(t.literal("30m", "12h")) }),
  ),
});
const labelled = (type: t.Type<unknown>): Branch<unknown> => ({ type, label: type.name });

const textPart = typedDict("ChatCompletionContentPartTextParam", {
  text: required(t.text),
  type: required(t.literal("text")),
  ...cacheBreakpoint("PromptCacheBreakpoint"),
});
const imagePart = typedDict("ChatCompletionContentPartImageParam", {
  image_url: required(
    typedDict("ImageURL", { url: required(t.text), detail: optional(t.literal("auto", "low", "high", "original")) }),
  ),
  type: required(t.literal("image_url")),
  ...cacheBreakpoint("PromptCacheBreakpoint"),
});
const audioPart = typedDict("ChatCompletionContentPartInputAudioParam", {
  input_audio: required(typedDict("InputAudio", { data: required(t.text), format: required(t.literal("wav", "mp3")) })),
  type: required(t.literal("input_audio")),
  ...cacheBreakpoint("PromptCacheBreakpoint"),
});
const filePart = typedDict("File", {
  file: required(
    typedDict("FileFile", { file_data: optional(t.text), file_id: optional(t.text), filename: optional(t.text) }),
  ),
  type: required(t.literal("file")),
  ...cacheBreakpoint("FilePromptCacheBreakpoint"),
});
const refusalPart = typedDict("ChatCompletionContentPartRefusalParam", {
  refusal: required(t.text),
  type: required(t.literal("refusal")),
});
const promptEmbedsPart = typedDict("ChatCompletionContentPartPromptEmbedsParam", {
  data: required(t.text),
  type: required(t.literal("prompt_embeds")),
});

const uuid: Members = { uuid: optional(t.textOrNull) };
const embeds = optional(
  t.nullable(union<unknown>(t.text, t.dict(union<unknown>(t.text, t.list(union<unknown>(t.int(), t.float)))))),
);
const url = (name: string) => required(typedDict(name, { url: required(t.text) }));
/** A Python `Image` object, which no JSON value is. */
const picture: t.Type<PythonValue> = {
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
      type: required(t.literal("audio_url")),
    }),
    typedDict("ChatCompletionContentPartVideoParam", {
      video_url: url("VideoURL"),
      type: required(t.literal("video_url")),
    }),
    refusalPart,
    typedDict("CustomChatCompletionContentPILImageParam", {
      image_pil: optional(t.nullable(model("PILImage", { image_pil: required(picture) }))),
      ...uuid,
    }),
    typedDict("CustomChatCompletionContentSimpleImageParam", { image_url: optional(t.textOrNull), ...uuid }),
    typedDict("ChatCompletionContentPartImageEmbedsParam", {
      image_embeds: embeds,
      type: required(t.literal("image_embeds")),
      ...uuid,
    }),
    typedDict("ChatCompletionContentPartAudioEmbedsParam", {
      audio_embeds: embeds,
      type: required(t.literal("audio_embeds")),
      ...uuid,
    }),
    typedDict("ChatCompletionContentPartVideoEmbedsParam", {
      video_embeds: embeds,
      audio_embeds: embeds,
      type: required(t.literal("video_embeds")),
      ...uuid,
    }),
    promptEmbedsPart,
    typedDict("CustomChatCompletionContentSimpleAudioParam", { audio_url: optional(t.textOrNull) }),
    typedDict("CustomChatCompletionContentSimpleVideoParam", { video_url: optional(t.textOrNull), ...uuid }),
    typedDict("CustomChatCompletionContentToolReferenceParam", {
      name: optional(t.text),
      type: optional(t.literal("tool_reference")),
    }),
  ].map(labelled),
  t.text,
  labelled(
    typedDict("CustomThinkCompletionContentParam", {
      thinking: required(t.text),
      closed: optional(t.bool),
      type: required(t.literal("thinking")),
    }),
  ),
);

const textParts = lazy(textPart);
const userParts = lazy(union<unknown>(...[textPart, imagePart, audioPart, filePart].map(labelled)));
const assistantParts = lazy(union<unknown>(...[textPart, refusalPart].map(labelled)));

const functionCall = typedDict("ChatCompletionMessageFunctionToolCallParam", {
  id: required(t.text),
  function: required(typedDict("Function", { arguments: required(t.text), name: required(t.text) })),
  type: required(t.literal("function")),
});
const customCall = typedDict("ChatCompletionMessageCustomToolCallParam", {
  id: required(t.text),
  custom: required(typedDict("Custom", { input: required(t.text), name: required(t.text) })),
  type: required(t.literal("custom")),
});
const toolCalls = lazy(union<unknown>(labelled(functionCall), labelled(customCall)));

const contentOf = (parts: Lazy) => required(union<unknown>(t.text, parts));

/** A branch of the union of messages. `parts` and `calls`: types of the items that the renderer checks later. */
interface Shape extends Branch<unknown> {
  readonly parts?: t.Type<unknown>;
  readonly calls?: t.Type<unknown>;
}

function shape(name: string, members: Members, lazyTypes: Pick<Shape, "parts" | "calls"> = {}): Shape {
  return { type: typedDict(name, members), label: name, ...lazyTypes };
}

/** All shapes, in the order in which pydantic tries them. */
export const SHAPES: readonly Shape[] = [
  shape(
    "ChatCompletionDeveloperMessageParam",
    { content: contentOf(textParts), role: required(t.literal("developer")), name: optional(t.text) },
    { parts: textPart },
  ),
  shape(
    "ChatCompletionSystemMessageParam",
    { content: contentOf(textParts), role: required(t.literal("system")), name: optional(t.text) },
    { parts: textPart },
  ),
  shape(
    "ChatCompletionUserMessageParam",
    { content: contentOf(userParts), role: required(t.literal("user")), name: optional(t.text) },
    { parts: userParts.item },
  ),
  shape(
    "ChatCompletionAssistantMessageParam",
    {
      role: required(t.literal("assistant")),
      audio: optional(t.nullable(typedDict("Audio", { id: required(t.text) }))),
      content: optional(t.nullable(union<unknown>(t.text, assistantParts))),
      function_call: optional(
        t.nullable(typedDict("FunctionCall", { arguments: required(t.text), name: required(t.text) })),
      ),
      name: optional(t.text),
      refusal: optional(t.textOrNull),
      tool_calls: optional(toolCalls),
    },
    { parts: assistantParts.item, calls: toolCalls.item },
  ),
  shape(
    "ChatCompletionToolMessageParam",
    { content: contentOf(textParts), role: required(t.literal("tool")), tool_call_id: required(t.text) },
    { parts: textPart },
  ),
  shape("ChatCompletionFunctionMessageParam", {
    content: required(t.textOrNull),
    name: required(t.text),
    role: required(t.literal("function")),
  }),
  shape("CustomChatCompletionMessageParam", {
    role: required(t.text),
    content: optional(union<unknown>(t.text, t.list(anyPart))),
    name: optional(t.text),
    tool_call_id: optional(t.textOrNull),
    tool_calls: optional(t.nullable(t.list(functionCall))),
    reasoning: optional(t.nullable(union<unknown>(t.text, labelled(promptEmbedsPart)))),
    tools: optional(
      t.nullable(
        t.list(
          typedDict("ChatCompletionFunctionToolParam", {
            function: required(
              typedDict("FunctionDefinition", {
                name: required(t.text),
                description: optional(t.text),
                parameters: optional(t.object),
                strict: optional(t.boolOrNull),
              }),
            ),
            type: required(t.literal("function")),
          }),
        ),
      ),
    ),
    task: optional(t.textOrNull),
  }),
  {
    label: "Message",
    type: model("Message", {
      author: required(
        model("Author", {
          role: required(t.enumeration("user", "assistant", "system", "developer", "tool")),
          name: optional(t.textOrNull),
        }),
      ),
      content: optional(t.list(model("Content", {}))),
      channel: optional(t.textOrNull),
      recipient: optional(t.textOrNull),
      content_type: optional(t.textOrNull),
    }),
  },
];

/** Index in SHAPES of the harmony message, which the renderer cannot read. */
export const HARMONY_SHAPE = SHAPES.length - 1;
