import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'
import type { Sequence, StepItem } from './contract.ts'
import type { LoadedModel } from './open-model.ts'
import { inputFrom, type RowSource, sourcesOf } from './row-sources.ts'
import { RowTree } from './row-tree.ts'

/** A part, or a chain. */
export interface StepsOf<Result> {
  createSequence(): Sequence
  step(items: readonly StepItem[]): Promise<Result>
}

/** Repeats what failed because the device was lost. */
export interface Recovery {
  attempt<Result>(compute: (model: LoadedModel) => Promise<Result>): Promise<Result>
}

/** Rows that are computed again in one step. */
const maxRows = 128

/**
 * A sequence of a model that may have to be computed again. It remembers what each row was computed from: an id, or a row of
 * states in fp16, which is a small part of the row's KV.
 */
export class RecoveringSequence implements Sequence {
  readonly rowValues: number
  readonly fixedBytes: number
  readonly #recovery: Recovery
  readonly #stepsOf: (model: LoadedModel) => StepsOf<unknown>
  readonly #onRelease: () => void
  /** Undefined: it was lost, and is computed again when it is needed. */
  #inner: Sequence | undefined
  #restoring: Promise<Sequence> | undefined
  #sources: RowSource[] = []
  #rows = RowTree.empty
  /** Of a lost sequence. */
  #held = 0
  #isInStep = false
  #isReleased = false

  /** Runs a step on a model, on which lost sequences are computed again before. */
  static async step<Result>(items: readonly StepItem[], steps: StepsOf<Result>): Promise<Result> {
    const own = items.map(({ sequence }) => {
      if (sequence instanceof RecoveringSequence) return sequence
      throw new Error('a step was given a sequence of another model')
    })
    for (const sequence of own) sequence.#isInStep = true
    try {
      const inner: Sequence[] = []
      for (const sequence of own) inner.push(await sequence.#restored(steps))
      const result = await steps.step(items.map((item, at) => ({ ...item, sequence: inner[at]! })))
      items.forEach((item, at) => {
        own[at]!.#append(item)
      })
      return result
    } finally {
      for (const sequence of own) sequence.#finishStep()
    }
  }

  constructor(recovery: Recovery, stepsOf: (model: LoadedModel) => StepsOf<unknown>, inner: Sequence, onRelease: () => void) {
    this.#recovery = recovery
    this.#stepsOf = stepsOf
    this.#onRelease = onRelease
    this.#inner = inner
    this.rowValues = inner.rowValues
    this.fixedBytes = inner.fixedBytes
  }

  get length(): number {
    return this.#rows.length
  }

  get line(): number {
    return this.#rows.line
  }

  get held(): number {
    return this.#inner?.held ?? this.#held
  }

  get capacity(): number {
    return this.#inner?.capacity ?? 0
  }

  get bytes(): number {
    return this.#inner?.bytes ?? 0
  }

  /** The device was lost, and with it the rows. */
  lose(): void {
    if (!this.#inner) return
    this.#held = this.#inner.held
    this.#inner.release()
    this.#inner = undefined
  }

  truncate(length: number): void {
    this.#inner?.truncate(length)
    this.#rows = this.#rows.truncated(length)
    this.#sources.length = length
    this.#held = Math.min(this.#held, length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.#inner?.gather(keep, rows)
    this.#held = this.#held === this.length ? keep + rows.length : Math.min(this.#held, keep)
    this.#sources = [...this.#sources.slice(0, keep), ...rows.map((row) => this.#sources[row]!)]
    this.#rows = RowTree.lineOf(keep + rows.length)
  }

  copyPrefix(from: Sequence, length: number): void {
    if (!(from instanceof RecoveringSequence)) throw new Error('the sequence belongs to another model')
    if (this.#inner && from.#inner) this.#inner.copyPrefix(from.#inner, length)
    else this.lose()
    this.#held = length
    this.#sources = from.#sources.slice(0, length)
    this.#rows = RowTree.lineOf(length)
  }

  async readRows(from: number, to: number, into: Float32Array): Promise<void> {
    await this.#recovery.attempt(async (model) => {
      const inner = await this.#restored(this.#stepsOf(model))
      if (inner.rowValues === this.rowValues) return inner.readRows(from, to, into)
      const values = new Float32Array((to - from) * inner.rowValues)
      await inner.readRows(from, to, values)
      if (encodeHalves(values, halvesOf(into)) >= 0) throw new Error('KV of the CPU has values beyond fp16')
    })
  }

  /** Rows of a lost sequence are computed again in their place. */
  writeRows(from: number, to: number, rows: Float32Array): void {
    if (this.#inner && this.#inner.rowValues !== this.rowValues) {
      const values = new Float32Array((to - from) * this.#inner.rowValues)
      decodeHalves(halvesOf(rows), values)
      this.#inner.writeRows(from, to, values)
    } else this.#inner?.writeRows(from, to, rows)
    this.#held = Math.min(this.length, Math.max(this.#held, to))
  }

  claim(length: number, ids?: readonly number[]): boolean {
    this.truncate(0)
    if (!ids || this.#inner?.claim(length, ids) === false) return false
    this.#sources = ids.slice(0, length)
    this.#rows = RowTree.lineOf(length)
    return true
  }

  reserve(length: number): void {
    this.#inner?.reserve(length)
  }

  evict(): void {
    this.#inner?.evict()
    this.#held = 0
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#onRelease()
    if (!this.#isInStep) this.#inner?.release()
  }

  #finishStep(): void {
    this.#isInStep = false
    if (this.#isReleased) this.#inner?.release()
  }

  #append(item: StepItem): void {
    const sources = sourcesOf(item)
    this.#sources.push(...sources)
    this.#rows = this.#rows.extended(sources.length, item.parents)
    this.#held = this.length
  }

  async #restored(steps: StepsOf<unknown>): Promise<Sequence> {
    if (this.#inner) return this.#inner
    this.#restoring ??= this.#restore(steps).finally(() => {
      this.#restoring = undefined
    })
    return this.#restoring
  }

  async #restore(steps: StepsOf<unknown>): Promise<Sequence> {
    const sequence = steps.createSequence()
    try {
      const { line, length } = this.#rows
      for (let from = 0; from < line; from += maxRows) {
        const input = inputFrom(this.#sources.slice(from, Math.min(from + maxRows, line)))
        await steps.step([{ sequence, ...input, select: 'none' }])
      }
      const parents = this.#rows.parentsFrom(line)
      if (line < length) await steps.step([{ sequence, ...inputFrom(this.#sources.slice(line)), parents, select: 'none' }])
    } catch (error) {
      sequence.release()
      throw error
    }
    this.#inner = sequence
    return sequence
  }
}

/** Rows of a device in fp16, which the CPU that replaces it has in fp32. */
const halvesOf = (rows: Float32Array) => new Uint16Array(rows.buffer, rows.byteOffset, 2 * rows.length)
