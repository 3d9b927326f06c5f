import type { OfClient } from './in-turns.ts'

/**
 * How much each of the clients that wait has been served, so that those with the least are next. A client that did not wait before
 * begins with the least of the others: a pause earns nothing. Mutable.
 */
export class ServedAmounts {
  #served = new Map<string, number>()

  /** @param waiting all that waits; clients without any are forgotten */
  ofThose(waiting: readonly OfClient[]): ReadonlyMap<string, number> {
    const known = waiting.flatMap(({ client }) => this.#served.get(client) ?? [])
    const least = known.reduce((fewest, amount) => Math.min(fewest, amount), Number.POSITIVE_INFINITY)
    const first = known.length > 0 ? least : 0
    this.#served = new Map(waiting.map(({ client }) => [client, this.#served.get(client) ?? first]))
    return this.#served
  }

  /** Without effect for a client that does not wait. */
  add(client: string, amount: number): void {
    const served = this.#served.get(client)
    if (served !== undefined) this.#served.set(client, served + amount)
  }
}
