/** Tests the CORS headers of answers and preflights against those of Starlette's middleware. */
import { expect, test } from "bun:test";
import { Cors } from "../../../../src/servers/openai/front/cors.ts";
import type { CorsConfig } from "../../../../src/servers/openai/request/openai-config.ts";

const cors = (changes: Partial<CorsConfig> = {}) =>
  new Cors({ origins: [], methods: ["*"], headers: ["*"], credentials: false, ...changes });
const request = (headers: Record<string, string>, method = "OPTIONS") =>
  new Request("http://x/v1/models", { method, headers });
const METHOD = { "Access-Control-Request-Method": "POST" };
const A = { Origin: "http://a" };

test.each([
  ["without an origin", { origins: ["*"] }, {}, null],
  ["no origins", {}, A, null],
  ["any origin", { origins: ["*"] }, A, { "access-control-allow-origin": "*" }],
  ["a listed origin", { origins: ["http://a"] }, A, { "access-control-allow-origin": "http://a" }],
  ["another origin", { origins: ["http://b"] }, A, {}],
  [
    "any origin with credentials is named",
    { origins: ["*"], credentials: true },
    A,
    { "access-control-allow-origin": "http://a", "access-control-allow-credentials": "true" },
  ],
  ["credentials without origins", { credentials: true }, A, { "access-control-allow-credentials": "true" }],
] as const)("an answer: %s", (_, changes, headers, wanted) => {
  expect(cors(changes).headersFor(request(headers, "GET"))).toEqual(wanted);
});

test.each([
  ["no origins", {}, {}, 400, "Disallowed CORS origin", {}],
  [
    "all wrong",
    { methods: ["GET"], headers: ["X-A"] },
    { "Access-Control-Request-Headers": "X-B", "Access-Control-Request-Private-Network": "true" },
    400,
    "Disallowed CORS origin, method, headers, private-network",
    {
      "access-control-allow-methods": "GET",
      "access-control-allow-headers": "Accept, Accept-Language, Content-Language, Content-Type, X-A",
    },
  ],
  [
    "headers are mirrored even if the origin is not allowed",
    {},
    { "Access-Control-Request-Headers": "x-b" },
    400,
    "Disallowed CORS origin",
    { "access-control-allow-headers": "x-b" },
  ],
  ["any origin", { origins: ["*"] }, {}, 200, "OK", { "access-control-allow-origin": "*" }],
  [
    "a listed origin, known headers in any case",
    { origins: ["http://a"], headers: ["X-A"] },
    { "Access-Control-Request-Headers": "x-a, CONTENT-TYPE" },
    200,
    "OK",
    { "access-control-allow-origin": "http://a" },
  ],
  [
    "credentials",
    { origins: ["*"], credentials: true },
    {},
    200,
    "OK",
    { "access-control-allow-origin": "http://a", "access-control-allow-credentials": "true" },
  ],
] as const)("a preflight: %s", (_, changes, headers, status, body, wanted) => {
  const answer = cors(changes).preflight(request({ ...A, ...METHOD, ...headers }))!;
  expect([answer.status, answer.body]).toEqual([status, body]);
  expect(answer.headers).toMatchObject({ "access-control-max-age": "600", ...wanted });
  if (!("access-control-allow-origin" in wanted)) expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
});

test("a request without Origin, without a wanted method, or with another method than OPTIONS is not a preflight", () => {
  expect(cors().preflight(request(A))).toBeNull();
  expect(cors().preflight(request(METHOD))).toBeNull();
  expect(cors().preflight(request({ ...A, ...METHOD }, "GET"))).toBeNull();
});
