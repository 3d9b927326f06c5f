import { LevelTree } from './level-tree.ts'

export interface BusMessage {
  readonly topic: string
}
/** Calls `done` when the message has been handed to the subscriber's socket. */
export type Listener = (message: BusMessage, done: () => void) => void

/** Subscribers that are served in one turn of the event loop: a message to thousands must not hold up all others. */
const maxPerTurn = 64

/** A message on its way to many subscribers of one filter. */
interface Broadcast {
  readonly message: BusMessage
  /** As they are when the message comes, and as they are now. */
  readonly listeners: readonly Listener[]
  readonly present: ReadonlySet<Listener>
  readonly deliveredOne: () => void
  /** Number of listeners that have been served. */
  served: number
}

/**
 * Delivers the messages of aedes to the subscriptions that match, as mqemitter does, but subscribes and unsubscribes in a time
 * that does not depend on the number of subscribers. A message waits for no other: a subscriber that is slow delays only the
 * publishers of what it has subscribed to.
 */
export class MessageBus {
  /** Most filters have one subscriber: a set for each would take as much memory as everything else here. */
  readonly #listeners = new LevelTree<Listener | Set<Listener>>()
  /** They wait for each other, so that each subscriber receives them in order. */
  readonly #broadcasts: Broadcast[] = []
  #isClosed = false

  on(filter: string, listener: Listener, done?: () => void): this {
    const known = this.#listeners.get(filter)
    if (known instanceof Set) known.add(listener)
    else this.#listeners.set(filter, known === undefined || known === listener ? listener : new Set([known, listener]))
    if (done) setImmediate(done)
    return this
  }

  removeListener(filter: string, listener: Listener, done?: () => void): void {
    const known = this.#listeners.get(filter)
    if (known instanceof Set) known.delete(listener)
    if (known === listener || (known instanceof Set && known.size === 0)) this.#listeners.delete(filter)
    if (done) setImmediate(done)
  }

  emit(message: BusMessage, done: () => void = () => {}): void {
    const matching = this.#isClosed ? [] : this.#listeners.matchingTopic(message.topic)
    let waiting = 1
    const deliveredOne = () => {
      waiting -= 1
      if (waiting === 0) done()
    }
    // As they are now: one of them may end the connection of another.
    const groups = matching.map((known) => (known instanceof Set ? [...known] : [known]))
    for (const [at, listeners] of groups.entries()) {
      waiting += listeners.length
      const present = matching[at]
      if (present instanceof Set && present.size > maxPerTurn)
        this.#begin({ message, listeners, present, deliveredOne, served: 0 })
      else for (const listener of listeners) listener(message, deliveredOne)
    }
    deliveredOne()
  }

  #begin(broadcast: Broadcast): void {
    this.#broadcasts.push(broadcast)
    if (this.#broadcasts.length === 1) this.#serve()
  }

  #serve(): void {
    const broadcast = this.#broadcasts[0]!
    const { message, listeners, present, deliveredOne, served } = broadcast
    broadcast.served += maxPerTurn
    for (const listener of listeners.slice(served, broadcast.served))
      if (present.has(listener)) listener(message, deliveredOne)
      else deliveredOne()
    if (broadcast.served >= listeners.length) this.#broadcasts.shift()
    if (this.#broadcasts.length > 0) setImmediate(() => this.#serve())
  }

  close(done: () => void): void {
    this.#isClosed = true
    setImmediate(done)
  }
}
