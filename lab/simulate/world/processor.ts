import { Heat, type Throttling } from '../hardware/heat.ts'
import type { Simulation } from '../kernel/simulation.ts'

interface Task {
  readonly seconds: number
  readonly done: () => void
}

/** Something that does one task after the other: a device's compute, or one direction of a link. Mutable. */
export class Processor {
  readonly #simulation: Simulation
  readonly #waiting: Task[] = []
  #running: Task | undefined
  #handle = 0
  /** Of the running task, or the last one. */
  #beganMs = 0
  #endsMs = 0
  /** Seconds that it has worked, up to the end of the running task. */
  busyS = 0
  /** How much longer tasks take than they were said to: a power mode. Applies from the next task on. */
  slowdown = 1
  readonly #heat: Heat | undefined

  /** @param throttling what work does to its speed; undefined: nothing */
  constructor(simulation: Simulation, throttling?: Throttling) {
    this.#simulation = simulation
    // Where cooling suffices, no task pays for the arithmetic.
    this.#heat = throttling && throttling.sustained < 1 ? new Heat(throttling) : undefined
  }

  /**
   * @param seconds at full speed, >= 0
   * @returns drops the task: one that waits never begins, a running one ends now, and `done` is not called. It returns the share of
   * a running task that was done, else 0
   */
  run(seconds: number, done: () => void): () => number {
    const task = { seconds, done }
    this.#waiting.push(task)
    if (!this.#running) this.#next()
    return () => this.#drop(task)
  }

  get #slowdown(): number {
    return this.slowdown * (this.#heat?.slowdown ?? 1)
  }

  #next(): void {
    this.#running = this.#waiting.shift()
    const task = this.#running
    if (!task) return
    const { nowMs } = this.#simulation
    this.#heat?.rested(Math.max(0, nowMs - this.#endsMs) / 1_000)
    const seconds = task.seconds * this.#slowdown
    this.#beganMs = nowMs
    this.#endsMs = nowMs + 1_000 * seconds
    this.busyS += seconds
    this.#handle = this.#simulation.at(this.#endsMs, () => {
      this.#running = undefined
      this.#heat?.worked(seconds)
      // First the next task, so that what this one leads to waits behind it.
      this.#next()
      task.done()
    })
  }

  #drop(task: Task): number {
    const at = this.#waiting.indexOf(task)
    if (at >= 0) this.#waiting.splice(at, 1)
    if (this.#running !== task) return 0
    const { nowMs } = this.#simulation
    const share = this.#endsMs > this.#beganMs ? (nowMs - this.#beganMs) / (this.#endsMs - this.#beganMs) : 0
    this.#simulation.cancel(this.#handle)
    this.busyS -= (this.#endsMs - nowMs) / 1_000
    this.#endsMs = nowMs
    this.#heat?.worked((nowMs - this.#beganMs) / 1_000)
    this.#running = undefined
    this.#next()
    return share
  }
}
