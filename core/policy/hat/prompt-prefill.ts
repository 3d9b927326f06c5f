import { growingChunk, isLinkBound, nextChunk } from './chunk-size.ts'
import type { HatComputation, HatConditions, HatRules } from './hat-steps.ts'
import type { UplinkFlow } from './uplink-flow.ts'

/** How far the prompt of an answer is. Mutable. */
export class PromptPrefill {
  readonly #rules: HatRules
  readonly #uplink: UplinkFlow
  /** Positions that the bridge holds, that are computed, that were sent, and that the drafter has processed. */
  #held = 0
  #fedTo = 0
  #sentTo = 0
  #caughtUpTo = 0
  #computedRows = 0

  constructor(rules: HatRules, uplink: UplinkFlow) {
    this.#rules = rules
    this.#uplink = uplink
  }

  /** @param held positions that the bridge has @param computed that the device has, of which the drafter has processed none */
  open(held: number, computed: number): void {
    this.#held = held
    this.#sentTo = held
    this.#fedTo = computed
  }

  get isComputed(): boolean {
    return this.#fedTo >= this.#rules.promptTokens
  }

  /** Rows that were computed last. */
  get computedRows(): number {
    return this.#computedRows
  }

  /** The next rows. The device computes what the bridge has too: decoding needs its KV, and another bridge would need its rows. */
  compute(conditions: HatConditions): HatComputation {
    const { chunkTokens, frameTokens, paddedPromptRows } = conditions
    const { promptTokens, prefill, bytesPerToken, growingChunks } = this.#rules
    const from = this.#fedTo
    const left = (from < this.#held ? this.#held : promptTokens) - from
    let rows = left
    if (from < this.#held) rows = Math.min(left, frameTokens)
    else if (paddedPromptRows !== undefined) rows = Math.min(left, paddedPromptRows)
    else if (prefill === 'chunked')
      rows =
        growingChunks && isLinkBound({ bytesPerToken, ...conditions })
          ? growingChunk(left, chunkTokens, from > this.#held ? this.#computedRows : 0, frameTokens)
          : nextChunk(left, chunkTokens, frameTokens)
    this.#fedTo += rows
    this.#computedRows = rows
    return { kind: 'feed', tokens: { of: 'prompt', from }, rows, context: from }
  }

  /**
   * Sends what is computed. Only the last position's deep state comes back, except to the baseline that gets them all.
   * @returns what the drafter then processes; undefined: too much is on its way
   */
  send(conditions: HatConditions): HatComputation | undefined {
    const { promptTokens, prefill } = this.#rules
    while (this.#sentTo < this.#fedTo) {
      const from = this.#sentTo
      const { frameTokens, paddedPromptRows = frameTokens } = conditions
      const to = Math.min(from + paddedPromptRows, this.#fedTo)
      const returned = prefill === 'whole-all' ? to - from : to === promptTokens ? 1 : 0
      if (!this.#uplink.send({ from, to, returned, parents: [], ofPrompt: true }, conditions)) return undefined
      this.#sentTo = to
    }
    const context = this.#caughtUpTo
    this.#caughtUpTo = this.#fedTo
    return { kind: 'catchUp', rows: this.#fedTo - context, context }
  }
}
