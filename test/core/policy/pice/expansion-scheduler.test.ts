import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { batchByLength } from '../../../../core/policy/pice/dispatch-rules.ts'
import { type ExpansionAction, type ExpansionInput, noLimits } from '../../../../core/policy/pice/expansion-events.ts'
import { ExpansionScheduler, type ExpansionSettings } from '../../../../core/policy/pice/expansion-scheduler.ts'

const settings: ExpansionSettings = {
  jobsPerDevice: 1,
  waitingPerDevice: 2,
  attempts: 3,
  maxJobBytes: 1_000,
  deviceWaitMs: 3_000,
  graceMs: 10_000,
  expectsPlans: false,
  startedMs: 0,
}
const speed = { model: 'm', loadS: 0, ttftS: 0.1, tpotS: 0.02, parallel: [], ability: undefined }

type Submitted = Extract<ExpansionAction, { kind: 'submit' }>

/** Carries the scheduler's actions out, and checks that each is possible. */
class CheckedFleet {
  nowMs = 0
  readonly inputs: { readonly input: ExpansionInput; readonly nowMs: number }[] = []
  readonly actions: ExpansionAction[] = []
  readonly scheduler: ExpansionScheduler
  /** Candidates that each answer lacks. */
  readonly missing = new Map<string, Set<string>>()
  readonly jobs = new Map<string, Submitted>()
  readonly present = new Set<string>()
  readonly ends = new Map<string, string>()

  constructor(own: Partial<ExpansionSettings> = {}) {
    this.scheduler = new ExpansionScheduler(batchByLength(4), { ...settings, ...own })
  }

  feed(input: ExpansionInput): readonly ExpansionAction[] {
    this.inputs.push({ input, nowMs: this.nowMs })
    const actions = this.scheduler.handle(input, this.nowMs)
    this.actions.push(...actions)
    for (const action of actions) this.#check(action)
    return actions
  }

  tick(): void {
    this.feed({ kind: 'tick', ...noLimits })
    // It would be woken again at once, and again.
    expect(this.scheduler.wakeMs ?? Number.POSITIVE_INFINITY).toBeGreaterThan(this.nowMs)
  }

  /** All that is due in the time. */
  advance(ms: number): void {
    const untilMs = this.nowMs + ms
    for (let at = this.scheduler.wakeMs; at !== undefined && at <= untilMs; at = this.scheduler.wakeMs) {
      this.nowMs = Math.max(this.nowMs, at)
      this.tick()
    }
    this.nowMs = untilMs
  }

  ask(id: string, { candidates = 1, lines = 3, deadlineMs = 20_000, client = '', expectedTokens = 100 } = {}): void {
    if (this.missing.has(id)) return
    const sentences = Array.from({ length: lines }, (_, at) => at)
    this.missing.set(id, new Set(sentences.flatMap((at) => Array.from({ length: candidates }, (_, each) => `${at}/${each}`))))
    const length = { lines, sentences, candidates, expectedTokens, bytes: 100 }
    this.feed({ kind: 'begin', id, client, arrived: [], deadlineMs, ...length })
  }

  setPresence(device: string, isThere: boolean): void {
    if (isThere) this.present.add(device)
    else this.present.delete(device)
    this.feed({ kind: 'presence', device, presence: isThere ? { takesJobs: true, canProfile: false } : null })
  }

  /** The device writes the first sentence that the job still asks for. */
  write(job: Submitted, candidate = 0): void {
    for (const [sketch, { sentences }] of job.sketches.entries())
      for (const sentence of sentences) this.feed({ kind: 'sentence', job: job.job, sketch, sentence, candidate })
  }

  end(job: Submitted, how: 'succeeded' | 'failed' | 'rejected'): void {
    if (!this.jobs.delete(job.job)) return
    if (how === 'succeeded') this.feed({ kind: 'succeeded', job: job.job, sentences: [], model: 'm' })
    else this.feed({ kind: 'failed', job: job.job, isOver: true, isRejected: how === 'rejected' })
  }

  #check(action: ExpansionAction): void {
    switch (action.kind) {
      case 'submit':
        expect(this.present).toContain(action.device)
        for (const other of this.jobs.values()) expect(other.device).not.toBe(action.device)
        for (const { id, sentences } of action.sketches) {
          expect(this.ends.has(id)).toBe(false)
          expect(sentences).toEqual([...new Set([...this.missing.get(id)!].map((place) => Number(place.split('/')[0])))])
        }
        this.jobs.set(action.job, action)
        return
      case 'cancel':
        this.jobs.delete(action.job)
        return
      case 'deliver':
        expect(this.ends.has(action.id)).toBe(false)
        expect(this.missing.get(action.id)!.delete(`${action.sentence}/${action.candidate}`)).toBe(true)
        return
      case 'done':
      case 'fail':
        expect(this.ends.has(action.id)).toBe(false)
        expect(this.missing.get(action.id)!.size === 0).toBe(action.kind === 'done')
        this.ends.set(action.id, action.kind === 'done' ? 'done' : action.reason)
        return
      default:
        return
    }
  }
}

