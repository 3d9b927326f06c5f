import { LevelTree } from './level-tree.ts'

export interface Message {
  readonly topic: string
}
/** Calls `done` when the message has been handed to the subscriber's socket. */
export type Listener = (message: Message, done: () => void) => void

/**
 * Delivers the messages of aedes to the subscriptions that match, as mqemitter does, but subscribes and unsubscribes in a time
 * that does not depend on the number of subscribers. A message waits for no other: a subscriber that is slow delays only the
 * publishers of what it has subscribed to.
 */
export class MessageBus {
  /** Most filters have one subscriber: a set for each would take as much memory as everything else here. */
  readonly #listeners = new LevelTree<Listener | Set<Listener>>()
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

  emit(message: Message, done: () => void = () => {}): void {
    const matching = this.#isClosed ? [] : this.#listeners.matchingTopic(message.topic)
    // As they are now: one of them may end the connection of another.
    const listeners = matching.flatMap((known) => (known instanceof Set ? [...known] : known))
    let waiting = 1 + listeners.length
    const deliveredOne = () => {
      waiting -= 1
      if (waiting === 0) done()
    }
    for (const listener of listeners) listener(message, deliveredOne)
    deliveredOne()
  }

  close(done: () => void): void {
    this.#isClosed = true
    setImmediate(done)
  }
}
