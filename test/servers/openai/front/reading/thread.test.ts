/** Tests that large requests are shortened or read in pieces, so that others need not wait. Counts pieces, bytes and turns. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { atOnce, type Pieces } from "../../../../../src/base/pieces.ts";
import { ReadingThread } from "../../../../../src/servers/openai/front/reading/thread.ts";
import { DrainGate, JsonParts, partsOf, sendParts } from "../../../../../src/servers/openai/front/send-parts.ts";
import { badWordsOf, idLists } from "../../../../../src/servers/openai/request/lists.ts";
import { truncatePrompt } from "../../../../../src/servers/openai/request/prompts.ts";
import type { Limits } from "../../../../../src/servers/openai/request/request.ts";
import { checkIds, checkSampling, seedOf, seedPieces } from "../../../../../src/servers/openai/request/sampling.ts";
import { parsePython } from "../../../../../src/servers/pydantic/json.ts";
import { RefusedRequest } from "../../../../../src/servers/pydantic/refusals.ts";
import { ERRORS_KEPT, State } from "../../../../../src/servers/pydantic/types.ts";
import { validator } from "../../../../../src/servers/pydantic/validate.ts";
import type { PythonDict, PythonValue } from "../../../../../src/servers/pydantic/value.ts";
import { valuesIn } from "../../../../../src/servers/pydantic/values-in.ts";
import { messagesToChat } from "../../../../../src/servers/vllm/messages/convert.ts";
import { type ChatValues, chatFields } from "../../../../../src/servers/vllm/openai/fields.ts";
import { readCompletion } from "../../../../../src/servers/vllm/openai/read.ts";
import { toChatPieces } from "../../../../../src/servers/vllm/openai/translate.ts";
import { inputMessages, type ResponsesValues } from "../../../../../src/servers/vllm/responses/convert.ts";
import { IdSet } from "../../../../../src/text/answers/id-set.ts";
import { packed, unpacked } from "../../../../../src/text/tokens/packed-parts.ts";
import { HeaderFields, IncomingRequest } from "../../../../../src/wire/http1/request.ts";

const SIZE = 1000;
const LIMITS = {
  maxModelLen: 100,
  maxTokenCharacters: 10,
  vocabularySize: 1000,
  servedModelNames: ["m"],
  loraNames: [],
  maxLogprobs: 20,
};
const lists = { bias: null, stop: null, allowed: null, logprobs: null };

test("a set of bits is a set", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(199)), (ids) => {
      const [bits, set] = [new IdSet(200, ids), new Set(ids)];
      expect(bits.size).toBe(set.size);
      for (let id = 0; id < 300; id++) expect(bits.has(id)).toBe(set.has(id));
    }),
  );
});

test("a million ids are reduced to the vocabulary, and lists with an id outside of it to the refusal", () => {
  const million = Array.from({ length: 1e6 }, (_, at) => (at * 7) % SIZE);
  const { stopTokenIds, allowedTokenIds, idsError } = idLists({ ...lists, stop: million, allowed: million }, SIZE);
  expect([stopTokenIds.length, allowedTokenIds!.length, idsError]).toEqual([SIZE, SIZE, null]);
  const wrong = idLists({ ...lists, stop: [...million, SIZE], allowed: million }, SIZE);
  expect([wrong.stopTokenIds, wrong.allowedTokenIds]).toEqual([[], null]);
  expect(wrong.idsError!.body).toContain(`token_id(s) [${SIZE}] in stop_token_ids`);
  const bias = new Map(million.map((id, at) => [String(id), at % 3 === 0 ? 100 : 1]));
  expect(idLists({ ...lists, bias }, SIZE).logitBias!.forced.length).toBeLessThanOrEqual(SIZE);
  expect(idLists({ ...lists, logprobs: million }, SIZE).logprobTokenIds!.length).toBe(128);
});

test("of too many bad words only as many are kept as cause the refusal", () => {
  const words = Array.from({ length: 5000 }, (_, at) => `w${at}`);
  const { list, shown } = badWordsOf(words);
  expect([list.length, shown!.startsWith("['w0', 'w1'"), shown!.endsWith("'w4999']")]).toEqual([129, true, true]);
  expect(badWordsOf([...words, ""]).list.includes("")).toBe(true);
  expect(badWordsOf(["a", "a"])).toEqual({ list: ["a", "a"], shown: null });
});

test("all errors of a body are counted, but few are kept, and errors of failed branches of a union are removed", () => {
  const messages: PythonValue[] = Array.from({ length: 5000 }, () => 7);
  const body = new Map<string, PythonValue>([["messages", messages]]);
  const checked = validator(chatFields).exact(body) as { readonly error: { readonly body: string } };
  expect(checked.error.body).toContain(`${5000 * 8} validation errors:`);
  const state = new State(true);
  for (let i = 0; i < 2 * ERRORS_KEPT; i++) state.fail("x", "y", i);
  expect([state.count, state.errors!.length]).toEqual([2 * ERRORS_KEPT, ERRORS_KEPT]);
  state.cut(3);
  state.fail("x", "y", "last");
  expect([state.count, state.errors!.map(({ input }) => input)]).toEqual([4, [0, 1, 2, "last"]]);
});

test("lists, objects and members are counted, but not their characters inside texts", () => {
  expect(valuesIn(`[${"[],".repeat(2_000_001)}0]`)).toContain("lists and objects");
  expect(valuesIn(`[${"0,".repeat(12_000_001)}0]`)).toContain("members");
  expect(valuesIn(`{${'"1":1,'.repeat(2_200_001)}}`)).toContain("objects of a body have at most 2200000 members");
  expect(valuesIn(`{${'":":1,'.repeat(2_000_001)}}`)).toBeNull();
  expect(valuesIn(`["${'[{,\\"'.repeat(3_000_000)}"]`)).toBeNull();
  expect(valuesIn("[".repeat(1000))).toBeNull();
});

test("unpacking a packed prompt returns the same prompt", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.array(fc.constantFrom("a", "é", "\u{1f642}", "\ud800"), { maxLength: 9 }).map((few) => few.join("")),
          fc.nat(1e6),
        ),
        { maxLength: 9 },
      ),
      (parts) => {
        expect(unpacked(packed(parts))).toEqual(parts);
      },
    ),
  );
});

test("long texts are sent in parts of about 64 KiB, and no character is split", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("a", "é", "\u{1f642}"), { minLength: 1 }),
      fc.integer({ min: 1, max: 60_000 }),
      (few, times) => {
        const text = few.join("").repeat(Math.ceil(times / few.length));
        const parts = [...partsOf(text)];
        expect(Buffer.concat(parts).toString()).toBe(text);
        expect(Math.max(...parts.map(({ length }) => length))).toBeLessThanOrEqual(3 * 65_537);
        const gathered = new JsonParts();
        for (const part of few) gathered.add(part);
        gathered.add(text);
        const { parts: all, bytes } = gathered.end();
        expect([Buffer.concat(all).toString(), bytes]).toEqual([
          few.join("") + text,
          Buffer.byteLength(few.join("") + text),
        ]);
      },
    ),
    { numRuns: 20 },
  );
});

test("parts that several answers share do not count as garbage after one of them", async () => {
  const text = "x".repeat(300_000);
  const consumedBy = async (parts: Iterable<Uint8Array>, areShared: boolean) => {
    let sent = 0;
    let consumed = 0;
    const write = (part: Uint8Array) => {
      sent += part.length;
      return true;
    };
    const count = (bytes: number) => {
      consumed += bytes;
    };
    const backend = { nowUs: () => 0, consumed: count };
    await sendParts(parts, { full: false, write }, new DrainGate(), backend, areShared);
    expect(sent).toBe(text.length);
    return consumed;
  };
  const page = JsonParts.of(text);
  expect(await consumedBy(partsOf(text), false)).toBe(text.length);
  // Found by bench hold: a server at rest collected all of its garbage 190 times for 8,000 pages.
  expect(await consumedBy(page.parts, page.areShared)).toBe(page.parts.length * 4096);
});

/** Returns a request and the list of calls to its reader. */
function watched() {
  const calls: string[] = [];
  const reading = {
    pause: () => void calls.push("pause"),
    resume: () => void calls.push("resume"),
    bodyWanted: () => void calls.push("wanted"),
  };
  const head = { method: "POST", target: "/", version: "1.1", keepAlive: true, fields: new HeaderFields([], []) };
  return { request: new IncomingRequest(head, "http", reading), calls };
}

