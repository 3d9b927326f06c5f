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
  readonly #listeners = new LevelTree<Set<Listener>>()
  #isClosed = false

  on(filter: string, listener: Listener, done?: () => void): this {
    const known = this.#listeners.get(filter)
    if (known) known.add(listener)
    else this.#listeners.set(filter, new Set([listener]))
    if (done) setImmediate(done)
    return this
  }

  removeListener(filter: string, listener: Listener, done?: () => void): void {
    const known = this.#listeners.get(filter)
    known?.delete(listener)
    if (known?.size === 0) this.#listeners.delete(filter)
    if (done) setImmediate(done)
  }

  emit(message: Message, done: () => void = () => {}): void {
    const matching = this.#isClosed ? [] : this.#listeners.matchingTopic(message.topic)
    // As they are now: one of them may end the connection of another.
    const listeners = matching.flatMap((set) => [...set])
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
