/** How does a command say no? One line on standard error, and the exit code of wrong usage. */
export const USAGE_ERROR = 2;

export const refuser = (command: string) => (why: string) => {
  console.error(`understudy ${command}: ${why}`);
  process.exitCode = USAGE_ERROR;
};
