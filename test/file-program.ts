/**
 * Stands for the program in tests that should run the single file: `TEST_PROGRAM=test/file-program.ts TEST_FILE=PATH`. It
 * replaces its process by the file, so that process id, input, output and signals are those of the file.
 */
const file = process.env.TEST_FILE!;
process.execve!(file, [file, ...process.argv.slice(2)], process.env);
