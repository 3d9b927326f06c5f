/** How many answers the small model writes: one that has been planned counts before it begins. Mutable. */
export class SmallModelUse {
  readonly #limit: number
  #reserved = 0
  /** Answers that write or wait for it. */
  #used = 0

  /** @param limit answers that it writes at once */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Whether an answer would begin at once. */
  get isFree(): boolean {
    return this.#used + this.#reserved < this.#limit
  }

  /** Whether an answer that begins now would wait. */
  get isFull(): boolean {
    return this.#used >= this.#limit
  }

  /** @returns ends the reservation; more calls change nothing */
  reserve(): () => void {
    this.#reserved += 1
    return once(() => {
      this.#reserved -= 1
    })
  }

  /** An answer begins, or waits to. @returns it has ended; more calls change nothing */
  begin(): () => void {
    this.#used += 1
    return once(() => {
      this.#used -= 1
    })
  }
}

function once(act: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) act()
    isDone = true
  }
}
