/** The store of responses drops the oldest when it has too many, or too many characters. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type Kept, Store } from "../../../../src/servers/vllm/responses/store.ts";

const kept = (characters: number): Kept => ({
  status: "completed",
  body: () => "{}",
  before: { messages: [], texts: [] },
  characters,
  running: null,
});

test("kept responses have a limit in characters, whatever their number", () => {
  const size = fc.nat(300);
  const act = fc.oneof(
    fc.record({ set: fc.nat(20), characters: size }),
    fc.record({ delete: fc.nat(20), characters: size }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), size, fc.array(act), (most, charactersMost, acts) => {
      const store = new Store(most, charactersMost);
      /** Ids and sizes, oldest first. */
      let model: [string, number][] = [];
      for (const one of acts) {
        const id = String("set" in one ? one.set : one.delete);
        model = model.filter(([other]) => other !== id);
        if ("set" in one) {
          store.set(id, kept(one.characters));
          model.push([id, one.characters]);
        } else store.delete(id);
        const sum = () => model.reduce((all, [, characters]) => all + characters, 0);
        while (model.length > most || sum() > charactersMost) model.shift();
        const found = Array.from({ length: 21 }, (_, n) => String(n)).filter((n) => store.get(n) !== undefined);
        expect(found.toSorted()).toEqual(model.map(([other]) => other).toSorted());
      }
    }),
  );
});
