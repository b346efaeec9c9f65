/** Builds a protobuf descriptor of our tables of messages, so that the protobuf library can read and write them. */
import { create, createFileRegistry, type DescMessage } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  DescriptorProtoSchema,
  EnumDescriptorProtoSchema,
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";
import { serviceMessages } from "../../src/servers/triton/grpc/fields.ts";
import { type ConfigField, enums, messages } from "../../src/servers/triton/model-config/schema.ts";

const PACKAGE = "inference";
const all = new Map([...messages, ...serviceMessages]);

/** Returns the message that contains this one, according to its dotted name. */
const ownerOf = (name: string) => name.slice(0, Math.max(0, name.lastIndexOf(".")));
const shortOf = (name: string) => name.slice(name.lastIndexOf(".") + 1);

function typeOf(name: string) {
  const scalar = FieldDescriptorProto_Type[name.toUpperCase() as keyof typeof FieldDescriptorProto_Type];
  if (scalar !== undefined && name === name.toLowerCase()) return { type: scalar };
  const type = all.has(name) ? FieldDescriptorProto_Type.MESSAGE : FieldDescriptorProto_Type.ENUM;
  return { type, typeName: `.${PACKAGE}.${name}` };
}

const plainField = (name: string, number: number, type: string) =>
  create(FieldDescriptorProtoSchema, { name, number, label: FieldDescriptorProto_Label.OPTIONAL, ...typeOf(type) });

/** Returns the name that protobuf's compiler gives to the entry message of a map. */
const entryOf = (name: string) => `${name.replaceAll(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}Entry`;

function messageOf(name: string, fields: readonly ConfigField[]): DescriptorProto {
  const choices = [...new Set(fields.flatMap(({ choice }) => choice ?? []))];
  const maps = fields.filter(({ keys }) => keys !== null);
  const entries = maps.map(({ name: of, keys, type }) =>
    create(DescriptorProtoSchema, {
      name: entryOf(of),
      field: [plainField("key", 1, keys!), plainField("value", 2, type)],
      options: { mapEntry: true },
    }),
  );
  return create(DescriptorProtoSchema, {
    name: shortOf(name),
    oneofDecl: choices.map((choice) => ({ name: choice })),
    nestedType: [
      ...entries,
      ...[...all].flatMap(([inner, of]) => (ownerOf(inner) === name ? [messageOf(inner, of)] : [])),
    ],
    enumType: enumsIn(name),
    field: fields.map((one) => fieldOf(name, one, choices)),
  });
}

function fieldOf(message: string, { name, number, type, keys, repeated, choice }: ConfigField, choices: string[]) {
  const made = plainField(name, number, type);
  if (repeated || keys !== null) made.label = FieldDescriptorProto_Label.REPEATED;
  if (choice !== null) made.oneofIndex = choices.indexOf(choice);
  if (keys === null) return made;
  made.type = FieldDescriptorProto_Type.MESSAGE;
  made.typeName = `.${PACKAGE}.${message}.${entryOf(name)}`;
  return made;
}

const enumsIn = (owner: string) =>
  [...enums].flatMap(([name, values]) =>
    ownerOf(name) === owner
      ? [
          create(EnumDescriptorProtoSchema, {
            name: shortOf(name),
            value: values.map((value, number) => ({ name: value, number })),
          }),
        ]
      : [],
  );

const registry = createFileRegistry(
  create(FileDescriptorProtoSchema, {
    name: "inference.proto",
    package: PACKAGE,
    syntax: "proto3",
    enumType: enumsIn(""),
    messageType: [...all].flatMap(([name, fields]) => (ownerOf(name) === "" ? [messageOf(name, fields)] : [])),
  }),
  () => undefined,
);

/** Returns the descriptor of a message. `name`: without its package. */
export function messageNamed(name: string): DescMessage {
  const found = registry.getMessage(`${PACKAGE}.${name}`);
  if (found === undefined) throw new Error(`no message ${name}`);
  return found;
}
