/** What happens at a time. */
export type Action = () => void

const firstCapacity = 1_024
/** A handle is the sequence number of an event and its slot; both stay exact in a double. */
const slots = 2 ** 22
/** So many canceled events may wait before the queue is rid of them. */
const leastCanceled = 1_024
/** Children of a node of the heap: fewer levels than two, and the children lie side by side. */
const arity = 4

/**
 * A queue of timed actions: a heap in flat arrays, so that events need no garbage collection. Events of one time happen in the
 * order in which they were added. Mutable.
 */
export class EventQueue {
  /** By place in the heap. */
  #times = new Float64Array(firstCapacity)
  #sequences = new Float64Array(firstCapacity)
  #heap = new Int32Array(firstCapacity)
  /** By slot; undefined: canceled, or free. */
  readonly #actions: (Action | undefined)[] = []
  readonly #added: number[] = []
  readonly #free: number[] = []
  #size = 0
  #canceled = 0
  /** From 1: no handle is 0, which stands for no event. */
  #count = 1

  /** When the next event happens; Infinity: none waits. */
  get nextMs(): number {
    while (this.#canceled > 0 && this.#size > 0 && this.#actions[this.#heap[0]!] === undefined) {
      this.#canceled -= 1
      this.#removeFirst()
    }
    return this.#size === 0 ? Number.POSITIVE_INFINITY : this.#times[0]!
  }

  /** @returns a handle for `cancel`, > 0 @throws RangeError where the time is not finite, or millions of events wait */
  add(atMs: number, action: Action): number {
    if (!Number.isFinite(atMs)) throw new RangeError(`an event needs a time, not ${atMs}`)
    const slot = this.#free.pop() ?? this.#actions.length
    if (slot >= slots) throw new RangeError(`more than ${slots} events wait`)
    if (this.#size >= this.#heap.length) this.#grow()
    const sequence = this.#count++
    this.#actions[slot] = action
    this.#added[slot] = sequence
    this.#rise(this.#size++, atMs, sequence, slot)
    return sequence * slots + slot
  }

  /** A handle whose event has happened, or was canceled, does nothing; nor does 0. */
  cancel(handle: number): void {
    const slot = handle % slots
    if (this.#added[slot] !== (handle - slot) / slots || this.#actions[slot] === undefined) return
    this.#actions[slot] = undefined
    this.#canceled += 1
    // Timers that every message sets anew would fill the queue otherwise.
    if (this.#canceled > leastCanceled && 2 * this.#canceled > this.#size) this.#dropCanceled()
  }

  /** Takes the action of the next event out, which happens at `nextMs`; undefined: none waits. */
  take(): Action | undefined {
    if (this.nextMs === Number.POSITIVE_INFINITY) return undefined
    const action = this.#actions[this.#heap[0]!]
    this.#removeFirst()
    return action
  }

  #dropCanceled(): void {
    const size = this.#size
    let kept = 0
    for (let at = 0; at < size; at += 1) {
      const slot = this.#heap[at]!
      if (this.#actions[slot] === undefined) this.#release(slot)
      else this.#put(kept++, this.#times[at]!, this.#sequences[at]!, slot)
    }
    this.#size = kept
    this.#canceled = 0
    for (let at = Math.floor((kept - 2) / arity); at >= 0; at -= 1)
      this.#sink(at, this.#times[at]!, this.#sequences[at]!, this.#heap[at]!)
  }

  #release(slot: number): void {
    this.#actions[slot] = undefined
    this.#added[slot] = -1
    this.#free.push(slot)
  }

  #removeFirst(): void {
    this.#release(this.#heap[0]!)
    const last = --this.#size
    if (last > 0) this.#sink(0, this.#times[last]!, this.#sequences[last]!, this.#heap[last]!)
  }

  #put(at: number, time: number, sequence: number, slot: number): void {
    this.#times[at] = time
    this.#sequences[at] = sequence
    this.#heap[at] = slot
  }

  /** A new event has the greatest sequence number: of equal times it comes last. */
  #rise(from: number, time: number, sequence: number, slot: number): void {
    const times = this.#times
    let at = from
    while (at > 0) {
      const parent = ((at - 1) / arity) | 0
      if (times[parent]! <= time) break
      this.#put(at, times[parent]!, this.#sequences[parent]!, this.#heap[parent]!)
      at = parent
    }
    this.#put(at, time, sequence, slot)
  }

  #sink(from: number, time: number, sequence: number, slot: number): void {
    const times = this.#times
    const sequences = this.#sequences
    const size = this.#size
    let at = from
    for (let first = arity * from + 1; first < size; first = arity * at + 1) {
      let child = first
      const end = Math.min(first + arity, size)
      for (let other = first + 1; other < end; other += 1) {
        const difference = times[other]! - times[child]!
        if (difference < 0 || (difference === 0 && sequences[other]! < sequences[child]!)) child = other
      }
      const difference = times[child]! - time
      if (difference > 0 || (difference === 0 && sequences[child]! > sequence)) break
      this.#put(at, times[child]!, sequences[child]!, this.#heap[child]!)
      at = child
    }
    this.#put(at, time, sequence, slot)
  }

  #grow(): void {
    const capacity = 2 * this.#heap.length
    const grown = <A extends Float64Array | Int32Array>(from: A, to: A): A => {
      to.set(from)
      return to
    }
    this.#times = grown(this.#times, new Float64Array(capacity))
    this.#sequences = grown(this.#sequences, new Float64Array(capacity))
    this.#heap = grown(this.#heap, new Int32Array(capacity))
  }
}