const names = ['a', 'b', 'c']
const operation = fc.oneof(
  fc.record({
    do: fc.constant('ask' as const),
    id: fc.nat({ max: 30 }).map(String),
    candidates: fc.constantFrom(1, 2),
    lines: fc.integer({ min: 1, max: 4 }),
    deadlineMs: fc.constantFrom(500, 20_000),
    client: fc.constantFrom('x', 'y'),
    expectedTokens: fc.constantFrom(40, 100, 600),
  }),
  fc.record({ do: fc.constant('leave' as const), id: fc.nat({ max: 30 }).map(String) }),
  fc.record({ do: fc.constant('presence' as const), device: fc.constantFrom(...names), isThere: fc.boolean() }),
  fc.record({ do: fc.constant('measure' as const), device: fc.constantFrom(...names), tpotS: fc.constantFrom(0.01, 0.1) }),
  fc.record({ do: fc.constant('write' as const), at: fc.nat({ max: 3 }), candidate: fc.constantFrom(0, 1) }),
  fc.record({
    do: fc.constant('end' as const),
    at: fc.nat({ max: 3 }),
    how: fc.constantFrom('succeeded' as const, 'failed' as const, 'rejected' as const),
  }),
  fc.record({ do: fc.constant('sent' as const), at: fc.nat({ max: 3 }), kind: fc.constantFrom('sent', 'accepted', 'requeued') }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 10, 500, 4_000) }),
)

function carryOut(fleet: CheckedFleet, each: typeof operation extends fc.Arbitrary<infer Operation> ? Operation : never): void {
  const job = 'at' in each ? [...fleet.jobs.values()][each.at] : undefined
  if (each.do === 'ask') fleet.ask(each.id, each)
  else if (each.do === 'leave') {
    if (fleet.missing.has(each.id) && !fleet.ends.has(each.id)) fleet.ends.set(each.id, 'left')
    fleet.feed({ kind: 'end', id: each.id })
  } else if (each.do === 'presence') fleet.setPresence(each.device, each.isThere)
  else if (each.do === 'measure') fleet.feed({ kind: 'measured', device: each.device, speeds: [{ ...speed, tpotS: each.tpotS }] })
  else if (each.do === 'wait') fleet.advance(each.ms)
  else if (!job) return
  else if (each.do === 'write') fleet.write(job, each.candidate)
  else if (each.do === 'end') fleet.end(job, each.how)
  else fleet.feed({ kind: each.kind as 'sent', job: job.job })
}

describe('whatever happens', () => {
  it('each sketch is expanded once or fails with a reason in time, and no device gets more than it may', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const fleet = new CheckedFleet()
        for (const each of operations) carryOut(fleet, each)
        fleet.advance(60_000)
        for (const id of fleet.missing.keys()) expect(fleet.ends.has(id)).toBe(true)
        expect(fleet.scheduler.view(fleet.nowMs).waiting).toEqual([])
      }),
      { numRuns: 300 },
    )
  })

  it('the same inputs give the same actions', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 40 }), (operations) => {
        const fleet = new CheckedFleet()
        for (const each of operations) carryOut(fleet, each)
        const again = new ExpansionScheduler(batchByLength(4), settings)
        expect(fleet.inputs.flatMap(({ input, nowMs }) => again.handle(input, nowMs))).toEqual(fleet.actions)
      }),
      { numRuns: 50 },
    )
  })
})

describe('the lists of sketches', () => {
  it('leave no device of unknown speed idle while a sketch waits', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 3 }), (asked, devices) => {
        const fleet = new CheckedFleet({ waitingPerDevice: 10 })
        for (const device of names.slice(0, devices)) fleet.setPresence(device, true)
        for (let id = 0; id < asked; id += 1) fleet.ask(String(id))
        fleet.advance(0)
        expect(fleet.jobs.size).toBe(Math.min(asked, devices))
      }),
    )
  })

  it('are a plan’s view: idle devices that are alike are one entry, busy ones are apart', () => {
    const fleet = new CheckedFleet()
    for (const device of names) {
      fleet.feed({ kind: 'measured', device, speeds: [speed] })
      fleet.setPresence(device, true)
    }
    expect(fleet.scheduler.view(0).devices).toMatchObject([{ device: 'a', count: 3, busyS: 0 }])
    fleet.ask('x')
    fleet.advance(0)
    const [busy, idle] = fleet.scheduler.view(0).devices
    expect([busy, idle]).toMatchObject([{ device: 'a' }, { device: 'b', count: 2, busyS: 0 }])
    expect(busy!.busyS).toBeGreaterThan(1)
  })

  it('order models by ability while all abilities count, and devices by their least able model', () => {
    const fleet = new CheckedFleet()
    const small = { ...speed, model: 's', tpotS: 0.5 }
    fleet.feed({ kind: 'measured', device: 'a', speeds: [small, { ...speed, model: 'l', tpotS: 1 }] })
    fleet.setPresence('a', true)
    const models = () => fleet.scheduler.view(fleet.nowMs).devices[0]!.models.map(({ model, ability }) => [model, ability])
    const judge = (model: string, confidence: number) =>
      fleet.feed({ kind: 'ability', model, confidence, sentences: 8, ageMs: 0 })
    judge('s', 0.9)
    expect(models()).toEqual([
      ['s', 0.9],
      ['l', undefined],
    ])
    judge('l', 0.4)
    expect(models()).toEqual([
      ['l', 0.4],
      ['s', 0.9],
    ])
    fleet.nowMs += 31 * 60_000
    expect(models()).toEqual([
      ['s', undefined],
      ['l', undefined],
    ])
  })
})

