/** What happens at a time. */
export type Action = () => void

const firstCapacity = 1_024
/** A handle is the sequence number of an event and its slot; both stay exact in a double. */
const slots = 2 ** 22

/**
 * A queue of timed actions: a binary heap in flat arrays, so that a million events per second need no garbage collection.
 * Events of one time happen in the order in which they were added. Mutable.
 */
export class EventQueue {
  #times = new Float64Array(firstCapacity)
  #sequence = new Float64Array(firstCapacity)
  #actions: (Action | undefined)[] = []
  #free: number[] = []
  #heap = new Int32Array(firstCapacity)
  #size = 0
  #added = 0

  /** Events that wait, canceled ones included. */
  get size(): number {
    return this.#size
  }

  /** When the next event happens; Infinity: none waits. */
  get nextMs(): number {
    this.#dropCanceled()
    return this.#size === 0 ? Number.POSITIVE_INFINITY : this.#times[this.#heap[0]!]!
  }

  /** @returns a handle for `cancel` @throws RangeError where the time is no number, or millions of events wait */
  add(atMs: number, action: Action): number {
    if (Number.isNaN(atMs)) throw new RangeError('an event needs a time')
    const slot = this.#free.pop() ?? this.#actions.length
    if (slot >= slots) throw new RangeError(`more than ${slots} events wait`)
    if (slot >= this.#times.length) this.#grow()
    this.#times[slot] = atMs
    this.#sequence[slot] = this.#added
    this.#actions[slot] = action
    this.#rise(this.#size++, slot)
    return this.#added++ * slots + slot
  }

  /** A handle whose event has happened, or was canceled, does nothing. */
  cancel(handle: number): void {
    const slot = handle % slots
    if (this.#sequence[slot] === (handle - slot) / slots) this.#actions[slot] = undefined
  }

  /** Takes the next event out; undefined: none waits. */
  take(): { readonly atMs: number; readonly action: Action } | undefined {
    this.#dropCanceled()
    if (this.#size === 0) return undefined
    const slot = this.#heap[0]!
    const taken = { atMs: this.#times[slot]!, action: this.#actions[slot]! }
    this.#removeFirst()
    return taken
  }

  #dropCanceled(): void {
    while (this.#size > 0 && this.#actions[this.#heap[0]!] === undefined) this.#removeFirst()
  }

  #removeFirst(): void {
    const slot = this.#heap[0]!
    this.#actions[slot] = undefined
    this.#sequence[slot] = -1
    this.#free.push(slot)
    this.#size -= 1
    if (this.#size > 0) this.#sink(this.#heap[this.#size]!)
  }

  #isBefore(a: number, b: number): boolean {
    const difference = this.#times[a]! - this.#times[b]!
    return difference < 0 || (difference === 0 && this.#sequence[a]! < this.#sequence[b]!)
  }

  #rise(from: number, slot: number): void {
    let at = from
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = this.#heap[parent]!
      if (!this.#isBefore(slot, above)) break
      this.#heap[at] = above
      at = parent
    }
    this.#heap[at] = slot
  }

  #sink(slot: number): void {
    let at = 0
    for (let child = 1; child < this.#size; child = 2 * at + 1) {
      if (child + 1 < this.#size && this.#isBefore(this.#heap[child + 1]!, this.#heap[child]!)) child += 1
      const below = this.#heap[child]!
      if (!this.#isBefore(below, slot)) break
      this.#heap[at] = below
      at = child
    }
    this.#heap[at] = slot
  }

  #grow(): void {
    const capacity = 2 * this.#times.length
    const grown = <A extends Float64Array | Int32Array>(from: A, to: A): A => {
      to.set(from)
      return to
    }
    this.#times = grown(this.#times, new Float64Array(capacity))
    this.#sequence = grown(this.#sequence, new Float64Array(capacity))
    this.#heap = grown(this.#heap, new Int32Array(capacity))
  }
}
