/** The store of responses drops the oldest when it has too many, or too many characters. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Store, type StoredResponse } from "../../../../src/servers/vllm/responses/store.ts";

const stored = (characters: number): StoredResponse => ({
  status: "completed",
  body: () => "{}",
  previous: { messages: [], texts: [] },
  characters,
  running: null,
});

test("stored responses have limits of number and of size", () => {
  const size = fc.nat(300);
  const action = fc.oneof(
    fc.record({ set: fc.nat(20), characters: size }),
    fc.record({ delete: fc.nat(20), characters: size }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), size, fc.array(action), (most, charactersMost, actions) => {
      const store = new Store(most, charactersMost);
      /** IDs and sizes of the stored responses, oldest first. */
      let model: [string, number][] = [];
      for (const action of actions) {
        const id = String("set" in action ? action.set : action.delete);
        model = model.filter(([other]) => other !== id);
        if ("set" in action) {
          store.set(id, stored(action.characters));
          model.push([id, action.characters]);
        } else store.delete(id);
        const sum = () => model.reduce((all, [, characters]) => all + characters, 0);
        while (model.length > most || sum() > charactersMost) model.shift();
        const found = Array.from({ length: 21 }, (_, n) => String(n)).filter((n) => store.get(n) !== undefined);
        expect(found.toSorted()).toEqual(model.map(([other]) => other).toSorted());
      }
    }),
  );
});
