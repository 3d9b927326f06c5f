import type { Random } from '../../core/kit/base/random.ts'
import { brokerNodes } from '../../core/wire/protocol/mqtt-url.ts'

/** The nodes of one broker. Agents begin at different ones, and leave one that fails for the next. */
export class NodeRing {
  readonly #urls: readonly string[]
  #at: number

  /** @param url of the broker's nodes, separated by commas */
  constructor(url: string, random: Random) {
    this.#urls = brokerNodes(url)
    this.#at = Math.floor(random.next() * this.#urls.length)
  }

  /**
   * Connects to the first node that lets it, beginning where it was connected last.
   * @param isWorthIt whether another node may succeed where one has failed so
   * @throws what `connect` throws at the last node that was tried
   */
  async connect<T>(connect: (url: string) => Promise<T>, isWorthIt: (error: unknown) => boolean): Promise<T> {
    for (let left = this.#urls.length - 1; ; left--) {
      try {
        return await connect(this.#urls[this.#at]!)
      } catch (error) {
        this.#at = (this.#at + 1) % this.#urls.length
        if (left === 0 || !isWorthIt(error)) throw error
      }
    }
  }
}