test("a body that is passed on is not kept, and at most 512 KiB of it are read per turn of the event loop", async () => {
  const { request, calls } = watched();
  const turns: (() => void)[] = [];
  let bytes = 0;
  request.came(new Uint8Array(10));
  const done = request.give(
    (part) => {
      bytes += part.length;
    },
    () => new Promise<void>((go) => turns.push(go)),
  );
  expect([bytes, request.came(new Uint8Array(524_287))]).toEqual([10, false]);
  expect(calls).toEqual(["wanted"]);
  expect(request.came(new Uint8Array(1))).toBe(false);
  // The socket may still deliver bytes after the pause. These are passed on without waiting for a second turn.
  request.came(new Uint8Array(600_000));
  expect([bytes, calls, turns.length]).toEqual([10 + 524_288 + 600_000, ["wanted", "pause"], 1]);
  turns[0]!();
  await Promise.resolve();
  await Promise.resolve();
  expect(calls).toEqual(["wanted", "pause", "resume"]);
  request.ended();
  await done;
});

test("short parts are joined without a change of their bytes, also if long ones come in between", async () => {
  const { request } = watched();
  const sizes = [1, ...new Array(99_999).fill(1), 5000, 3, 3, 1023, 1024, ...new Array(300).fill(1000), 2];
  const all = Buffer.from(Array.from({ length: sizes.reduce((sum, size) => sum + size, 0) }, (_, at) => at % 251));
  let at = 0;
  for (const size of sizes) {
    request.came(all.subarray(at, at + size));
    at += size;
  }
  request.ended();
  const parts: Uint8Array[] = [];
  for await (const part of request.body) parts.push(part);
  expect(Buffer.concat(parts).equals(all)).toBe(true);
  expect(parts.length).toBeLessThan(20);
});

