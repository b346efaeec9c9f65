// Checks that a reader of event streams finds the same events wherever the network cuts the stream: node sse-reader.js
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { sseStreams } from "llm-understudy/testing";

export function read(chunks) {
  const [decoder, events] = [new TextDecoder(), []];
  let [text, data, event, lastEventId] = ["", [], "", ""];
  const line = (said) => {
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(said);
    if (said === "" && data.length > 0) events.push({ event: event || "message", data: data.join("\n"), lastEventId });
    if (said === "") [data, event] = [[], ""];
    else if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") lastEventId = value;
  };
  for (const chunk of chunks) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split(/\r\n|\n|\r(?!$)/); // half a CRLF waits
    text = lines.pop();
    for (const said of lines) line(said);
  }
  if (text.endsWith("\r")) line(text.slice(0, -1));
  return events;
}

const property = fc.property(sseStreams(), ({ chunks, events }) => isDeepStrictEqual(read(chunks), events));
fc.assert(property, { numRuns: 1000 });
console.log("1000 streams read");
