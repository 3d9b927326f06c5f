import { afterAll, describe, expect, it } from 'vitest'
import type { Budget, BudgetAdmission, BudgetRequest } from '../../../agent/disco/budget.ts'
import type { DispatchConfig } from '../../../agent/disco/config.ts'
import { DispatchPlanner } from '../../../agent/disco/planner.ts'
import { SmallModelSlots } from '../../../agent/disco/small-model-slots.ts'
import { estimatesTable, StoredEstimates } from '../../../agent/disco/stored-estimates.ts'
import type { AnswerRequest, Endpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import type { TextModel } from '../../../core/answer/endpoint/text-model.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { DispatchMachine } from '../../../core/policy/disco/dispatch-machine.ts'
import type { TokenCosts } from '../../../core/policy/disco/state.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = tempDir()
afterAll(() => dir[Symbol.dispose]())
const store = openDatabase(`${dir.path}/agent.sqlite`, [estimatesTable])

const never = Number.POSITIVE_INFINITY
const { signal } = new AbortController()

/** Every word is a token. */
function model(name: string, contextLimit = 1_000): TextModel {
  async function encode({ text }: { text: string }) {
    const ids = text.split(' ').map(() => 1)
    if (ids.length <= contextLimit) return ids
    throw new BrimError('CONTEXT_OVERFLOW', `${name} cannot hold the prompt`)
  }
  const prompts = { encode, check: async () => {} }
  return {
    name,
    dims: { contextLimit, vocab: 10 },
    eos: [],
    tokenizer: {},
    prompts,
    tokenizerHash: 'same',
  } as unknown as TextModel
}

const endpoint = (of: TextModel | { name: string }, answer?: Endpoint['answer']): Endpoint => ({
  model: of as TextModel,
  answer: answer ?? (() => Promise.reject(new Error('not asked')) as never),
})

const notStarted = () => {
  throw new Error('not started')
}
const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ')
const request = (more: Partial<AnswerRequest> & { promptTokens?: number } = {}): AnswerRequest => ({
  prompt: new Prompt({ kind: 'text', text: words(more.promptTokens ?? 10) }),
  sampling: { temperature: 0, topP: 1, topK: 0, seed: 1 },
  stop: [],
  client: 'app',
  ...more,
})

interface World {
  readonly config?: Partial<DispatchConfig>
  readonly only?: readonly ('hat' | 'slm' | 'server')[]
  readonly costs?: Partial<Record<'slm' | 'hat' | 'server', TokenCosts>>
  readonly urlServer?: boolean
  readonly admit?: (asked: BudgetRequest) => BudgetAdmission['sides']
  readonly slmContext?: number
  readonly serverContext?: number
}

function world({ config, only = ['hat', 'slm', 'server'], costs = {}, urlServer, admit, slmContext, serverContext }: World = {}) {
  store.exec('DELETE FROM dispatch_estimates')
  const estimates = new StoredEstimates(store, silentLogger())
  let finish = () => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const slm = endpoint(model('small', slmContext), async function* () {
    await finished
    yield undefined as never
  })
  const server = endpoint(urlServer ? { name: 'remote' } : model('large', serverContext))
  const asServer = { continues: true, pauses: true }
  const all = {
    hat: () => ({ ...asServer, spender: 'hat', name: 'hat', endpoint: endpoint(model('large')) }),
    slm: () => ({ ...asServer, spender: 'slm', model: 'small', endpoint: slm, prefillTokensPerS: 100 }),
    server: () => ({ ...asServer, continues: !urlServer, spender: 'server', name: 'server', endpoint: server }),
  }
  const asked: BudgetRequest[] = []
  let ended = 0
  const budget: Budget = {
    costs: (spender) => costs[spender],
    count() {},
    async admit(wanted) {
      asked.push(wanted)
      const sides = admit?.(wanted) ?? (Object.keys(wanted.sides) as BudgetAdmission['sides'])
      const costOf = () => ({ promptTokens: 0, tokens: 0, dollars: null })
      const exhausted = admit && 'spent'
      return { sides, exhausted, start: notStarted, costOf, end: () => void ended++ }
    },
  }
  const { mode = 'private', constrained = 'auto', share = 0.5, autoPatienceS = 10, tokensPerS = 5 } = config ?? {}
  const settings = { constrained, share, patienceMs: autoPatienceS * 1_000, tokensPerS, smallModelAnswers: 1 }
  const dispatch = new DispatchMachine(settings, estimates)
  const onUse = (isUsed: boolean) => void dispatch.handle({ kind: 'small model', isUsed }, 0)
  const slots = new SmallModelSlots({ slmAnswers: 1, slmWaiting: 1 }, onUse)
  const planner = new DispatchPlanner({
    mode,
    dispatch,
    machine: dispatch,
    clock: fakeClock(),
    slots,
    candidates: () => ({ hasServer: false, ...(Object.fromEntries(only.map((name) => [name, all[name]()])) as object) }),
    problem: () => new BrimError('MODEL_MISSING', 'no model is installed'),
    budget,
  })
  return { planner, estimates, slots, smallModel: dispatch.smallModel, asked, finish: () => finish(), ended: () => ended }
}

const plan = (of: World, more: Parameters<typeof request>[0]) => world(of).planner.plan(request(more), signal)
const names = (planned: Awaited<ReturnType<typeof plan>>) =>
  Object.fromEntries(Object.entries(planned.sides).map(([side, { endpoint }]) => [side, endpoint.model.name]))

describe('the sides of a mode', () => {
  it('private: HAT, and the small model only as the request allows', async () => {
    expect(names(await plan({}, {}))).toEqual({ remote: 'large' })
    const allowed = await plan({}, { fallback: 'slm' })
    expect(names(allowed)).toEqual({ local: 'small', remote: 'large' })
    expect(allowed).toMatchObject({
      mode: 'private',
      dispatch: { remote: 0, local: never },
      preferred: { side: 'remote', reason: 'return' },
      tokensPerS: 0,
    })
  })

  it('reserve nothing for a small model that starts only where HAT or the server is late', async () => {
    for (const mode of ['private', 'cloud'] as const) {
      const { planner, asked } = world({ config: { autoPatienceS: 3 } })
      const { dispatch } = await planner.plan(request({ mode, fallback: 'slm', tokensPerS: 5 }), signal)
      expect(dispatch).toEqual({ remote: 0, local: 3_000 })
      expect(asked[0]!.sides).toMatchObject({ local: { isBackup: true }, remote: { isBackup: false } })
    }
  })

  it('private and local never have the server, whatever else there is', async () => {
    for (const mode of ['private', 'local'] as const) {
      const { planner, asked } = world({ urlServer: true })
      const planned = await planner.plan(request({ mode, fallback: 'slm' }), signal)
      expect(Object.values(planned.sides).map(({ endpoint }) => endpoint.model.name)).not.toContain('remote')
      expect(Object.values(asked[0]!.sides).map(({ spender }) => spender)).not.toContain('server')
    }
  })

  it('local: the small model; cloud: the server, and the small model where it fails', async () => {
    const local = await plan({}, { mode: 'local' })
    expect([names(local), local.dispatch.local]).toEqual([{ local: 'small' }, 0])
    expect(names(await plan({ urlServer: true }, { mode: 'cloud' }))).toEqual({ remote: 'remote' })
    const cloud = await plan({ urlServer: true }, { mode: 'cloud', fallback: 'slm' })
    expect(cloud).toMatchObject({ dispatch: { remote: 0, local: never }, preferred: { side: 'remote', reason: 'return' } })
  })

  it('fast: both at once; without --server HAT takes its place', async () => {
    const planned = await plan({ only: ['hat', 'slm'] }, { mode: 'fast' })
    expect(names(planned)).toEqual({ local: 'small', remote: 'large' })
    expect(planned.dispatch).toEqual({ local: 0, remote: 0 })
    expect(planned.preferred).toBeUndefined()
  })

  it('cheap: the side that costs less for this request; the other only where it fails', async () => {
    const costs = { slm: { prompt: 1, output: 10 }, server: { prompt: 5, output: 1 } }
    const short = { mode: 'cheap', maxTokens: 1, promptTokens: 100 } as const
    expect((await plan({ costs }, short)).dispatch).toEqual({ local: 0, remote: never })
    expect((await plan({ costs }, { ...short, promptTokens: 2, maxTokens: 100 })).dispatch).toEqual({ local: never, remote: 0 })
    expect((await plan({}, short)).dispatch).toEqual({ local: 0, remote: never })
    const { planner, asked } = world({ costs })
    await planner.plan(request(short), signal)
    expect(asked[0]!.sides).toMatchObject({ local: { isBackup: false }, remote: { isBackup: true } })
  })

  it.each([
    ['cloud', ['hat', 'slm'], /needs a server/],
    ['local', ['hat', 'server'], /needs a small model/],
    ['auto', [], /needs a small model, a server or HAT/],
    ['fast', ['slm'], /needs a server/],
    ['cheap', ['slm'], /needs a server/],
  ] as const)('%s with %j alone is refused by name', (mode, only, message) => {
    const { planner } = world({ only })
    expect(() => planner.check(request({ mode }))).toThrow(message)
    expect(() => planner.check(request({ mode }))).toThrow(
      expect.objectContaining({ param: 'brim.mode', hint: expect.any(String) }),
    )
  })

  it('private without a split model waits for one', () => {
    expect(() => world({ only: ['slm', 'server'] }).planner.check(request())).toThrow(
      expect.objectContaining({ code: 'MODEL_MISSING' }),
    )
  })
})

describe('auto', () => {
  const cheapDevice = { slm: { prompt: 1, output: 1 }, server: { prompt: 5, output: 5 } }
  const cheapServer = { slm: { prompt: 5, output: 5 }, server: { prompt: 1, output: 1 } }

  it('limits the dearer side, or the one that the owner names', async () => {
    expect((await plan({ costs: cheapDevice }, { mode: 'auto' })).constrained).toBe('remote')
    expect((await plan({ costs: cheapServer }, { mode: 'auto' })).constrained).toBe('local')
    expect((await plan({ costs: cheapServer, config: { constrained: 'server' } }, { mode: 'auto' })).constrained).toBe('remote')
    expect((await plan({}, { mode: 'auto' })).constrained).toBe('remote')
    const withHat = { costs: cheapServer, only: ['hat', 'slm'] as const }
    expect((await plan(withHat, { mode: 'auto' })).constrained).toBe('remote')
  })

  it('answers short prompts on the device alone, long ones on both, where the server is limited', async () => {
    const { planner } = world({ costs: cheapDevice, config: { share: 0.5, mode: 'auto' } })
    const atServer: number[] = []
    for (let at = 0; at < 200; at++) {
      const promptTokens = at % 2 === 0 ? 10 : 90
      const planned = await planner.plan(request({ promptTokens }), signal)
      expect([planned.dispatch.local, planned.dispatch.remote % 10_000]).toEqual([0, 0])
      if (planned.dispatch.remote === 0) {
        atServer.push(promptTokens)
        planned.learn.started('remote')
      }
      planned.ended(10)
    }
    // Half of the 10,000 tokens, although the long prompts alone are nine tenths.
    expect(new Set(atServer)).toEqual(new Set([90]))
    expect(atServer.length).toBeGreaterThan(48)
    expect(atServer.length).toBeLessThanOrEqual(56)
    const { planner: richer } = world({ costs: cheapDevice, config: { share: 0.95, mode: 'auto' } })
    for (let at = 0; at < 100; at++) (await richer.plan(request({ promptTokens: at % 2 ? 90 : 10 }), signal)).ended(10)
    expect((await richer.plan(request({ promptTokens: 90 }), signal)).dispatch).toEqual({ local: 0, remote: 0 })
  })

  it('starts a limited server for prompts on which the device would try a reader’s patience, which reserves nothing before', async () => {
    // The small model reads 100 tokens per second.
    const asking = { costs: cheapDevice, config: { share: 0.1, mode: 'auto', autoPatienceS: 3 } } as const
    const { planner, asked } = world(asking)
    const serverAt = async (promptTokens: number) => (await planner.plan(request({ promptTokens }), signal)).dispatch.remote
    // Enough long ones that neither of the two is beyond the threshold.
    for (let at = 0; at < 20; at++) (await planner.plan(request({ promptTokens: 900 }), signal)).ended(1)
    asked.length = 0
    expect([await serverAt(290), await serverAt(310)]).toEqual([3_000, 0])
    expect(asked.map(({ sides }) => sides.remote!.isBackup)).toEqual([true, false])
    const { planner: without } = world({ ...asking, config: { ...asking.config, share: 0 } })
    expect((await without.plan(request({ promptTokens: 900 }), signal)).dispatch.remote).toBe(never)
  })

  it('starts the device late on a slow server, where the device is limited, as the server is known', async () => {
    const only = ['slm', 'server'] as const
    const { planner, estimates } = world({ only, costs: cheapServer, config: { share: 0.05, mode: 'auto' } })
    const unknown = await planner.plan(request(), signal)
    expect(unknown.dispatch.local).toBeCloseTo(2_000)
    for (let ms = 1; ms <= 200; ms++) unknown.learn.firstToken('remote', ms * 3, 10)
    unknown.ended(5)
    const known = await planner.plan(request(), signal)
    expect(known.dispatch.remote).toBe(0)
    expect(known.dispatch.local).toBeGreaterThan(540)
    expect(known.dispatch.local).toBeLessThanOrEqual(600)
    expect(estimates.answerTokens.mean).toBe(5)
    expect(estimates.promptTokens.mean).toBeCloseTo(10)
  })

  it('prefers the side that decodes for less, once the answer has begun', async () => {
    expect((await plan({ costs: cheapServer }, { mode: 'auto' })).preferred).toEqual({ side: 'remote', reason: 'cost' })
    expect((await plan({ costs: cheapDevice }, { mode: 'auto' })).preferred).toEqual({ side: 'local', reason: 'cost' })
    expect((await plan({}, { mode: 'auto' })).preferred).toBeUndefined()
  })
})

describe('auto, where several ways are left', () => {
  const auto = { config: { mode: 'auto', share: 1, constrained: 'remote' } } as const
  const remoteOf = ({ sides }: Awaited<ReturnType<typeof plan>>) => sides.remote?.endpoint.model.name

  /** Asks many times; each way takes so long to its first token. */
  async function asked(of: World, ttftMs: Readonly<Record<string, number>>, more: Parameters<typeof request>[0] = {}) {
    const { planner } = world(of)
    const remotes: string[] = []
    for (let at = 0; at < 40; at += 1) {
      const planned = await planner.plan(request(more), signal)
      const remote = remoteOf(planned)!
      remotes.push(remote)
      planned.learn.started('remote')
      planned.learn.firstToken('remote', ttftMs[remote]!, planned.promptTokens)
      planned.ended(20)
    }
    return remotes
  }

  it('asks the server first, tries HAT, and keeps to the one that begins sooner', async () => {
    const slowServer = await asked({ ...auto, urlServer: true }, { remote: 3_000, large: 400 })
    expect(slowServer.slice(0, 2)).toEqual(['remote', 'large'])
    expect(new Set(slowServer.slice(2))).toEqual(new Set(['large']))
    const slowHat = await asked({ ...auto, urlServer: true }, { remote: 400, large: 3_000 })
    expect(new Set(slowHat.slice(2))).toEqual(new Set(['remote']))
  })

  it('takes the cheaper of two that begin as soon', async () => {
    const costs = { hat: { prompt: 1e-9, output: 1e-9 }, server: { prompt: 1e-6, output: 1e-6 } }
    const remotes = await asked({ ...auto, costs, urlServer: true }, { remote: 400, large: 410 })
    expect(new Set(remotes.slice(2))).toEqual(new Set(['large']))
  })

  it('leaves a way that fails, and comes back to it', async () => {
    const { planner } = world({ ...auto, urlServer: true })
    const remotes: (string | undefined)[] = []
    for (let at = 0; at < 24; at += 1) {
      const planned = await planner.plan(request(), signal)
      const remote = remoteOf(planned)
      remotes.push(remote)
      planned.learn.started('remote')
      if (remote === 'remote') planned.learn.failed('remote')
      else planned.learn.firstToken('remote', 500, 10)
      planned.ended(5)
    }
    expect(remotes[0]).toBe('remote')
    expect(remotes.filter((name) => name === 'remote').length).toBeLessThanOrEqual(4)
    expect(remotes.slice(1).includes('remote')).toBe(true)
  })

  it('private text goes to HAT and the small model alone, in any mode that allows it', async () => {
    for (const mode of ['auto', 'fast', 'cheap', 'private', 'local'] as const) {
      const { planner, asked: spending } = world({ urlServer: true })
      for (let at = 0; at < 12; at += 1) {
        const planned = await planner.plan(request({ mode, isPrivate: true }), signal)
        expect(Object.values(names(planned))).not.toContain('remote')
        planned.ended(5)
      }
      expect(spending.flatMap(({ sides }) => Object.values(sides).map(({ spender }) => spender))).not.toContain('server')
    }
    for (const mode of ['cloud', 'sketch'] as const)
      expect(() => world().planner.check(request({ mode, isPrivate: true }))).toThrow(
        expect.objectContaining({ param: 'brim.private' }),
      )
  })

  it('needs no small model', async () => {
    const planned = await plan({ ...auto, only: ['server', 'hat'] }, {})
    expect([names(planned), planned.dispatch.remote]).toEqual([{ remote: 'large' }, 0])
  })

  it('says what each way would take, and why it is not used', async () => {
    const { planner } = world({ ...auto, urlServer: true, costs: { server: { prompt: 1e-6, output: 2e-6 } } })
    const ways = (await planner.plan(request({ isExplained: true }), signal)).ways!
    expect(ways.map(({ way, isChosen }) => [way, isChosen])).toEqual([
      ['slm', true],
      ['server', true],
      ['hat', false],
    ])
    // 10 tokens at 100 a second, then 128 at 20; the server is unknown.
    expect(ways[0]).toMatchObject({ model: 'small', firstTextMs: 100, endMs: 6_500, dollars: null, reason: 'starts at once' })
    expect(ways[1]).toMatchObject({ firstTextMs: expect.closeTo(2_000, -2), dollars: expect.closeTo(10e-6 + 128 * 2e-6, 9) })
    const local = (await planner.plan(request({ mode: 'local', isExplained: true }), signal)).ways!
    expect(local.map(({ isChosen, reason }) => [isChosen, reason])).toEqual([
      [true, 'starts at once'],
      [false, 'the mode local asks the small model alone'],
      [false, 'the mode local asks the small model alone'],
    ])
    const alone = (await plan({ only: ['slm'] }, { mode: 'auto', isExplained: true })).ways!
    expect(alone.map(({ way, reason }) => [way, /start the agent with/.test(reason)])).toEqual([
      ['slm', false],
      ['server', true],
      ['hat', true],
    ])
    expect((await planner.plan(request(), signal)).ways).toBeUndefined()
  })
})

describe('what answers teach', () => {
  it('is how much of an answer is still to come, within its limit', async () => {
    const { planner } = world()
    ;(await planner.plan(request({ mode: 'fast' }), signal)).ended(40)
    const { expectedRemaining } = await planner.plan(request({ mode: 'fast', maxTokens: 30 }), signal)
    expect([expectedRemaining(0), expectedRemaining(20), expectedRemaining(30)]).toEqual([30, 10, 0])
    expect((await planner.plan(request({ mode: 'fast' }), signal)).expectedRemaining(25)).toBeCloseTo(15)
  })

  it('is stored after a few answers, for an agent that is killed', async () => {
    const { planner } = world()
    for (let at = 0; at < 8; at++) (await planner.plan(request({ mode: 'auto' }), signal)).ended(40)
    const { promptTokens, answerTokens } = new StoredEstimates(store, silentLogger())
    expect([promptTokens.mean, answerTokens.mean]).toEqual([expect.closeTo(10, 0), expect.closeTo(40, 0)])
  })
})

describe('what one side cannot do', () => {
  it('a text server gets no request that needs tokens', async () => {
    const needs = { mode: 'auto', tokenIds: true } as const
    expect(names(await plan({ urlServer: true, only: ['slm', 'server'] }, needs))).toEqual({ local: 'small' })
    expect(names(await plan({ urlServer: true }, needs))).toEqual({ local: 'small', remote: 'large' })
    expect(() => world({ urlServer: true }).planner.check(request({ ...needs, mode: 'cloud' }))).toThrow(/takes text/)
    expect(names(await plan({ urlServer: true }, { mode: 'auto' }))).toEqual({ local: 'small', remote: 'remote' })
  })

  it('a server that does not continue gets no answer that was begun', async () => {
    const begun = { answered: { text: 'The river' } }
    expect(() => world({ urlServer: true }).planner.check(request({ ...begun, mode: 'cloud' }))).toThrow(/takes text/)
    expect(() => world().planner.check(request({ ...begun, mode: 'cloud' }))).not.toThrow()
  })

  it('a prompt beyond one context is answered by the other side alone', async () => {
    const long = await plan({ slmContext: 50 }, { mode: 'auto', promptTokens: 100 })
    expect([names(long), long.dispatch.remote, long.promptTokens]).toEqual([{ remote: 'large' }, 0, 100])
    const other = await plan({ serverContext: 50 }, { mode: 'fast', promptTokens: 100 })
    expect([names(other), other.dispatch.local]).toEqual([{ local: 'small' }, 0])
    await expect(plan({ serverContext: 50, slmContext: 60 }, { mode: 'fast', promptTokens: 100 })).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
    })
  })

  it('a prompt that no tokenizer here reads has an estimated length', async () => {
    expect((await plan({ only: ['server'], urlServer: true }, { mode: 'cloud' })).promptTokens).toBe(13)
  })
})

