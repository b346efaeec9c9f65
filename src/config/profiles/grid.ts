/** At how many tokens were the linear layers measured? The same for every preset of the operator database. */
export const LINEAR_TOKENS: readonly number[] = [
  1, 2, 3, 4, 8, 16, 17, 32, 33, 48, 49, 64, 65, 80, 81, 96, 97, 112, 113, 128, 129, 160, 161, 192, 193, 224, 225, 256,
  257, 512, 513, 768, 769, 1024, 1025, 1280, 1281, 1536, 1537, 1792, 1793, 2048, 2049, 2304, 2305, 2560, 2561, 2816,
  2817, 3072, 3073, 3328, 3329, 3584, 3585, 3840, 3841, 4096, 4097, 4352, 4353, 8192, 16384,
];
