/** The times of one round of an answer. Mutable. */
export class RoundTimes {
  #beganMs = 0
  #fedMs: number | undefined
  #draftMs = 0
  #sentMs = 0
  #repliedMs = 0

  begin(nowMs: number): void {
    this.#beganMs = nowMs
    this.#fedMs = undefined
    this.#draftMs = 0
  }

  /** The pending token's row is there. */
  fed(nowMs: number): void {
    this.#fedMs = nowMs
  }

  /** @param beganMs when the draft's first step began */
  drafted(beganMs: number, nowMs: number): void {
    this.#draftMs = nowMs - beganMs
  }

  sent(nowMs: number): void {
    this.#sentMs = nowMs
  }

  replied(nowMs: number): void {
    this.#repliedMs = nowMs
  }

  secondsAt(nowMs: number): number {
    return (nowMs - this.#beganMs) / 1_000
  }

  /** Of the pending token's row on the device; undefined: it was drafted ahead. */
  get feedS(): number | undefined {
    return this.#fedMs === undefined ? undefined : (this.#fedMs - this.#beganMs) / 1_000
  }

  /** Beside drafting and verification: the pending token's row, and the head. */
  overheadS(nowMs: number): number {
    return (nowMs - this.#beganMs - this.#draftMs - (this.#repliedMs - this.#sentMs)) / 1_000
  }
}
