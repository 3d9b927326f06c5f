import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Random, seededRandom } from '../../../../core/kit/base/random.ts'
import type { ServingAction, ServingInput } from '../../../../core/policy/serving/serving-events.ts'
import { ServingMachine } from '../../../../core/policy/serving/serving-machine.ts'
import type { ServingMachineOptions } from '../../../../core/policy/serving/serving-rules.ts'
import { createPolicy, type PolicyName, policyNames } from '../../../../core/policy/tokenflow/named-policies.ts'

const size = { bytesPerPosition: 1, chargeOf: (positions: number) => 32 * Math.ceil(positions / 32) }
const budgetBytes = 640

const options = (name: PolicyName, fields: Partial<ServingMachineOptions> = {}): ServingMachineOptions => ({
  policy: createPolicy(name, { promptRows: 32, minPromptRows: 8 }),
  step: { rows: 64, streams: 4, pipeline: 2 },
  memory: { budgetBytes, ownerBytes: budgetBytes },
  tiers: { slowBytes: 1_000, writeThrough: true, overlap: true, piecePages: 1 },
  contextLimit: 256,
  sizes: { device: size, answer: size },
  sharesPrefixes: true,
  maxMemoryWaitMs: 5_000,
  maxWaitingAnswers: 20,
  ...fields,
})

/** How often what is tried fails. */
interface Mishaps {
  readonly step: number
  readonly save: number
  readonly load: number
}

/** Does what the machine asks for, each thing after a while of its own, and checks that it may be asked for. */
class Executor {
  readonly machine: ServingMachine
  /** Rows that each open stream holds, as its buffers would. */
  readonly rows = new Map<number, number>()
  readonly inStep = new Set<number>()
  readonly answers = new Map<number, { left: number }>()
  readonly failures: string[] = []
  ended = 0
  /** Streams that have begun with pages of earlier ones. */
  loads = 0
  nowMs = 0
  readonly #random: Random
  readonly #mishaps: Mishaps
  readonly #hasSlowTier: boolean
  readonly #events: { readonly atMs: number; readonly happen: () => void }[] = []

  constructor(machine: ServingMachine, random: Random, mishaps: Mishaps, hasSlowTier: boolean) {
    this.machine = machine
    this.#hasSlowTier = hasSlowTier
    this.#random = random
    this.#mishaps = mishaps
  }

  chance(share: number): boolean {
    return this.#random.next() < share
  }

  later(happen: () => void, maxMs = 50): void {
    this.#events.push({ atMs: this.nowMs + maxMs * this.#random.next(), happen })
  }

  feed(input: ServingInput): void {
    for (const action of this.machine.handle(input, this.nowMs)) this.#do(action)
    expect(this.machine.memory.usedBytes).toBeLessThanOrEqual(budgetBytes)
  }

  /** Lets everything happen. */
  run(): void {
    for (let count = 0; count < 20_000; count += 1) {
      const { wakeMs } = this.machine
      if (wakeMs === Number.NEGATIVE_INFINITY) {
        this.feed({ kind: 'tick' })
        continue
      }
      this.#events.sort((a, b) => a.atMs - b.atMs)
      const [next] = this.#events
      if (wakeMs !== undefined && wakeMs <= (next?.atMs ?? Number.POSITIVE_INFINITY)) {
        this.nowMs = Math.max(this.nowMs, wakeMs)
        this.feed({ kind: 'tick' })
      } else if (next) {
        this.#events.shift()
        this.nowMs = Math.max(this.nowMs, next.atMs)
        next.happen()
      } else return
    }
    throw new Error('it does not come to an end')
  }

