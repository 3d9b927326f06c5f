/** Runs tasks one after another, in the order they came; one that fails does not stop the next. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve()

  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(task)
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Resolves when what has been asked for so far is done. */
  async idle(): Promise<void> {
    await this.#last
  }
}
