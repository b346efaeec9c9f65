/** Generates gRPC code for other languages from our table of message fields. The compilers of protobuf get its descriptor. */
import { mkdirSync, writeFileSync } from "node:fs";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  CodeGeneratorRequestSchema,
  CodeGeneratorResponseSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { messageNamed } from "../../triton/descriptor.ts";

/** The descriptor of all messages of port 8001, except those of the health service. */
export const protocolFile = messageNamed("ModelInferRequest").file.proto;

/** Runs a program until it exits. Throws with its output if it fails. */
export function run(words: readonly string[], cwd: string, stdin: Uint8Array = new Uint8Array()): Uint8Array {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...words], { cwd, stdin });
  if (exitCode !== 0) throw new Error(`${words.join(" ")}:\n${stderr}${stdout}`);
  return stdout;
}

/**
 * Writes Go's messages as package `MODULE/inference` of the module in the folder, which must have
 * `google.golang.org/protobuf`.
 */
export function goMessages(go: string, folder: string, module: string): void {
  mkdirSync(`${folder}/inference`, { recursive: true });
  const generator = `${folder}/protoc-gen-go`;
  run([go, "build", "-o", generator, "google.golang.org/protobuf/cmd/protoc-gen-go"], folder);
  const options = { parameter: `M${protocolFile.name}=${module}/inference`, fileToGenerate: [protocolFile.name] };
  const asked = create(CodeGeneratorRequestSchema, { ...options, protoFile: [protocolFile] });
  const made = run([generator], folder, toBinary(CodeGeneratorRequestSchema, asked));
  const { error, file: files } = fromBinary(CodeGeneratorResponseSchema, made);
  if (error !== "") throw new Error(`protoc-gen-go: ${error}`);
  writeFileSync(`${folder}/inference/inference.pb.go`, files[0]!.content);
}

/** Writes Java's messages as class `inference.Inference`. `protoc`: the compiler's path. */
export function javaMessages(protoc: string, folder: string): void {
  const all = create(FileDescriptorSetSchema, { file: [protocolFile] });
  writeFileSync(`${folder}/fields.bin`, toBinary(FileDescriptorSetSchema, all));
  run([protoc, "--descriptor_set_in=fields.bin", "--java_out=.", protocolFile.name], folder);
}
