/** What a bridge computes in a step, unless its owner sets something else. */
export const stepDefaults = {
  /** One of the policyNames. */
  policy: 'decode-first',
  rows: 512,
  /** Of prompts, while other streams decode. */
  promptRows: 128,
  /** Host memory for preempted KV, where the policy preempts. */
  slowBytes: 4 * 2 ** 30,
} as const

/** A piece of a prompt has at least this many rows: each place in a step has a fixed cost. */
const minPromptRows = 16

/**
 * Most rows of a stream that count as a verification, and fewest of a piece of a prompt.
 * @param draftLimit max tokens of a draft, to which a verification adds the pending token
 */
export const smallRows = (draftLimit: number): number => Math.max(minPromptRows, draftLimit + 1)