describe('a device whose model writes rubbish', () => {
  const judge = (fleet: CheckedFleet, device: string, confidence: number) =>
    fleet.feed({ kind: 'ability', device, model: 'm', confidence, sentences: 8, ageMs: 0 })
  const able = (fleet: CheckedFleet) =>
    fleet.scheduler.view(fleet.nowMs).devices.map(({ device, models }) => [device, models[0]!.ability])

  it('gets nothing until what it has shown no longer counts; those with the same model keep their ability', () => {
    const fleet = new CheckedFleet()
    for (const device of names) {
      fleet.feed({ kind: 'measured', device, speeds: [speed] })
      fleet.setPresence(device, true)
    }
    judge(fleet, 'a', 0.025)
    judge(fleet, 'b', 0.9)
    judge(fleet, 'c', 0.9)
    const mean = (0.025 + 0.9 + 0.9) / 3
    const good = expect.closeTo((8 * 0.9 + 4 * mean) / 12)
    expect(able(fleet)).toEqual([['b', good]])
    expect(fleet.scheduler.view(0).devices[0]).toMatchObject({ count: 2 })
    for (const id of ['1', '2', '3']) fleet.ask(id)
    fleet.advance(0)
    expect([...fleet.jobs.values()].map(({ device }) => device)).toEqual(['b', 'c'])
    for (const job of fleet.jobs.values()) {
      fleet.write(job)
      fleet.end(job, 'succeeded')
    }
    fleet.nowMs += 31 * 60_000
    expect(able(fleet)).toEqual([
      ['a', undefined],
      ['b', undefined],
    ])
  })
})

describe('jobs of an earlier start', () => {
  it('go on while their device sends sentences, although its presence is not known yet', () => {
    const fleet = new CheckedFleet()
    const job = { kind: 'adopt', job: 'q1', device: 'a', size: 1, expected: 3, isDispatched: true, received: [] } as const
    fleet.feed(job)
    fleet.missing.set('x', new Set(['0/0', '1/0', '2/0']))
    const sketch = { lines: 3, sentences: [0, 1, 2], candidates: 1, expectedTokens: 100, bytes: 100 }
    const places = [{ job: 'q1', sketch: 0 }]
    fleet.feed({ kind: 'begin', id: 'x', client: '', places, arrived: [], deadlineMs: 20_000, ...sketch })
    for (const sentence of [0, 1, 2]) {
      fleet.advance(2_000)
      fleet.feed({ kind: 'sentence', job: 'q1', sketch: 0, sentence, candidate: 0 })
    }
    expect(fleet.ends.get('x')).toBe('done')
  })

  it('go on with the answers that come back, and are canceled after the grace time without', () => {
    const fleet = new CheckedFleet()
    const jobOf = (job: string, device: string) =>
      fleet.feed({
        ...{ kind: 'adopt', job, device, size: 1, expected: 3, isDispatched: true },
        received: [{ sketch: 0, sentence: 1, candidate: 0 }],
      })
    jobOf('q1', 'a')
    jobOf('q2', 'b')
    fleet.setPresence('a', true)
    fleet.missing.set('x', new Set(['0/0', '2/0']))
    const sketch = { lines: 3, sentences: [0, 1, 2], candidates: 1, expectedTokens: 100, bytes: 100 }
    const places = [{ job: 'q1', sketch: 0 }]
    fleet.feed({ kind: 'begin', id: 'x', client: '', places, arrived: [[1, 0]], deadlineMs: 20_000, ...sketch })
    fleet.advance(9_000)
    expect(fleet.actions).toEqual([])
    fleet.advance(2_000)
    expect(fleet.actions).toEqual([{ kind: 'cancel', job: 'q2' }])
    for (const sentence of [0, 2]) fleet.feed({ kind: 'sentence', job: 'q1', sketch: 0, sentence, candidate: 0 })
    expect(fleet.ends.get('x')).toBe('done')
  })
})
