import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { batchByLength } from '../../../../core/policy/pice/dispatch-rules.ts'
import { type ExpansionAction, type ExpansionInput, noLimits } from '../../../../core/policy/pice/expansion-events.ts'
import { ExpansionScheduler } from '../../../../core/policy/pice/expansion-scheduler.ts'

const settings = {
  ...{ jobsPerDevice: 1, waitingPerDevice: 2, attempts: 3, maxJobBytes: 1_000, deviceWaitMs: 3_000, graceMs: 10_000 },
  ...{ expectsPlans: false, startedMs: 0 },
}

type Submitted = Extract<ExpansionAction, { kind: 'submit' }>

/** Devices of one speed, of which some are silent: each takes its predicted time for a job, or never sends anything. */
class Fleet {
  nowMs = 0
  readonly scheduler = new ExpansionScheduler(batchByLength(4), settings)
  readonly submitted: { readonly job: Submitted; readonly atMs: number }[] = []
  readonly ends = new Map<string, { readonly how: string; readonly atMs: number }>()
  readonly exceeded: Extract<ExpansionAction, { kind: 'exceeded' }>[] = []
  readonly #due: { readonly atMs: number; happen(): void }[] = []

  readonly tpotS: number
  readonly silent: ReadonlySet<string>
  readonly accepts: boolean

  constructor(devices: readonly string[], tpotS: number, silent: ReadonlySet<string>, accepts = true) {
    this.tpotS = tpotS
    this.silent = silent
    this.accepts = accepts
    for (const device of devices) {
      const speed = { model: 'm', loadS: 0, ttftS: 0.1, tpotS, parallel: [], ability: undefined }
      this.feed({ kind: 'measured', device, speeds: [speed] })
      this.feed({ kind: 'presence', device, presence: { takesJobs: true, canProfile: false } })
    }
  }

  /** Of a sketch of three lines and 100 tokens, alone. */
  get predictedMs(): number {
    return 1_000 * (0.1 + 99 * this.tpotS)
  }

  feed(input: ExpansionInput): void {
    for (const action of this.scheduler.handle(input, this.nowMs)) this.#carryOut(action)
  }

  ask(id: string, deadlineMs = 1e6): void {
    const sketch = { lines: 3, sentences: [0, 1, 2], candidates: 1, expectedTokens: 100, bytes: 100 }
    this.feed({ kind: 'begin', id, client: '', arrived: [], deadlineMs, ...sketch })
  }

  advance(ms: number): void {
    const untilMs = this.nowMs + ms
    for (;;) {
      this.#due.sort((a, b) => a.atMs - b.atMs)
      const [next] = this.#due
      const wakeMs = this.scheduler.wakeMs ?? Number.POSITIVE_INFINITY
      if (Math.min(next?.atMs ?? wakeMs, wakeMs) > untilMs) break
      this.nowMs = Math.max(this.nowMs, Math.min(next?.atMs ?? wakeMs, wakeMs))
      if (next && next.atMs <= wakeMs) this.#due.shift()!.happen()
      else this.feed({ kind: 'tick', ...noLimits })
    }
    this.nowMs = untilMs
  }

  #carryOut(action: ExpansionAction): void {
    if (action.kind === 'done' || action.kind === 'fail')
      this.ends.set(action.id, { how: action.kind === 'done' ? 'done' : action.reason, atMs: this.nowMs })
    if (action.kind === 'exceeded') this.exceeded.push(action)
    if (action.kind !== 'submit') return
    this.submitted.push({ job: action, atMs: this.nowMs })
    const { job } = action
    if (this.accepts || !this.silent.has(action.device)) this.#after(10, () => this.feed({ kind: 'accepted', job }))
    else this.#after(action.acceptMs, () => this.feed({ kind: 'failed', job, isOver: false, isRejected: false }))
    if (this.silent.has(action.device)) return
    const takesMs = 1_000 * (0.1 + 99 * this.tpotS * action.sketches.length)
    this.#after(takesMs, () => {
      const sentences = action.sketches.flatMap((each, sketch) =>
        each.sentences.map((sentence) => ({ sketch, sentence, candidate: 0 })),
      )
      this.feed({ kind: 'succeeded', job, sentences, model: 'm' })
    })
  }

  #after(ms: number, happen: () => void): void {
    this.#due.push({ atMs: this.nowMs + ms, happen })
  }
}