describe('the small model holds one answer', () => {
  it('and the next ones go to the server, until it is free', async () => {
    const { planner, finish } = world({ config: { mode: 'fast' } })
    const first = await planner.plan(request(), signal)
    expect(first.dispatch).toEqual({ local: 0, remote: 0 })
    const second = await planner.plan(request(), signal)
    expect(second.dispatch).toEqual({ local: never, remote: 0 })
    expect(second.sides.local!.startMs(10)).toBe(never)
    // The device writes the first one.
    const writing = first.sides.local!.endpoint.answer(request(), signal)
    const token = writing.next()
    expect((await planner.plan(request(), signal)).dispatch.local).toBe(never)
    first.ended(3)
    expect((await planner.plan(request(), signal)).dispatch.local).toBe(never)
    finish()
    await token
    await writing.return(undefined)
    expect((await planner.plan(request(), signal)).dispatch.local).toBe(0)
  })

  it('is free again when the server has won, or the answer has ended', async () => {
    const { planner } = world({ config: { mode: 'fast' } })
    const first = await planner.plan(request(), signal)
    first.learn.firstToken('remote', 10, 10)
    const second = await planner.plan(request(), signal)
    expect(second.dispatch.local).toBe(0)
    second.ended(undefined)
    second.ended(undefined)
    expect((await planner.plan(request(), signal)).dispatch.local).toBe(0)
  })

  it('learns the time to its first token from starts that have not waited', async () => {
    const { planner, estimates, finish } = world({ config: { mode: 'local' } })
    const [first, second] = [await planner.plan(request(), signal), await planner.plan(request(), signal)]
    const start = ({ sides, learn }: typeof first) => {
      learn.started('local')
      return sides.local!.endpoint.answer(request(), signal).next()
    }
    const writing = [start(first), start(second)]
    second.learn.firstToken('local', 9_000, 10)
    expect(estimates.localTtft('small').line).toBeUndefined()
    first.learn.firstToken('local', 50, 10)
    expect(estimates.localTtft('small').line).toEqual({ slope: 5, intercept: 0 })
    const startMs = (name: string, prefillTokensPerS?: number) => estimates.local({ model: name, prefillTokensPerS }).startMs(20)
    expect([startMs('small'), startMs('other', 100), startMs('other')]).toEqual([100, 200, 400])
    finish()
    await writing[0]
  })

  it('others wait in a queue with an end', async () => {
    const { slots, smallModel } = world()
    const free = await slots.take(signal)
    const waiting = slots.take(signal)
    await expect(slots.take(signal)).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    expect(smallModel.isFree).toBe(false)
    free()
    ;(await waiting)()
    expect(smallModel.isFree).toBe(true)
  })
})

