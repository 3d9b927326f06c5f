import type { FrameHeader } from '../../core/wire/protocol/frame.ts'

/**
 * What the frames of a session tell of its rounds. The first one that wants rows ends the prompt, and each later one is a round. The
 * bridge learns how much of a draft was accepted from where the next round begins. Mutable.
 */
export class RoundCounts {
  rounds = 0
  /** In rounds that another one has followed. */
  drafted = 0
  accepted = 0
  #last: { readonly position: number; readonly drafted: number } | undefined

  add({ base, n, want }: Pick<FrameHeader, 'base' | 'n' | 'want'>): void {
    if (want === 0) return
    // Of the token before the draft.
    const position = base + n - want
    if (this.#last) {
      const { drafted } = this.#last
      this.rounds += 1
      this.drafted += drafted
      this.accepted += Math.min(Math.max(position - this.#last.position - 1, 0), drafted)
    }
    this.#last = { position, drafted: want - 1 }
  }
}