test("passing a body on fails if the client leaves", async () => {
  const { request } = watched();
  const done = request.give(
    () => {},
    async () => {},
  );
  request.gone();
  await expect(done).rejects.toThrow("the client left");
});

test("an idle thread ends. One that dies fails the bodies that wait for it, and the next body starts another", async () => {
  const timers: { us: number; act: () => void; stopped: boolean }[] = [];
  const after = (us: number, act: () => void) => {
    const timer = { us, act, stopped: false };
    timers.push(timer);
    return () => {
      timer.stopped = true;
    };
  };
  const script = new URL("../../../../../src/servers/vllm/reading-worker.ts", import.meta.url);
  const thread = new ReadingThread(script, { template: null, keepsTools: false }, { after });
  const order = { kind: "chat", contentType: "application/json", limits: LIMITS } as const;
  const read = (text: string) => {
    const reading = thread.begin(order);
    reading.push(Buffer.from(text));
    return reading;
  };
  const good = JSON.stringify({ messages: [{ role: "user", content: "Hello" }] });
  expect(await read(good).answer()).toMatchObject({ read: { request: { kind: "chat" } } });
  expect(timers.map(({ us, stopped }) => [us, stopped])).toEqual([[5_000_000, false]]);
  const [first, second] = [read(good), read("{")];
  expect(timers[0]!.stopped).toBe(true);
  first.drop();
  first.drop();
  expect(await second.answer()).toMatchObject({ error: { status: 400 } });
  expect(timers.length).toBe(2);
  // The idle timer ends the thread while it works, as if the thread died.
  const lost = read(good).answer();
  timers[1]!.act();
  await expect(lost).rejects.toThrow("idle");
  expect(await read(good).answer()).toMatchObject({ read: { request: { kind: "chat" } } });
  timers.at(-1)!.act();
});

test("messages of /v1/responses and of Anthropic's API are converted in pieces", () => {
  const many = Array.from({ length: 1000 }, (_, at) => ({ role: "user", content: `word ${at}` }));
  const all = (work: Pieces<unknown>) => {
    let pieces = 1;
    for (;;) {
      const { done, value } = work.next();
      if (done) return { pieces, value };
      pieces++;
    }
  };
  const response = { input: many };
  const converted = inputMessages({ instructions: null } as ResponsesValues, response, null);
  expect(all(converted)).toEqual({ pieces: 32, value: many });
  const message = { messages: many, tools: null, tool_choice: null, thinking: null, output_config: null } as never;
  const chat = all(messagesToChat(message, { messages: many }, { mergesSystem: true, thinksAnyway: false }));
  expect(chat).toMatchObject({ pieces: 32, value: { messages: many } });
});

test("a thread whose heap keeps memory of a body ends as soon as it is idle", async () => {
  const script = URL.createObjectURL(
    new Blob([
      `let bodies = 0;
      self.onmessage = ({ data }) => {
        if (data.ended !== true) return;
        self.postMessage({ id: data.id, text: { plain: String(++bodies) } });
        self.postMessage({ keptBytes: bodies === 2 ? 3e7 : 2e6 });
      };`,
    ]),
  );
  const after = () => () => {};
  const thread = new ReadingThread(new URL(script), { template: null, keepsTools: false }, { after });
  const read = async () => {
    const answer = await thread.begin({ kind: "text", contentType: null, limits: LIMITS }).answer();
    await Bun.sleep(20);
    return "text" in answer ? answer.text.plain : null;
  };
  expect([await read(), await read(), await read(), await read()]).toEqual(["1", "2", "1", "2"]);
});

