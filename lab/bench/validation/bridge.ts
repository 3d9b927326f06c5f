/** Limits of a live bridge, as `brim bridge run` and its engine have them by default. */
export const bridge = {
  tokenBudget: 512,
  promptRows: 128,
  minPromptRows: 16,
  streams: 16,
  firstCapacity: 64,
  contextLimit: 2_048,
} as const
