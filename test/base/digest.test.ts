/** Tests the digests of keys and texts, and their comparison. */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { isSameDigest, sha256 } from "../../src/base/digest.ts";

test("digests are SHA-256 of bytes, and of a text's UTF-8", () => {
  for (const data of ["", "abc", "clé \u{1f511}", new Uint8Array([0, 255, 10])])
    expect(Buffer.from(sha256(data))).toEqual(createHash("sha256").update(data).digest());
});

test("digests are equal only if every byte and the length are", () => {
  const digest = sha256("key");
  expect(isSameDigest(digest, sha256("key"))).toBe(true);
  for (let i = 0; i < digest.length; i++) {
    const other = Uint8Array.from(digest);
    other[i]! ^= 0x80;
    expect(isSameDigest(digest, other)).toBe(false);
  }
  expect(isSameDigest(digest, digest.slice(0, 31))).toBe(false);
  expect(isSameDigest(digest.slice(0, 31), digest)).toBe(false);
  expect(isSameDigest(new Uint8Array(2), new Uint8Array(0))).toBe(false);
});