describe('the budget', () => {
  it('leaves out a side, and the other starts at once', async () => {
    const { planner, asked, ended, smallModel } = world({ config: { mode: 'auto' }, admit: () => ['remote'] })
    const planned = await planner.plan(request({ maxTokens: 20 }), signal)
    expect([planned.exhausted, smallModel.isFree]).toEqual(['spent', true])
    expect([names(planned), planned.dispatch.remote, planned.preferred]).toEqual([{ remote: 'large' }, 0, undefined])
    expect(asked[0]).toMatchObject({
      isAuto: true,
      promptTokens: 10,
      sides: {
        local: { spender: 'slm', isBackup: false, estimate: { promptTokens: 10, tokens: 20 } },
        remote: { spender: 'server' },
      },
    })
    planned.ended(3)
    expect(ended()).toBe(1)
    expect((await planner.plan(request(), signal)).dispatch.remote).toBe(0)
  })

  it('leaves out the server, and the device does not wait for it', async () => {
    const costs = { slm: { prompt: 5, output: 5 }, server: { prompt: 1, output: 1 } }
    const config = { mode: 'auto', share: 0.05 } as const
    expect((await plan({ costs, config }, {})).dispatch.local).toBeGreaterThan(0)
    const alone = await plan({ costs, config, admit: () => ['local'] }, {})
    expect([names(alone), alone.dispatch.local]).toEqual([{ local: 'small' }, 0])
  })

  it('does not keep the small model reserved where it refuses', async () => {
    const refuse = () => {
      throw new BrimError('BUDGET_EXHAUSTED', 'spent')
    }
    const { planner, smallModel } = world({ config: { mode: 'fast' }, admit: refuse })
    await expect(planner.plan(request(), signal)).rejects.toMatchObject({ code: 'BUDGET_EXHAUSTED' })
    expect(smallModel.isFree).toBe(true)
  })
})