describe('a device that goes silent', () => {
  it('delays an answer by twice its predicted time at most, while another one is idle', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5 }), fc.double({ min: 0.002, max: 0.2, noNaN: true }), (devices, tpotS) => {
        const names = Array.from({ length: devices }, (_, at) => `d${at}`)
        const fleet = new Fleet(names, tpotS, new Set(['d0']))
        fleet.ask('x')
        fleet.advance(4 * fleet.predictedMs + 2_000)
        expect(fleet.submitted.map(({ job }) => job.device)).toEqual(['d0', 'd1'])
        expect(fleet.ends.get('x')!.how).toBe('done')
        // Its own time, what was waited for the silent one, and the shortest wait that counts.
        expect(fleet.ends.get('x')!.atMs).toBeLessThanOrEqual(3 * fleet.predictedMs + 520)
      }),
      { numRuns: 100 },
    )
  })

  it('is told to be as slow as its job shows once the job is given up, if it has accepted it', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.01, max: 0.2, noNaN: true }), fc.boolean(), (tpotS, accepts) => {
        const fleet = new Fleet(['a', 'b'], tpotS, new Set(['a']), accepts)
        fleet.ask('x')
        fleet.advance(4 * fleet.predictedMs + 10_000)
        expect(fleet.ends.get('x')!.how).toBe('done')
        if (!accepts) return void expect(fleet.exceeded).toEqual([])
        expect(fleet.exceeded).toMatchObject([{ device: 'a', model: 'm' }])
        // Overdue after twice its time; then the other one has written all in the time of one.
        expect(fleet.exceeded[0]!.overrun).toBeGreaterThan(2)
        expect(fleet.exceeded[0]!.overrun).toBeLessThan(3.6)
      }),
      { numRuns: 50 },
    )
  })

  it('counts in no plan while its job is overdue, and its sentences still count', () => {
    const fleet = new Fleet(['a', 'b'], 0.02, new Set(['a']))
    fleet.ask('x')
    const devices = () => fleet.scheduler.view(fleet.nowMs).devices.map(({ device }) => device)
    fleet.advance(fleet.predictedMs)
    expect(devices()).toEqual(['a', 'b'])
    fleet.advance(fleet.predictedMs + 100)
    expect(devices()).toEqual(['b'])
    const { job } = fleet.submitted[0]!
    for (const sentence of [0, 1, 2]) fleet.feed({ kind: 'sentence', job: job.job, sketch: 0, sentence, candidate: 0 })
    expect(fleet.ends.get('x')).toEqual({ how: 'done', atMs: fleet.nowMs })
  })

  it('and is late for an answer, before its job is overdue, gets no other sketch for a second', () => {
    const fleet = new Fleet(['a'], 0.01, new Set(['a']))
    fleet.ask('x', fleet.predictedMs + 100)
    fleet.advance(fleet.predictedMs + 110)
    expect(fleet.ends.get('x')?.how).toBe('late')
    fleet.ask('y')
    fleet.advance(900)
    expect(fleet.submitted).toHaveLength(1)
    fleet.advance(300)
    expect(fleet.submitted.map(({ job }) => job.device)).toEqual(['a', 'a'])
  })

  it('costs one wait for acceptance, then rests for twice as long each time', () => {
    const fleet = new Fleet(['a', 'b'], 0.02, new Set(['a']), false)
    for (let id = 0; id < 60; id += 1) {
      fleet.ask(String(id))
      fleet.advance(4_000)
    }
    expect([...fleet.ends.values()].every(({ how }) => how === 'done')).toBe(true)
    const atS = fleet.submitted.filter(({ job }) => job.device === 'a').map(({ atMs }) => atMs / 1_000)
    // 240 s: after rests of 2, 4, 8, 16, 32 and 60 s, and not once for each of the 60 answers.
    expect(atS.length).toBeGreaterThan(3)
    expect(atS.length).toBeLessThan(10)
    expect(fleet.submitted[0]!.job.acceptMs).toBe(1_000)
  })
})