test("a thread that has read 64 MiB ends as soon as it is idle, and the next body starts another", async () => {
  let timers = 0;
  const after = () => {
    timers++;
    return () => {};
  };
  const script = new URL("../../../../../src/servers/vllm/reading-worker.ts", import.meta.url);
  const thread = new ReadingThread(script, { template: null, keepsTools: false }, { after });
  const read = (blanks: number) => {
    const reading = thread.begin({ kind: "text", contentType: null, limits: LIMITS });
    reading.push(Buffer.alloc(blanks, " "));
    return reading.answer();
  };
  await read(2 ** 20);
  expect(timers).toBe(1);
  // The thread does not end while another body waits for it.
  const [large, small] = [read(63 * 2 ** 20), read(10)];
  expect([await large, await small]).toMatchObject([{ text: {} }, { text: { plain: " ".repeat(10) } }]);
  expect(timers).toBe(1);
  expect(await read(10)).toMatchObject({ text: { plain: " ".repeat(10) } });
  expect(timers).toBe(2);
});

test("a chat that is refused anyway converts no tools, and both parsers convert tools in the same way", () => {
  const tools = Array.from({ length: 1000 }, (_, at) => ({
    ...{ type: "function", defer_loading: at % 2 ? null : true },
    function: { name: `f${at}`, strict: at % 3 ? undefined : true, parameters: { a: [1, { b: "c" }], __proto__: {} } },
  }));
  const text = JSON.stringify({ messages: [{ role: "user", content: "Hi" }], tools, tool_choice: "auto" });
  const made = (body: PythonDict, exact: boolean, limits: Limits) => {
    const values = exact ? validator(chatFields).exact(body) : validator(chatFields).fast(body);
    return toChatPieces(values as ChatValues, body, limits, exact);
  };
  const plain = () => JSON.parse(text) as PythonDict;
  expect(() => made(plain(), false, LIMITS).next()).toThrow(RefusedRequest as unknown as ErrorConstructor);
  const able = { ...LIMITS, parsesTools: true };
  const all = [made(plain(), false, able), made(parsePython(text) as PythonDict, true, able)].map(atOnce);
  const [first, second] = all.map((chat) => JSON.stringify(chat.tools));
  expect(second).toBe(first!);
  expect(JSON.parse(first!)[0]).toEqual({
    type: "function",
    function: { ...tools[0]!.function, description: null, defer_loading: true },
    defer_loading: true,
  });
});

function completionRequest() {
  const read = readCompletion(Buffer.from('{"prompt":[1]}'), "application/json", LIMITS);
  if ("error" in read) throw new Error(read.error.body);
  return read.request;
}

test("the ids of a prompt are checked once, not once per prompt of the request", () => {
  let looks = 0;
  const ids = new Proxy(new Uint32Array(4), {
    get(list, name) {
      if (name === "0") looks++;
      const value = Reflect.get(list, name, list);
      return typeof value === "function" ? value.bind(list) : value;
    },
  });
  const request = { ...completionRequest(), prompts: [ids, ids, ids] };
  expect(atOnce(checkIds(request, LIMITS))).toBeNull();
  for (let i = 0; i < 3; i++) expect(checkSampling(request, LIMITS, 4)).toBeNull();
  expect(looks).toBe(3);
});

test("long prompts are checked and hashed in pieces, with the same result", () => {
  const counted = <R>(work: Pieces<R>) => {
    for (let pieces = 1; ; pieces++) {
      const { done, value } = work.next();
      if (done) return { pieces, value };
    }
  };
  const long = Uint32Array.from({ length: 100_000 }, (_, at) => at % 500);
  const wrong = long.with(99_999, LIMITS.vocabularySize);
  const sent = (prompts: readonly Uint32Array[]) => ({ ...completionRequest(), prompts });
  expect(counted(checkIds(sent([long, long]), LIMITS))).toEqual({ pieces: 13, value: null });
  const { value } = counted(checkIds(sent([long, wrong]), LIMITS));
  expect(value?.body).toContain(`Token id ${LIMITS.vocabularySize} is out of vocabulary`);
  const greedy = { seed: null, temperature: 0 };
  const never = () => Number.NaN;
  const lengths = [1, 16_383, 16_384, 16_385, 100_000];
  const prompts = lengths.map((length) => long.subarray(0, length));
  const seeds = prompts.map((ids) => seedOf(greedy, ids, never));
  expect(counted(seedPieces(greedy, prompts, never))).toEqual({ pieces: 8, value: seeds });
  expect(new Set(seeds).size).toBe(lengths.length);
});

test("truncating a prompt of millions of ids keeps the special token before its text", () => {
  const ids = Uint32Array.from({ length: 3_000_000 }, (_, at) => at);
  const cut = { truncatePromptTokens: 2_000_000, truncationSide: null, addSpecialTokens: true };
  const kept = truncatePrompt(ids, { ...completionRequest(), ...cut }, LIMITS, 1);
  expect([kept.length, kept[0], kept[1], kept.at(-1)]).toEqual([2_000_000, 0, 1_000_001, 2_999_999]);
});
