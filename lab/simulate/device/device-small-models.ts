import { type OpenModelState, planOpening } from '../../../core/policy/pice/open-models.ts'
import {
  correctedFactor,
  type ExpansionRun,
  type MeasuredSmallModel,
  speedOf,
} from '../../../core/policy/pice/small-model-speed.ts'
import type { SmallModelSpeed } from '../../../core/policy/pice/state.ts'
import type { Board } from '../hardware/board.ts'
import type { ModelShape } from '../hardware/model-shape.ts'
import { addWork, noWork, workOf } from '../hardware/roofline.ts'
import type { Simulation } from '../kernel/simulation.ts'
import type { SimulatedDevice } from '../world/simulated-device.ts'
import { modelBytes, smallModelStepS } from './small-model-step.ts'

/** Of the device's memory, for weights; the rest is the system's and the KV's. */
const weightShare = 0.8
/** An NVMe disk of a board, or the flash of a phone. */
const diskBytesPerS = 1e9
/** As a job `profile` measures. */
const profile = { promptTokens: 64, answerTokens: 128, sequences: [2, 4, 8, 16] }

interface OpenModel {
  readonly bytes: number
  borrowers: number
  usedMs: number
  /** When it is read from disk. */
  readonly openMs: number
}

/** The small models of a device: which are open, how fast they were measured, and what has corrected that. Mutable. */
export class DeviceSmallModels {
  readonly #simulation: Simulation
  readonly #board: Board
  readonly #shapes: readonly ModelShape[]
  readonly #measured: ReadonlyMap<string, MeasuredSmallModel>
  readonly #factors = new Map<string, number>()
  readonly #open = new Map<string, OpenModel>()
  readonly #waiting: (() => boolean)[] = []
  readonly #listeners: (() => void)[] = []
  #current: string | undefined

  constructor({ board, smallModels }: Pick<SimulatedDevice, 'board' | 'smallModels'>, simulation: Simulation) {
    this.#simulation = simulation
    this.#board = board
    const fitting = smallModels.filter((shape) => modelBytes(shape) <= this.#limitBytes)
    this.#shapes = fitting.toSorted((a, b) => modelBytes(a) - modelBytes(b))
    this.#measured = new Map(this.#shapes.map((shape) => [shape.name, profiled(board, shape)]))
  }

  /** @param changed called when another model is current, or a speed has been corrected */
  onChange(changed: () => void): void {
    this.#listeners.push(changed)
  }

  /** Ascending by size: those that fit into the device's memory. */
  get shapes(): readonly ModelShape[] {
    return this.#shapes
  }

  /** Name of the model that is open and was used last. */
  get current(): string | undefined {
    return this.#current
  }

  /** As measured and corrected. @param isLocal as the device itself sees them: open models need no opening */
  speeds(isLocal: boolean): readonly SmallModelSpeed[] {
    return this.#shapes.map(({ name }) => {
      const speed = speedOf(this.#measured.get(name)!, this.#factors.get(name))
      return isLocal && this.#open.has(name) ? { ...speed, loadS: 0 } : speed
    })
  }

  shapeOf(name: string): ModelShape {
    return this.#shapes.find((shape) => shape.name === name)!
  }

  /** Bytes that no weights take. */
  get freeBytes(): number {
    return this.#board.hardware.memoryBytes - [...this.#open.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Opens a model if it is not open, once others that are used leave memory for it. @param opened gets what returns it */
  borrow(name: string, opened: (release: () => void) => void): void {
    const bytes = modelBytes(this.shapeOf(name))
    const lend = (open: OpenModel) => {
      open.borrowers += 1
      open.usedMs = this.#simulation.nowMs
      this.#use(name)
      const release = () => {
        open.borrowers -= 1
        while (this.#waiting[0]?.()) this.#waiting.shift()
      }
      this.#simulation.at(open.openMs, () => opened(release))
      return true
    }
    const tryOpening = (): boolean => {
      const known = this.#open.get(name)
      if (known) return lend(known)
      const plan = planOpening(bytes, this.#states, {
        limitBytes: this.#limitBytes,
        freeBytes: this.freeBytes,
        reserveBytes: 0,
      })
      if (plan.kind !== 'open') return false
      for (const closed of plan.close) this.#open.delete(closed)
      const { nowMs } = this.#simulation
      const open = { bytes, borrowers: 0, usedMs: nowMs, openMs: nowMs + (1_000 * bytes) / diskBytesPerS }
      this.#open.set(name, open)
      return lend(open)
    }
    if (this.#waiting.length > 0 || !tryOpening()) this.#waiting.push(tryOpening)
  }

  /** Corrects the speed of a model by what it has written. */
  record(name: string, run: ExpansionRun): void {
    this.#factors.set(name, correctedFactor(this.#factors.get(name) ?? 1, this.#measured.get(name)!, run))
    this.#changed()
  }

  #use(name: string): void {
    if (name === this.#current) return
    this.#current = name
    this.#changed()
  }

  #changed(): void {
    for (const changed of this.#listeners) changed()
  }

  get #limitBytes(): number {
    return weightShare * this.#board.hardware.memoryBytes
  }

  get #states(): OpenModelState[] {
    return [...this.#open].map(([name, { bytes, borrowers, usedMs }]) => ({ name, bytes, usedMs, isBorrowed: borrowers > 0 }))
  }
}

/** What a job `profile` would measure on an idle device. */
export function profiled(board: Board, shape: ModelShape): MeasuredSmallModel {
  const { promptTokens, answerTokens, sequences } = profile
  const decodeS = (count: number, context: number) => {
    let work = noWork
    for (let left = count; left > 0; left -= 1) work = addWork(work, workOf(1, context))
    return smallModelStepS(board, shape, { ...work, chosen: count })
  }
  const aloneS = decodeS(1, promptTokens)
  return {
    model: shape.name,
    ttftMs: 1_000 * smallModelStepS(board, shape, { ...workOf(promptTokens, 0), chosen: 1 }),
    tpotMs: 1_000 * decodeS(1, promptTokens + answerTokens / 2),
    loadMs: (1_000 * modelBytes(shape)) / diskBytesPerS,
    parallel: sequences.map((count) => [count, (count * aloneS) / decodeS(count, promptTokens)]),
    tokensPerLlmToken: 1,
  }
}
