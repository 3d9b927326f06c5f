import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Random, seededRandom } from '../../../../core/kit/base/random.ts'
import { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import type { Guess } from '../../../../core/policy/hat/draft-chain.ts'
import { HatMachine } from '../../../../core/policy/hat/hat-machine.ts'
import type { HatAction, HatConditions, HatEvent, HatRules } from '../../../../core/policy/hat/hat-steps.ts'

type ActionOf<Kind extends HatAction['kind']> = Extract<HatAction, { kind: Kind }>

const conditions: HatConditions = {
  chunkTokens: 8,
  frameTokens: 32,
  draftLimit: 8,
  mayDraftAhead: true,
  upBytesPerS: 1e6,
  downBytesPerS: 1e6,
  rttS: 0.01,
  cloudS: 0.005,
}
const rules: HatRules = {
  promptTokens: 3,
  maxTokens: 100,
  contextLimit: 256,
  prefill: 'chunked',
  draftsTrees: false,
  draftLimit: 2,
  threshold: 0.6,
  draftAhead: true,
  bytesPerToken: 1_000,
}
const sure: Guess = { source: 'adapter', probability: 1, endsText: false, alternatives: [] }

/** A machine with its answer's first token delivered, whose computations each take `stepMs`. */
function answering(overrides: Partial<HatRules> = {}, stepMs = 4, speed = new DeviceSpeed()) {
  const machine = new HatMachine({ ...rules, ...overrides })
  let nowMs = 0
  const speeds: ActionOf<'measured'>['steps'][] = []
  const tell = (event: HatEvent) => {
    const { draftStepS, aheadStepS } = speed
    const actions = machine.handle({ ...event, conditions: { ...conditions, draftStepS, aheadStepS } }, nowMs)
    for (const action of actions) {
      if (action.kind !== 'measured') continue
      speeds.push(action.steps)
      speed.record(action.steps)
    }
    return actions
  }
  /** Computes what it is asked for, with a guess after each row, until it asks for nothing more. */
  const computeAll = (actions: readonly HatAction[], guess = sure): HatAction[] => {
    const all = [...actions]
    for (let last = all.at(-1); ; last = all.at(-1)) {
      nowMs += stepMs / 2
      if (last?.kind === 'feed') all.push(...tell({ kind: 'fed' }))
      else if (last?.kind === 'catchUp') all.push(...tell({ kind: 'caughtUp' }))
      else if (last?.kind === 'guess') all.push(...tell({ kind: 'guessed', guesses: last.after.map(() => [guess]) }))
      else if (last?.kind === 'exchange') all.push(...tell({ kind: 'sent' }))
      else return all
      if (all.at(-1) === last) return all
    }
  }
  const verify = (frame: number, path: readonly number[], continuedBy?: number) => {
    const sent = tell({ kind: 'replied', frame, rows: 1 + 2 })
    expect(sent.at(-1)).toMatchObject({ kind: 'accept' })
    return tell({ kind: 'accepted', acceptance: { path, tokens: path.length + 1, endsText: false, continuedBy } })
  }
  computeAll(tell({ kind: 'opened', held: 0 }))
  tell({ kind: 'replied', frame: 1, rows: 1 })
  tell({ kind: 'accepted', acceptance: { path: [], tokens: 1, endsText: false } })
  return { machine, tell, computeAll, verify, speeds }
}
const guesses = (actions: readonly HatAction[]) => actions.filter(({ kind }) => kind === 'guess').length

describe('drafting ahead in an answer', () => {
  it('takes the steps that fit into the expected round trip, and measures them', () => {
    // 10 + 3 + 5 + 3 ms, after two steps of the draft itself.
    for (const [stepMs, steps] of [
      [4, 5],
      [20, 1],
      [25, 0],
    ] as const) {
      const { tell, computeAll, speeds } = answering({}, stepMs)
      expect(guesses(computeAll(tell({ kind: 'taken' })))).toBe(2 + Math.min(steps, 3))
      const ahead = speeds.filter(({ of }) => of === 'ahead')
      if (steps > 0) expect(ahead.every(({ seconds }) => Math.abs(seconds - stepMs / 1_000) < 1e-9)).toBe(true)
      // Without a step its time would never be measured again.
      else expect(ahead).toEqual([{ of: 'ahead', count: 1, seconds: stepMs / 1_000 }])
    }
  })

  it('resumes after one slow step has made its estimate too high', () => {
    const speed = new DeviceSpeed()
    speed.recordAheadStep(0.004)
    for (let step = 0; step < 6; step++) speed.recordAheadStep(3)
    expect(speed.aheadStepS! * 1e3).toBeGreaterThan(21)
    const { machine, tell, computeAll, verify } = answering({}, 4, speed)
    let rounds = 0
    for (; machine.ahead.drafted === 0 && rounds < 40; rounds++) {
      computeAll(tell({ kind: 'taken' }))
      verify(2 + rounds, [])
    }
    expect(rounds).toBeGreaterThan(1)
    expect(machine.ahead.drafted).toBeGreaterThan(0)
  })

  it('begins the next draft with the prepared one, continues it, and counts it', () => {
    const { machine, tell, computeAll, verify, speeds } = answering()
    // Pending at row 3, drafted 4 and 5; ahead of them 6, which becomes pending, then 7 and 8.
    computeAll(tell({ kind: 'taken' }))
    expect(machine.ahead).toEqual({ drafted: 3, rounds: 0, tokens: 0 })
    expect(verify(2, [0, 1], 6)).toContainEqual({ kind: 'gather', keep: 9, rows: [] })
    expect(machine.verified).toBe(6)
    const next = tell({ kind: 'taken' })
    expect(machine.ahead).toEqual({ drafted: 3, rounds: 1, tokens: 2 })
    // Both tokens of the draft are there: it is sent at once, and no step of it is measured.
    expect(next.at(-1)).toMatchObject({ kind: 'exchange', from: 6, to: 9 })
    expect(speeds.at(-1)).toMatchObject({ of: 'ahead' })
  })

  it('drops prepared drafts that the verification contradicts, and tokens beyond the next round’s limit', () => {
    const { machine, tell, computeAll, verify } = answering()
    computeAll(tell({ kind: 'taken' }))
    expect(verify(2, [0])).toContainEqual({ kind: 'gather', keep: 5, rows: [] })
    expect(tell({ kind: 'taken' }).at(-1)).toMatchObject({ kind: 'feed', tokens: { of: 'pending' } })
    // With three tokens the answer is at its end before the second prepared token.
    const short = answering({ maxTokens: 1 + 3 + 2 })
    short.computeAll(short.tell({ kind: 'taken' }))
    short.verify(2, [0, 1], 6)
    const next = short.tell({ kind: 'taken' })
    expect(next[0]).toEqual({ kind: 'gather', keep: 8, rows: [] })
    expect(next.at(-1)).toMatchObject({ kind: 'exchange', from: 6, to: 8 })
    expect(machine.ahead.rounds).toBe(0)
  })

  it('keeps the branch of a correction, whose rows move behind the accepted ones', () => {
    const { tell, computeAll, verify } = answering()
    // Rows 4 and 5 have two alternatives each: those of the last are fed as 6 and 7; then 8, 9 and 10 follow 5, 6 and 7.
    const guess = { ...sure, alternatives: [false, false] }
    const actions = computeAll(tell({ kind: 'taken' }), guess)
    expect(actions).toContainEqual({
      kind: 'feed',
      tokens: {
        of: 'alternatives',
        alternatives: [
          { row: 5, rank: 0 },
          { row: 5, rank: 1 },
        ],
      },
      rows: 2,
      context: 5,
      parents: [4, 4],
    })
    expect(verify(2, [0], 7)).toContainEqual({ kind: 'gather', keep: 5, rows: [7, 10, 13] })
  })

  it('is left out where the drafter does not want it, or no row of the context is left', () => {
    const quiet = answering({ draftAhead: false })
    expect(guesses(quiet.computeAll(quiet.tell({ kind: 'taken' })))).toBe(2)
    const full = answering({ contextLimit: 8 })
    expect(guesses(full.computeAll(full.tell({ kind: 'taken' })))).toBe(2)
  })
})

describe('a prompt', () => {
  it('is computed chunk by chunk, each sent before the next is computed; the bridge’s own part of it is not sent', () => {
    const machine = new HatMachine({ ...rules, promptTokens: 45, bytesPerToken: 0 })
    let actions = machine.handle({ kind: 'opened', held: 40, conditions: { ...conditions, frameTokens: 30 } }, 0)
    const seen: unknown[] = []
    for (let at = 0; at < 20; at++) {
      const last = actions.at(-1)
      for (const action of actions) {
        if (action.kind === 'feed') seen.push(`feed ${action.context}+${action.rows}`)
        if (action.kind === 'exchange') seen.push(`send ${action.from}-${action.to}, ${action.returned} back`)
      }
      if (last?.kind === 'feed') actions = machine.handle({ kind: 'fed', conditions }, 10)
      else if (last?.kind === 'catchUp') actions = machine.handle({ kind: 'caughtUp', conditions }, 10)
    }
    expect(seen.slice(0, 4)).toEqual(['feed 0+30', 'feed 30+10', 'feed 40+5', 'send 40-45, 1 back'])
  })
})

/** What happens to an answer by chance: a device, a link that may break, and a bridge that may forget rows. */
class World {
  readonly machine: HatMachine
  readonly #random: Random
  readonly #rules: HatRules
  readonly #mayFail: boolean
  readonly rounds: ActionOf<'deliver'>[] = []
  isOver = false
  #isLost = false
  #nowMs = 0
  /** Rows of the device's stream, and those that the bridge has. */
  #rows = 0
  #held = 0
  #computing: HatAction | undefined
  #isReopening = false
  #inFlight: ActionOf<'exchange'>[] = []
  #asked: readonly number[] = []
  /** Nodes of the tree under verification. */
  #parents: readonly number[] = []

  constructor(random: Random, given: HatRules, mayFail: boolean) {
    this.machine = new HatMachine(given)
    this.#random = random
    this.#rules = given
    this.#mayFail = mayFail
  }

  run(): boolean {
    const held = Math.floor(this.#random.next() * this.#rules.promptTokens)
    this.#held = held
    this.#tell({ kind: 'opened', held })
    for (let events = 0; !this.isOver && !this.#isLost; events++) {
      expect(events).toBeLessThan(20_000)
      this.#happen()
    }
    return this.isOver
  }

  #tell(event: HatEvent): void {
    const { next } = this.#random
    const measured = { draftStepS: 0.001, aheadStepS: next() < 0.5 ? undefined : 0.002 }
    const actions = this.machine.handle({ ...event, conditions: { ...conditions, ...measured } }, this.#nowMs)
    const computations = actions.filter(({ kind }) => ['feed', 'catchUp', 'guess', 'guessTree', 'accept'].includes(kind))
    expect(computations.length).toBeLessThanOrEqual(1)
    if (computations.length > 0) expect([this.#computing, actions.at(-1)]).toEqual([undefined, computations[0]])
    for (const action of actions) this.#carryOut(action)
  }

  #carryOut(action: HatAction): void {
    switch (action.kind) {
      case 'exchange':
        expect(action.to).toBeLessThanOrEqual(this.#rows)
        expect(action.to).toBeGreaterThan(action.from)
        this.#inFlight.push(action)
        this.#tell({ kind: 'sent' })
        break
      case 'reopen':
        expect(this.#isReopening).toBe(false)
        this.#inFlight = []
        this.#isReopening = true
        return
      case 'lost':
        this.#isLost = true
        return
      case 'gather': {
        const { keep, rows } = action
        for (const row of rows) expect(row).toBeLessThan(this.#rows)
        expect(keep).toBeLessThanOrEqual(this.#rows)
        this.#rows = keep + rows.length
        return
      }
      case 'deliver':
        this.rounds.push(action)
        // Nothing is computed or sent while the reader takes it.
        expect([this.#inFlight, this.#computing]).toEqual([[], undefined])
        this.#tell({ kind: 'taken' })
        break
      case 'end':
        this.isOver = true
        return
      case 'measured':
        expect(action.steps.seconds).toBeGreaterThanOrEqual(0)
        return
      case 'report':
      case 'roundEnded':
        return
      default:
        if (action.kind === 'guess') this.#asked = action.after
        this.#computing = action
    }
  }

  /** The device finishes what it computes, or the bridge replies. */
  #happen(): void {
    this.#nowMs += this.#random.next() * 5
    const isCompute = this.#computing && (this.#random.next() < 0.6 || (this.#inFlight.length === 0 && !this.#isReopening))
    if (isCompute) return void this.#compute()
    if (this.#isReopening) {
      this.#isReopening = false
      this.#held = 0
      this.#tell({ kind: 'reopened' })
    } else {
      expect(this.#inFlight.length).toBeGreaterThan(0)
      this.#reply()
    }
  }

  #compute(): void {
    const action = this.#computing!
    const { next } = this.#random
    this.#computing = undefined
    switch (action.kind) {
      case 'feed':
        this.#rows += action.rows
        expect(this.#rows).toBeLessThanOrEqual(this.#rules.contextLimit)
        this.#tell({ kind: 'fed' })
        break
      case 'catchUp':
        this.#tell({ kind: 'caughtUp' })
        break
      case 'guess': {
        const guess = (): Guess => ({
          source: next() < 0.5 ? 'adapter' : 'lookup',
          probability: next(),
          endsText: next() < 0.02,
          alternatives: Array.from({ length: Math.floor(next() * 3) }, () => next() < 0.1),
        })
        const guessed = this.#asked.map(() => Array.from({ length: Math.floor(next() * 4) }, guess))
        this.#tell({ kind: 'guessed', guesses: guessed })
        break
      }
      case 'guessTree': {
        const parents: number[] = []
        const depths: number[] = []
        for (let node = 0; node < 12; node++) {
          const parent = Math.floor(next() * (node + 1)) - 1
          const depth = parent < 0 ? 1 : depths[parent]! + 1
          if (depth > action.maxDepth) break
          parents.push(parent)
          depths.push(depth)
        }
        this.#parents = parents
        this.#tell({ kind: 'guessedTree', parents })
        break
      }
      case 'accept': {
        // The bridge has computed these rows.
        expect(this.#held).toBe(action.position + action.rows)
        const path: number[] = []
        for (let node = 0; node < action.rows - 1; node++) {
          const parent = this.#rules.draftsTrees ? this.#parents[node]! : node - 1
          if (parent === (path.at(-1) ?? -1) && next() < 0.7) path.push(node)
        }
        const end = action.position + action.rows
        // Only one row beyond the draft is known to begin a branch: the first, after an accepted draft or in place of its last.
        const continuedBy = this.#rows > end && path.length >= action.rows - 2 && next() < 0.5 ? end : undefined
        const tokens = 1 + path.length
        this.#tell({ kind: 'accepted', acceptance: { path, tokens, endsText: next() < 0.01, continuedBy } })
        break
      }
      default:
        throw new Error(`${action.kind} is no computation`)
    }
  }

  #reply(): void {
    const frame = this.#inFlight.shift()!
    const chance = this.#mayFail ? this.#random.next() : 1
    if (chance < 0.04) return void this.#tell({ kind: 'failed', frame: frame.frame })
    if (chance < 0.08) this.#held = Math.floor(this.#held / 2)
    if (frame.from > this.#held) return void this.#tell({ kind: 'gap', frame: frame.frame, held: this.#held })
    this.#held = frame.to
    this.#tell({ kind: 'replied', frame: frame.frame, rows: frame.returned })
  }
}

describe('any answer', () => {
  const given = fc.record({
    seed: fc.integer(),
    mayFail: fc.boolean(),
    promptTokens: fc.integer({ min: 1, max: 100 }),
    maxTokens: fc.integer({ min: 1, max: 40 }),
    spare: fc.integer({ min: 0, max: 20 }),
    prefill: fc.constantFrom('chunked', 'whole', 'whole-all'),
    draftsTrees: fc.boolean(),
    draftLimit: fc.constantFrom(0, 1, 3, 8, Number.POSITIVE_INFINITY),
    draftAhead: fc.boolean(),
    tokensPerS: fc.constantFrom(undefined, 10),
  })

  it('comes to its end with every token, one computation at a time, within its context, whatever is lost', () => {
    fc.assert(
      fc.property(given, ({ seed, mayFail, spare, ...chosen }) => {
        const contextLimit = chosen.promptTokens + chosen.maxTokens + spare
        const world = new World(seededRandom(seed), { ...rules, ...chosen, contextLimit } as HatRules, mayFail)
        const isComplete = world.run()
        expect(isComplete || mayFail).toBe(true)
        const tokens = world.rounds.reduce((sum, round) => sum + round.tokens, 0)
        expect(tokens).toBeLessThanOrEqual(chosen.maxTokens)
        expect(tokens).toBe(world.machine.counters.tokens)
        for (const { accepted, drafted } of world.rounds) expect(accepted).toBeLessThanOrEqual(drafted)
        for (const { drafted } of world.rounds) expect(drafted).toBeLessThanOrEqual(Math.min(chosen.draftLimit, 8))
      }),
    )
  })
})
