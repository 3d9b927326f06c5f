import type { Clock } from '../../core/kit/base/clock.ts'
import type { MachineCpuTimes } from '../cluster/cpu-times.ts'

/** What the meter reads. */
export interface LoadedMachine {
  /** Undefined where CPU times cannot be read. */
  readonly cpuTimes: () => MachineCpuTimes | undefined
  readonly clock: Clock
}

/** CPU that processes other than the benchmark's used, in cores. */
export interface ForeignLoad {
  /** Before the run; null where it was not measured. */
  readonly before: number | null
  /** Average over the run. */
  readonly mean: number
  /** In the worst window of the run, 10 s long where the benchmark does not block its process. */
  readonly max: number
}

/** Above these a run is disturbed: two runs of the same code then differ by more than commits do. */
export const foreignLimits = { before: 0.15, mean: 0.1, max: 0.5 } as const

const beforeMs = 2_000
const windowMs = 10_000
/** What a process uses after its last reading is lost with it. */
const readMs = 2_000

/** What exceeds its limit; undefined if nothing does. */
export function disturbanceOf(load: Partial<ForeignLoad>): string | undefined {
  const { before = null, mean = 0, max = 0 } = load
  const beyond = [
    before !== null && before > foreignLimits.before && `${cores(before)} before the run (limit ${foreignLimits.before})`,
    mean > foreignLimits.mean && `${cores(mean)} on average (limit ${foreignLimits.mean})`,
    max > foreignLimits.max && `${cores(max)} at most (limit ${foreignLimits.max})`,
  ].filter((part) => part !== false)
  return beyond.length === 0 ? undefined : `other processes used ${beyond.join(', ')}`
}

/** `0.42 cores` */
export const cores = (value: number): string => `${value.toFixed(2)} cores`

interface Reading extends MachineCpuTimes {
  readonly atMs: number
}

/** Reads CPU times while a benchmark runs. Where these cannot be read, nothing is measured and no run is disturbed. */
export class ForeignLoadMeter {
  readonly #read: () => MachineCpuTimes | undefined
  readonly #clock: Clock
  #before: number | null = null
  #first: Reading | undefined
  #last: Reading | undefined
  #max = 0
  /** CPU time of own processes that have ended without a parent that counts it, as those of a browser that is killed. */
  #lostS = 0
  #ownS = 0
  #timer: NodeJS.Timeout | undefined

  constructor({ cpuTimes, clock }: LoadedMachine) {
    this.#read = cpuTimes
    this.#clock = clock
  }

  /** Two seconds of what others use before the run, in cores; undefined where it cannot be read. */
  async measureBefore(signal: AbortSignal): Promise<number | undefined> {
    const from = this.#reading()
    if (!from) return undefined
    await this.#clock.sleep(beforeMs, signal)
    const to = this.#reading()
    if (!to) return undefined
    this.#before = foreignCores(from, to)
    return this.#before
  }

  /** The worst window so far, in cores. */
  get max(): number {
    return this.#max
  }

  start(): void {
    this.#first = this.#last = this.#reading()
    this.#timer = setInterval(() => this.#look(), readMs).unref()
  }

  /** Ends a window, if it is long enough to judge. */
  sample(): void {
    this.#look(windowMs / 2)
  }

  #look(leastMs = windowMs): void {
    const last = this.#last
    const now = last && this.#reading()
    if (!now || now.atMs - last.atMs < leastMs) return
    this.#max = Math.max(this.#max, foreignCores(last, now))
    this.#last = now
  }

  /** So far; undefined where it cannot be read. */
  load(): ForeignLoad | undefined {
    const first = this.#first
    const now = first && this.#reading()
    if (!now || now.atMs <= first.atMs) return undefined
    const mean = foreignCores(first, now)
    return { before: this.#before, mean, max: Math.max(this.#max, mean) }
  }

  stop(): void {
    clearInterval(this.#timer)
    this.sample()
  }

  #reading(): Reading | undefined {
    const times = this.#read()
    if (!times) return undefined
    this.#lostS += Math.max(0, this.#ownS - times.ownS)
    this.#ownS = times.ownS
    return { ...times, ownS: times.ownS + this.#lostS, atMs: this.#clock.nowMs() }
  }
}

function foreignCores(from: Reading, to: Reading): number {
  const seconds = (to.atMs - from.atMs) / 1_000
  // Ticks and the times of processes are not read at the same moment.
  return Math.max(0, (to.busyS - from.busyS - (to.ownS - from.ownS)) / seconds)
}