  #do(action: ServingAction): void {
    switch (action.kind) {
      case 'begin':
        this.#begin(action)
        break
      case 'save':
        expect(action.to).toBeLessThanOrEqual(this.rows.get(action.stream)!)
        this.later(() => {
          const outcome = this.chance(this.#mishaps.save) ? (this.chance(0.5) ? 'full' : 'failed') : 'saved'
          this.feed({ kind: 'saved', stream: action.stream, outcome, seconds: 0.001 })
        })
        break
      case 'load':
        this.later(() => {
          const outcome = this.chance(this.#mishaps.load) ? 'lost' : 'loaded'
          this.feed({ kind: 'loaded', stream: action.stream, outcome, seconds: 0.001 })
        })
        break
      case 'leave':
        expect(this.inStep).not.toContain(action.stream)
        this.rows.set(action.stream, action.rows)
        break
      case 'drop copy':
        this.later(() => this.feed({ kind: 'copy dropped' }))
        break
      case 'restart': {
        this.rows.set(action.stream, 0)
        // The last row is computed, whatever is found.
        const stream = this.machine.get(action.stream)!
        const below = () => Math.floor(this.#random.next() * stream.waitingRows)
        const [rows, anySaved] = [below(), below()]
        const whole = anySaved - (anySaved % 16)
        // Pages that an earlier stream has left. Of a resident stream none beyond the rows in the memory are looked for.
        const saved = this.#hasSlowTier && this.chance(0.5) ? (stream.isResident ? Math.min(rows, whole) : whole) : 0
        if (saved > rows) {
          this.rows.set(action.stream, saved)
          this.loads += 1
        }
        this.feed({ kind: 'found', stream: action.stream, rows, ...(saved > 0 && { saved }) })
        break
      }
      case 'copy prefix':
        this.rows.set(action.stream, action.rows)
        break
      case 'compare':
        this.feed({ kind: 'compared', waiting: [], behind: action.pieces.map(({ stream }) => stream).filter(this.#isBehind) })
        break
      case 'closed':
        this.rows.delete(action.stream)
        this.feed({ kind: 'released', stream: action.stream })
        break
      case 'refused':
        this.answers.delete(action.stream)
        this.rows.delete(action.stream)
        this.ended += 1
        break
      case 'displaced':
      case 'fail':
        this.failures.push(action.kind === 'fail' ? action.why : action.kind)
        this.later(() => this.close(action.stream))
        break
    }
  }

  readonly #isBehind = (id: number): boolean => {
    const stream = this.machine.get(id)!
    return stream.isFresh && stream.source === 'answer' && stream.contextLength === 0 && this.chance(0.3)
  }

  close(id: number): void {
    if (this.machine.get(id)?.stage !== 'open') return
    this.ended += 1
    this.feed({ kind: 'closing', stream: id, ...(this.chance(0.5) && { leaves: true }) })
  }

  #begin({ step, pieces }: Extract<ServingAction, { kind: 'begin' }>): void {
    for (const { stream, rows, waitingRows, contextLength } of pieces) {
      expect(this.inStep).not.toContain(stream)
      expect(rows).toBeGreaterThan(0)
      expect(rows).toBeLessThanOrEqual(waitingRows)
      expect(contextLength).toBe(this.rows.get(stream))
      this.inStep.add(stream)
    }
    this.later(() => {
      const failed = pieces.map(({ stream }) => stream).filter(() => this.chance(this.#mishaps.step))
      for (const { stream, rows } of pieces) {
        this.inStep.delete(stream)
        if (!failed.includes(stream)) this.rows.set(stream, this.rows.get(stream)! + rows)
      }
      const rows = pieces.reduce((sum, piece) => sum + piece.rows, 0)
      const run = { streams: pieces.length, rows, promptRows: 0, seconds: 0.02 }
      this.feed({ kind: 'step ended', step, runs: [run], failed, trees: [] })
      for (const { stream } of pieces) this.#go(stream, failed.includes(stream))
    })
  }

  /** What follows from a step with the stream. */
  #go(id: number, hasFailed: boolean): void {
    const stream = this.machine.get(id)
    if (stream?.stage !== 'open' || stream.waitingRows > 0) return
    const answer = this.answers.get(id)!
    answer.left -= 1
    if (hasFailed || answer.left === 0) this.close(id)
    else if (stream.source === 'answer')
      this.feed({ kind: 'rows', stream: id, rows: 1, phase: 'decode', following: answer.left - 1 })
    else this.later(() => this.#send(id), 500)
  }

  /** A device's next rows, after it has dropped some. */
  #send(id: number): void {
    if (this.machine.get(id)?.stage !== 'open') return
    const length = Math.max(0, this.rows.get(id)! - 2)
    this.rows.set(id, length)
    this.feed({ kind: 'reshaped', stream: id, length, line: length, unmoved: length })
    this.feed({ kind: 'rows', stream: id, rows: 5, phase: 'verify', following: 0 })
  }

  open(id: number, kind: 'answer' | 'device', rows: number, left: number): void {
    const [client, reader] = [`client ${id % 3}`, undefined]
    this.rows.set(id, 0)
    this.answers.set(id, { left })
    if (kind === 'answer')
      this.feed({ kind: 'answer opened', stream: id, owner: client, client, tokensPerS: 5, rows, following: left - 1 })
    else {
      this.feed({ kind: 'session opened', stream: id, owner: client, client, positions: 16, reader })
      this.later(() => {
        const stream = this.machine.get(id)
        if (stream?.stage === 'open' && stream.place === 'resident')
          this.feed({ kind: 'rows', stream: id, rows, phase: 'prefill', following: 0 })
        else this.close(id)
      })
    }
  }
}

const anyStream = fc.record({
  kind: fc.constantFrom('answer' as const, 'device' as const),
  atMs: fc.integer({ min: 0, max: 3_000 }),
  rows: fc.integer({ min: 1, max: 150 }),
  left: fc.integer({ min: 1, max: 30 }),
  /** When it is closed, whatever it does; often later than its end. */
  closeMs: fc.integer({ min: 0, max: 20_000 }),
})

describe.each(policyNames)('the serving machine under %s', (name) => {
  it('keeps to the memory and to one step for each stream, and frees everything, whatever fails', () => {
    const share = fc.constantFrom(0, 0, 0.1, 0.5)
    const mishaps = fc.record({ step: fc.constantFrom(0, 0.05), save: share, load: share })
    const tiers = fc.record({
      slowBytes: fc.constantFrom(0, 1_000),
      writeThrough: fc.boolean(),
      overlap: fc.boolean(),
      piecePages: fc.constantFrom(1, 4),
    })
    let loads = 0
    fc.assert(
      fc.property(
        fc.array(anyStream, { minLength: 1, maxLength: 25 }),
        mishaps,
        tiers,
        fc.integer(),
        (streams, failing, moved, seed) => {
          const machine = new ServingMachine(options(name, { tiers: moved }))
          const executor = new Executor(machine, seededRandom(seed), failing, moved.slowBytes > 0)
          for (const [id, { kind, atMs, rows, left, closeMs }] of streams.toSorted((a, b) => a.atMs - b.atMs).entries()) {
            executor.nowMs = atMs
            executor.open(id, kind, rows, left)
            executor.later(() => executor.close(id), closeMs)
          }
          executor.run()
          loads += executor.loads
          expect(executor.ended).toBe(streams.length)
          expect(executor.machine.memory).toMatchObject({ usedBytes: 0, cachedBytes: 0 })
          expect(executor.machine.waitingAnswers).toBe(0)
        },
      ),
      { numRuns: 60 },
    )
    expect(loads).toBeGreaterThan(0)
  })
})
