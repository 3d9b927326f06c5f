import {
  SmallModelPool,
  type SmallModelPoolAction,
  type SmallModelPoolEvent,
} from '../../../core/policy/pice/small-model-pool.ts'
import {
  correctedFactor,
  type ExpansionRun,
  exceededFactor,
  type MeasuredSmallModel,
  speedOf,
} from '../../../core/policy/pice/small-model-speed.ts'
import type { SmallModelSpeed } from '../../../core/policy/pice/state.ts'
import type { Board } from '../hardware/board.ts'
import type { TransformerShape } from '../hardware/model-shape.ts'
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

/** The small models of a device: its pool on the virtual clock, how fast they were measured, and what has corrected that. Mutable. */
export class SimulatedSmallModels {
  readonly #simulation: Simulation
  readonly #board: Board
  readonly #shapes: readonly TransformerShape[]
  readonly #measured: ReadonlyMap<string, MeasuredSmallModel>
  readonly #factors = new Map<string, number>()
  readonly #pool: SmallModelPool
  /** Those that wait for a model. */
  readonly #borrowing = new Map<number, (release: () => void) => void>()
  readonly #listeners: (() => void)[] = []
  #requests = 0
  #current: string | undefined

  constructor({ board, smallModels }: Pick<SimulatedDevice, 'board' | 'smallModels'>, simulation: Simulation) {
    this.#simulation = simulation
    this.#board = board
    const fitting = smallModels.filter((shape) => modelBytes(shape) <= this.#limitBytes)
    this.#shapes = fitting.toSorted((a, b) => modelBytes(a) - modelBytes(b))
    this.#pool = new SmallModelPool({ limitBytes: this.#limitBytes, reserveBytes: 0 })
    const models = this.#shapes.map((shape) => ({ name: shape.name, version: shape.name, bytes: modelBytes(shape) }))
    this.#feed({ kind: 'models', models })
    this.#measured = new Map(this.#shapes.map((shape) => [shape.name, profiled(board, shape)]))
  }

  /** @param changed called when another model is current, or a speed has been corrected */
  onChange(changed: () => void): void {
    this.#listeners.push(changed)
  }

  /** Ascending by size: those that fit into the device's memory. */
  get shapes(): readonly TransformerShape[] {
    return this.#shapes
  }

  /** Name of the model that is open and was used last. */
  get current(): string | undefined {
    return this.#pool.current
  }

  /** As measured and corrected. @param isLocal as the device itself sees them: open models need no opening */
  speeds(isLocal: boolean): readonly SmallModelSpeed[] {
    return this.#shapes.map(({ name }) => {
      const speed = speedOf(this.#measured.get(name)!, this.#factors.get(name))
      return isLocal && this.#pool.isOpen(name) ? { ...speed, loadS: 0 } : speed
    })
  }

  shapeOf(name: string): TransformerShape {
    return this.#shapes.find((shape) => shape.name === name)!
  }

  /** Bytes that no weights take. */
  get freeBytes(): number {
    return this.#board.hardware.memoryBytes - this.#pool.openBytes
  }

  /** @param opened gets what returns the model */
  borrow(name: string, opened: (release: () => void) => void): void {
    this.#requests += 1
    this.#borrowing.set(this.#requests, opened)
    this.#feed({ kind: 'borrow', request: this.#requests, name })
  }

  /** Corrects the speed of a model by what it has written. */
  record(name: string, run: ExpansionRun): void {
    this.#factors.set(name, correctedFactor(this.#factors.get(name) ?? 1, this.#measured.get(name)!, run))
    this.#changed()
  }

  /** A job had not ended after `overrun` times the time that was predicted for the model. */
  recordOverrun(name: string, overrun: number): void {
    this.#factors.set(name, exceededFactor(this.#factors.get(name) ?? 1, overrun))
    this.#changed()
  }

  #feed(event: SmallModelPoolEvent): void {
    const input = { ...event, freeBytes: this.freeBytes }
    for (const action of this.#pool.handle(input, this.#simulation.nowMs)) this.#carryOut(action)
  }

  #carryOut(action: SmallModelPoolAction): void {
    switch (action.kind) {
      case 'open': {
        const { version } = action
        const readMs = (1_000 * modelBytes(this.shapeOf(version))) / diskBytesPerS
        this.#simulation.after(readMs, () => this.#feed({ kind: 'opened', version }))
        return
      }
      case 'close':
        this.#feed({ kind: 'closed', version: action.version })
        return
      case 'lend': {
        const { request, version } = action
        const opened = this.#borrowing.get(request)!
        this.#borrowing.delete(request)
        if (this.#current !== this.current) {
          this.#current = this.current
          this.#changed()
        }
        opened(() => this.#feed({ kind: 'return', version }))
        return
      }
      default:
        throw new Error(`the pool of small models is not to ${action.kind}`)
    }
  }

  #changed(): void {
    for (const changed of this.#listeners) changed()
  }

  get #limitBytes(): number {
    return weightShare * this.#board.hardware.memoryBytes
  }
}

/** What a job `profile` would measure on an idle device. */
export function profiled(board: Board, shape: TransformerShape): MeasuredSmallModel {
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