describe('the rate of delivery', () => {
  it.each([
    ['auto', {}, 5],
    ['cheap', {}, 5],
    ['auto', { tokensPerS: 3 }, 3],
    ['auto', { tokensPerS: 0 }, 0],
    ['auto', { isWhole: true, tokensPerS: 3 }, 0],
    ['fast', {}, 0],
    ['fast', { tokensPerS: 7 }, 7],
    ['private', {}, 0],
    ['private', { tokensPerS: 7 }, 7],
  ] as const)('%s with %j: %d', async (mode, more, rate) => {
    expect((await plan({}, { mode, ...more })).tokensPerS).toBe(rate)
  })
})

describe('F of a server', () => {
  it('counts a start that was cut short as one that would have taken longer', async () => {
    const { planner, estimates } = world({ config: { mode: 'fast' } })
    const { learn } = await planner.plan(request(), signal)
    for (let ms = 1; ms <= 100; ms++) learn.firstToken('remote', ms * 10, 10)
    const next = await planner.plan(request(), signal)
    next.learn.canceled('remote', 500, 10)
    const ttft = estimates.remoteTtft('server')
    // Later samples count more: 40 of the 100, and 0.8 of the new one, as four in five of those above 500 ms.
    expect(1 - ttft.cdf(600)).toBeCloseTo(0.446, 3)
    next.learn.canceled('remote', 60_000, 10)
    expect(ttft.quantile(1)).toBeGreaterThanOrEqual(119_000)
  })

  it('begins with what the bridge announces, until there are own times', () => {
    const estimates = new StoredEstimates(store, silentLogger())
    const own = estimates.remoteTtft('new')
    const announced = estimates.remoteTtft('announced')
    for (let at = 0; at < 50; at++) announced.record(300)
    expect(estimates.remote({ name: 'new', announced }).ttftMs.quantile(0.9)).toBeCloseTo(300)
    for (let at = 0; at < 30; at++) own.record(900)
    expect(estimates.remote({ name: 'new', announced }).ttftMs.quantile(0.1)).toBeCloseTo(900)
  })

  it('does not wait ever longer for a server that has stopped answering, and waits again once it answers', async () => {
    const { planner, estimates } = world({
      config: { mode: 'auto', constrained: 'local', share: 0.05 },
      only: ['slm', 'server'],
    })
    for (let at = 0; at < 50; at++) estimates.remoteTtft('server').record(300 + at)
    const waits: number[] = []
    for (let at = 0; at < 30; at++) {
      const { dispatch, learn, ended } = await planner.plan(request(), new AbortController().signal)
      waits.push(dispatch.local)
      learn.canceled('remote', dispatch.local + 1_000, 10)
      ended(undefined)
    }
    expect(waits.slice(0, 3).every((ms) => ms > 300)).toBe(true)
    expect(new Set(waits.slice(3))).toEqual(new Set([0]))
    const { learn, ended } = await planner.plan(request(), new AbortController().signal)
    learn.firstToken('remote', 300, 10)
    ended(20)
    expect((await planner.plan(request(), new AbortController().signal)).dispatch.local).toBeGreaterThan(300)
  })

  it('has a longer tail than few starts show; a migration waits as long as nine of ten have taken', () => {
    const estimates = new StoredEstimates(store, silentLogger())
    const unknown = estimates.remote({ name: 'few' })
    expect([unknown.ttftMs.quantile(0.9), unknown.startMs(10)]).toEqual([2_000, 2_000])
    for (let at = 0; at < 4; at++) unknown.firstToken(300, 10)
    expect(unknown.startMs(10)).toBeCloseTo(300)
    const { ttftMs, startMs } = estimates.remote({ name: 'few' })
    expect([ttftMs.quantile(0.7), ttftMs.quantile(0.9), startMs(10)].map(Math.round)).toEqual([300, 600, 300])
  })
})
