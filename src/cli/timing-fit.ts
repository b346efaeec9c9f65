/** placeholder */
export async function run(_argv: readonly string[]): Promise<void> {}
