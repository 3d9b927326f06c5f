import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { BridgeLimits } from '../../../cloud-bridge/limits.ts'
import { type ExpansionRun, type ExpansionWorld, openExpansionWorld } from '../../support/expansion-world.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { fresh } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = fresh(tempDir)
const clock = fresh(() => fakeClock(1_000_000))
let world: ExpansionWorld
beforeEach(() => {
  world = openExpansionWorld(dir.path, clock)
})
afterEach(() => world.close())

async function reopen(limits: Partial<BridgeLimits> = {}): Promise<void> {
  await world.close()
  world = openExpansionWorld(dir.path, clock, limits)
}
const runsAre = (count: number) => expect.poll(() => world.runs).toHaveLength(count)
/** An answer whose first sentence has come from device a. */
async function beginAtA() {
  world.connect('a')
  const answer = world.expand('x')
  await runsAre(1)
  world.begin(world.runs[0]!)
  world.sentence(world.runs[0]!, 0, 0)
  await expect.poll(answer.texts).toHaveLength(1)
  return answer
}
const turns = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
}
const prompts = (at: number) => world.runs[at]!.input.sketches.map((sketch) => sketch.prompt)

describe('the expansion of a sketch', () => {
  it('hands each sentence to its answer as it arrives, and ends with the last one', async () => {
    world.connect('a')
    const answer = world.expand('x')
    await runsAre(1)
    const run = world.runs[0]!
    expect(run).toMatchObject({ device: 'a', input: { sketches: [{ prompt: 'Question x?', sentences: [0, 1, 2] }] } })
    world.begin(run)
    world.sentence(run, 0, 2)
    await expect.poll(answer.texts).toEqual(['2: three by a'])
    world.sentence(run, 0, 2)
    world.sentence(run, 0, 0)
    await expect.poll(answer.texts).toEqual(['0: one by a', '2: three by a'])
    world.succeed(run)
    expect(await answer.ended).toBe('done')
    expect(answer.texts()).toEqual(['0: one by a', '1: two by a', '2: three by a'])
    expect(answer.got[0]).toMatchObject({ device: 'a', model: 'slm', candidate: 0 })
  })

  it('waits for all candidates of a sentence', async () => {
    world.connect('a')
    const answer = world.expand('x', { sketch: ['one'], candidates: 2 })
    await runsAre(1)
    world.begin(world.runs[0]!)
    world.sentence(world.runs[0]!, 0, 0, { candidate: 1 })
    await expect.poll(() => answer.got).toHaveLength(1)
    world.succeed(world.runs[0]!)
    expect(await answer.ended).toBe('done')
    expect(answer.got.map(({ candidate }) => candidate)).toEqual([1, 0])
  })

  it('gives sketches of like lengths to one device, and each idle device its share', async () => {
    await reopen({ waitingExpansionsPerDevice: 4 })
    world.connect('a')
    world.expand('first')
    await runsAre(1)
    for (const [id, expectedTokens] of [
      ['short-1', 50],
      ['long-1', 400],
      ['short-2', 60],
    ] as const)
      world.expand(id, { expectedTokens })
    await turns()
    expect(world.runs).toHaveLength(1)
    world.connect('b')
    await runsAre(2)
    expect(prompts(1)).toEqual(['Question short-1?', 'Question short-2?'])
    world.connect('c')
    await runsAre(3)
    expect(prompts(2)).toEqual(['Question long-1?'])
  })

  it('gives the sketches that wait at once to all idle devices', async () => {
    world.connect('a', 'b', 'c')
    for (const id of ['w', 'x', 'y']) world.expand(id)
    await runsAre(3)
    expect(new Set(world.runs.map(({ device }) => device))).toEqual(new Set(['a', 'b', 'c']))
  })

  it('takes sketches in order of arrival under static scheduling', async () => {
    await world.close()
    const limits = { waitingExpansionsPerDevice: 4, expansionsPerJob: 2 }
    world = openExpansionWorld(dir.path, clock, limits, { sketchPolicy: 'static' })
    world.connect('a')
    world.expand('first')
    await runsAre(1)
    for (const [id, expectedTokens] of [
      ['short-1', 50],
      ['long-1', 400],
      ['short-2', 60],
    ] as const) {
      world.expand(id, { expectedTokens })
      await clock.advance(1)
    }
    world.succeed(world.runs[0]!)
    await runsAre(2)
    expect(prompts(1)).toEqual(['Question short-1?', 'Question long-1?'])
  })

  it('leaves a sketch to the device that finishes it sooner, although that is busy', async () => {
    world.connect('slow', 'fast')
    const models = (tpotMs: number) => [{ model: 'slm', ttftMs: 10, tpotMs }]
    world.profiles.onProfile('slow', { measuredAt: '2026-05-04T09:30:00.125Z', models: models(100) })
    world.profiles.onProfile('fast', { measuredAt: '2026-05-04T09:30:00.125Z', models: models(1) })
    world.expand('x')
    await runsAre(1)
    world.begin(world.runs[0]!)
    world.expand('y')
    await turns()
    await clock.advance(200)
    world.succeed(world.runs[0]!)
    await runsAre(2)
    expect(world.runs.map(({ device }) => device)).toEqual(['fast', 'fast'])
  })

  it('refuses a sketch while as many wait as the limit allows', async () => {
    await reopen({ waitingExpansionsPerDevice: 1 })
    world.connect('a')
    world.expand('x')
    await runsAre(1)
    // Plans count on one; another may be written at the same time.
    const waiting = [world.expand('y'), world.expand('z')]
    await turns()
    expect(world.expander.view().waiting).toEqual(['y', 'z'].map((id) => ({ id, expectedTokens: 100, waitedS: 0 })))
    expect(await world.expand('w').ended).toBe('QUEUE_FULL')
    world.succeed(world.runs[0]!)
    await runsAre(2)
    world.succeed(world.runs[1]!)
    expect(await Promise.all(waiting.map(({ ended }) => ended))).toEqual(['done', 'done'])
  })

  it('gives each client its share of the places and of the devices, however many sketches another one has', async () => {
    await reopen({ waitingExpansionsPerDevice: 2, expansionsPerJob: 1 })
    world.connect('a')
    const ask = (id: string, client: string) => world.expand(id, {}, 60_000, client)
    ask('first', 'flood/1')
    await runsAre(1)
    const flood = [1, 2, 3, 4].map((at) => ask(`flood-${at}`, `flood/${at}`))
    await turns()
    expect(await ask('flood-5', 'flood/5').ended).toBe('QUEUE_FULL')
    for (const id of ['honest-1', 'honest-2']) ask(id, 'honest/')
    expect(await Promise.all([flood[2]!.ended, flood[3]!.ended])).toEqual(['QUEUE_FULL', 'QUEUE_FULL'])
    expect(await ask('honest-3', 'honest/').ended).toBe('QUEUE_FULL')
    for (let run = 1; run <= 4; run++) {
      world.succeed(world.runs[run - 1]!)
      await runsAre(run + 1)
      await turns()
    }
    expect([1, 2, 3, 4].flatMap(prompts)).toEqual(['flood-1', 'honest-1', 'flood-2', 'honest-2'].map((id) => `Question ${id}?`))
  })

  it('cancels the job once no answer needs it', async () => {
    world.connect('a')
    const first = world.expand('x')
    await runsAre(1)
    const [second, third] = [world.expand('y'), world.expand('z')]
    first.abort()
    expect(await first.ended).toBe('CANCELED')
    await expect.poll(() => world.canceled).toEqual([world.runs[0]!.job])
    await runsAre(2)
    second.abort()
    expect(await second.ended).toBe('CANCELED')
    await turns()
    expect(world.canceled).toHaveLength(1)
    world.succeed(world.runs[1]!)
    expect(await third.ended).toBe('done')
  })
})

describe('an expansion that fails', () => {
  it('is given to another device, which expands only what is missing', async () => {
    world.connect('a', 'b')
    const answer = world.expand('x')
    await runsAre(1)
    const [run] = world.runs
    world.begin(run!)
    world.sentence(run!, 0, 1)
    world.fail(run!)
    await runsAre(2)
    expect(world.runs[1]!.device).not.toBe(run!.device)
    expect(world.runs[1]!.input.sketches[0]!.sentences).toEqual([0, 2])
    world.succeed(world.runs[1]!)
    expect(await answer.ended).toBe('done')
    expect(answer.texts()).toHaveLength(3)
  })

  it.each<[string, (run: ExpansionRun) => unknown]>([
    ['has failed', (run) => world.fail(run)],
    ['has sent too little', (run) => world.report(run, { type: 'succeeded', result: { sentences: [], runs: [] } })],
  ])('is not given to a device that %s, not even after its rest, while another one is busy', async (_, fail) => {
    world.connect('a')
    world.expand('x')
    await runsAre(1)
    const [run] = world.runs
    world.connect('b')
    world.expand('y')
    await runsAre(2)
    world.begin(world.runs[1]!)
    fail(run!)
    await turns()
    await clock.advance(5_000)
    expect(world.runs).toHaveLength(2)
    world.succeed(world.runs[1]!)
    await runsAre(3)
    expect(world.runs[2]).toMatchObject({ device: 'b', input: { sketches: [{ prompt: 'Question x?' }] } })
  })

  it('is given to the same device only if there is no other, after a rest, and a limited number of times', async () => {
    world.connect('a')
    const answer = world.expand('x')
    for (let attempt = 1; attempt <= 3; attempt++) {
      await runsAre(attempt)
      world.fail(world.runs.at(-1)!)
      await expect.poll(() => world.store.find(world.runs.at(-1)!.job)?.state).toBe('CANCELED')
      await turns()
      expect(world.expander.view().devices).toEqual([])
      await clock.advance(5_000)
    }
    expect(await answer.ended).toBe('EXPANSION_FAILED')
    expect(world.runs).toHaveLength(3)
  })

  it('is tried alone if its batch was rejected', async () => {
    world.connect('a')
    const first = world.expand('first')
    await runsAre(1)
    const answers = [world.expand('x'), world.expand('y')]
    world.succeed(world.runs[0]!)
    await first.ended
    await runsAre(2)
    expect(prompts(1)).toHaveLength(2)
    world.connect('b', 'c')
    world.fail(world.runs[1]!, 'refused')
    await runsAre(4)
    expect([prompts(2), prompts(3)]).toEqual([['Question x?'], ['Question y?']])
    for (const run of world.runs.slice(2)) world.succeed(run)
    expect(await Promise.all(answers.map(({ ended }) => ended))).toEqual(['done', 'done'])
  })

  it('goes on at another device while its own is away, and takes what either sends first', async () => {
    const answer = await beginAtA()
    world.setState('a', 'lost')
    world.connect('b')
    await runsAre(2)
    expect(world.runs[1]).toMatchObject({ device: 'b', input: { sketches: [{ sentences: [1, 2] }] } })
    world.begin(world.runs[1]!)
    world.sentence(world.runs[1]!, 0, 1)
    await expect.poll(answer.texts).toHaveLength(2)
    world.connect('a')
    world.sentence(world.runs[0]!, 0, 2)
    expect(await answer.ended).toBe('done')
    expect(answer.texts()).toEqual(['0: one by a', '1: two by b', '2: three by a'])
    await expect.poll(() => world.canceled).toContain(world.runs[1]!.job)
  })

  it('goes on at a device whose agent was restarted', async () => {
    const answer = await beginAtA()
    world.setState('a', 'lost')
    world.connect('a')
    world.fail(world.runs[0]!, 'interrupted')
    await expect.poll(() => world.store.find(world.runs[0]!.job)?.state).toBe('QUEUED')
    await clock.advance(500)
    await runsAre(2)
    expect(world.runs[1]).toMatchObject({ job: world.runs[0]!.job, attempt: 2 })
    world.succeed(world.runs[1]!)
    expect(await answer.ended).toBe('done')
  })

  it('ends when all devices have gone, with what has arrived', async () => {
    world.connect('a', 'b')
    const answer = world.expand('x')
    await runsAre(1)
    world.begin(world.runs[0]!)
    world.sentence(world.runs[0]!, 0, 0)
    await expect.poll(answer.texts).toHaveLength(1)
    world.presence.publish({ kind: 'broker lost' })
    await clock.advance(2_000)
    expect(world.runs).toHaveLength(1)
    await clock.advance(2_000)
    expect(await answer.ended).toBe('EXPANSION_FAILED')
    expect(answer.texts()).toEqual(['0: one by a'])
    expect(await world.expand('y').ended).toBe('EXPANSION_FAILED')
  })

  it('ends at its deadline', async () => {
    world.connect('a')
    const answer = world.expand('x', {}, 4_000)
    await runsAre(1)
    world.begin(world.runs[0]!)
    await clock.advance(3_900)
    world.sentence(world.runs[0]!, 0, 0)
    await expect.poll(answer.texts).toHaveLength(1)
    await clock.advance(200)
    expect(await answer.ended).toBe('EXPANSION_FAILED')
    await expect.poll(() => world.canceled).toEqual([world.runs[0]!.job])
  })

  it('rests a device that lets the deadline pass, and none that has sent all but its result', async () => {
    world.connect('a')
    const late = world.expand('x', {}, 4_000)
    await runsAre(1)
    world.begin(world.runs[0]!)
    await clock.advance(4_100)
    expect(await late.ended).toBe('EXPANSION_FAILED')
    const next = world.expand('y')
    await turns()
    expect(world.runs).toHaveLength(1)
    await clock.advance(1_000)
    await runsAre(2)
    const [, run] = world.runs
    world.begin(run!)
    for (const sentence of [0, 1, 2]) world.sentence(run!, 0, sentence)
    expect(await next.ended).toBe('done')
    world.fail(run!, 'refused')
    await turns()
    world.expand('z')
    await runsAre(3)
  })

  it('is asked of another device if a device sends a sentence of another job, or an oversized one', async () => {
    world.connect('a', 'b', 'c')
    const answer = world.expand('x')
    await runsAre(1)
    world.begin(world.runs[0]!)
    world.sentence(world.runs[0]!, 0, 0)
    world.sentence(world.runs[0]!, 0, 7)
    await runsAre(2)
    world.begin(world.runs[1]!)
    world.sentence(world.runs[1]!, 0, 1, { text: 'x'.repeat(60_000) })
    world.succeed(world.runs[1]!)
    expect(await answer.ended).toBe('done')
    const third = world.expand('z', { sketch: ['y'.repeat(4_096)] })
    await runsAre(3)
    world.succeed(world.runs[2]!)
    await runsAre(4)
    third.abort()
    expect(await third.ended).toBe('CANCELED')
  })
})

describe('after a restart of the bridge', () => {
  it('an answer finds what was expanded for it, and its job', async () => {
    world.connect('a')
    const before = world.expand('x')
    await runsAre(1)
    const run = world.runs[0]!
    world.begin(run)
    world.sentence(run, 0, 1)
    await expect.poll(before.texts).toHaveLength(1)
    await reopen()
    const answer = world.expand('x')
    await expect.poll(answer.texts).toEqual(['1: two by a'])
    world.connect('a')
    await turns()
    expect(world.runs).toEqual([])
    world.succeed(run)
    expect(await answer.ended).toBe('done')
    await reopen()
    const again = world.expand('x')
    expect(await again.ended).toBe('done')
    expect(again.texts()).toEqual(answer.texts())
  })

  it('every one of 100 sketches that were out is expanded once, or fails with a reason', async () => {
    const limits = { waitingExpansionsPerDevice: 4 }
    await world.close()
    // It is killed: nothing closes it, and time stops for it.
    const killed = openExpansionWorld(dir.path, fakeClock(1_000_000), limits)
    const names = Array.from({ length: 25 }, (_, i) => `device-${i}`)
    killed.connect(...names)
    for (let i = 0; i < 100; i++) killed.expand(`answer-${i}`)
    await expect.poll(() => killed.runs).toHaveLength(25)
    for (const run of killed.runs) killed.begin(run)
    for (const run of killed.runs.slice(0, 10)) killed.sentence(run, 0, 1)
    for (const run of killed.runs.slice(0, 3)) killed.succeed(run)
    await expect.poll(() => killed.store.list({ state: 'SUCCEEDED', limit: 100 })).toHaveLength(3)

    world = openExpansionWorld(dir.path, clock, limits, { onRun: (run) => world.succeed(run) })
    const answers = Array.from({ length: 100 }, (_, i) => world.expand(`answer-${i}`))
    // Some devices have gone on, some do not come back.
    world.connect(...names.slice(0, 20))
    for (const run of killed.runs.filter(({ device }) => names.indexOf(device) < 15)) world.succeed(run)
    let ends: string[] = []
    void Promise.all(answers.map(({ ended }) => ended)).then((all) => {
      ends = all
    })
    for (let second = 0; second < 70 && ends.length === 0; second++) {
      await clock.advance(1_000)
      await turns()
    }
    expect(ends).toHaveLength(100)
    expect(ends.filter((end) => end !== 'done' && end !== 'EXPANSION_FAILED')).toEqual([])
    expect(ends.filter((end) => end === 'done').length).toBeGreaterThan(90)
    for (const [i, { got }] of answers.entries())
      if (ends[i] === 'done') expect(got.map(({ sentence }) => sentence).sort()).toEqual([0, 1, 2])
    await killed.close()
  })

  it('jobs whose answers do not come back are canceled after the grace time', async () => {
    world.connect('a')
    world.expand('x')
    await runsAre(1)
    const { job } = world.runs[0]!
    await reopen({ answerGraceS: 10 })
    await clock.advance(9_000)
    expect(world.store.find(job)?.state).not.toBe('CANCELED')
    await clock.advance(2_000)
    expect(world.store.find(job)?.state).toBe('CANCELED')
  })
})

describe('the view of the fleet', () => {
  const profile = {
    measuredAt: '2026-05-04T09:30:00.125Z',
    models: [
      { model: 'slm', ttftMs: 100, tpotMs: 20, loadMs: 900, parallel: [[4, 2]] },
      { model: 'larger', ttftMs: 200, tpotMs: 40 },
    ],
  }

  it('asks a device without a profile for one, once, and has what it measured', async () => {
    world.connect('a')
    expect(world.expander.view()).toEqual({ devices: [], waiting: [], unmeasured: 1 })
    world.expander.view()
    await expect.poll(() => world.profiled).toEqual(['a'])
    const [job] = world.store.list({ kind: 'profile', limit: 10 })
    world.report({ device: 'a', job: job!.id, attempt: 1, input: { sketches: [] } }, { type: 'succeeded', result: profile })
    await expect.poll(() => world.expander.view().devices).toHaveLength(1)
    expect(world.expander.view().devices[0]).toEqual({
      device: 'a',
      models: [
        { model: 'slm', loadS: 0.9, ttftS: 0.1, tpotS: 0.02, parallel: [[4, 2]], ability: undefined },
        { model: 'larger', loadS: 0, ttftS: 0.2, tpotS: 0.04, parallel: [], ability: undefined },
      ],
      current: undefined,
      busyS: 0,
      networkS: 0,
    })
    await reopen()
    world.connect('a')
    expect(world.expander.view().devices).toHaveLength(1)
    expect(world.profiled).toEqual([])
  })

  it.each(['auto', 'sketch'] as const)('has profiles before the first plan where the usual mode is %s', async (answerMode) => {
    await world.close()
    world = openExpansionWorld(dir.path, clock, {}, { answerMode })
    world.profiles.onProfile('known', profile)
    world.setState('draining', 'draining')
    world.connect('known', 'a')
    await expect.poll(() => world.profiled).toEqual(['a'])
  })

  it('asks for no profile before the first plan where answers are usually full, then for those of new devices, too', async () => {
    world.connect('a')
    await turns()
    expect(world.profiled).toEqual([])
    world.expander.view()
    world.connect('b')
    await expect.poll(() => world.profiled).toEqual(['a', 'b'])
  })

  it('is none of a device whose profile has impossible numbers, or of models that no profile names', async () => {
    world.connect('a', 'b')
    world.expander.view()
    await expect.poll(() => world.profiled).toHaveLength(2)
    world.expander.judge('a', 'slm', 0.1)
    const impossible = [{ tpotMs: 5e-324 }, { ttftMs: 1e308 }, { parallel: [[16, 1e308]] }, { tokensPerLlmToken: 1e-300 }]
    for (const { id, device } of world.store.list({ kind: 'profile', limit: 10 })) {
      const claims = device === 'a' ? impossible : [{}]
      const result = { ...profile, models: claims.map((claim) => ({ ...profile.models[0], ...claim })) }
      world.report({ device: device!, job: id, attempt: 1, input: { sketches: [] } }, { type: 'succeeded', result })
    }
    await expect.poll(() => world.expander.view().devices).toHaveLength(1)
    expect(world.expander.view().devices).toMatchObject([{ device: 'b', models: [{ model: 'slm', ability: undefined }] }])
  })

  it('has the budgets of what waits, how long devices accept sketches, and none that has just failed', async () => {
    world.profiles.onProfile('a', profile)
    world.connect('a')
    const answer = world.expand('x', { budgetMs: 5_000, candidates: 2 })
    expect(world.expander.view().waiting).toEqual([{ id: 'x', expectedTokens: 100, waitedS: 0, budgetS: 5 }])
    await runsAre(1)
    // 200 tokens of both candidates in 6 sequences, twice as fast together, after the model is open.
    expect(world.expander.view().devices[0]!.busyS).toBeCloseTo(0.9 + 0.1 + (199 * 0.02) / 2)
    await clock.advance(300)
    world.begin(world.runs[0]!)
    await expect.poll(() => world.expander.view().devices[0]!.networkS).toBeCloseTo(0.3)
    world.fail(world.runs[0]!)
    await expect.poll(() => world.expander.view().devices).toEqual([])
    answer.abort()
    await answer.ended
    await clock.advance(2_000)
    expect(world.expander.view().devices).toHaveLength(1)
  })

  it('corrects a profile by what the device expands, and orders its models by ability', async () => {
    world.connect('a')
    world.expander.view()
    await expect.poll(() => world.profiled).toEqual(['a'])
    const [job] = world.store.list({ kind: 'profile', limit: 10 })
    world.report({ device: 'a', job: job!.id, attempt: 1, input: { sketches: [] } }, { type: 'succeeded', result: profile })
    await expect.poll(() => world.expander.view().devices).toHaveLength(1)
    const answer = world.expand('x')
    await runsAre(1)
    expect(world.expander.view().devices[0]!.busyS).toBeGreaterThan(0.5)
    world.succeed(world.runs[0]!)
    await answer.ended
    await turns()
    const { models, current } = world.expander.view().devices[0]!
    expect(current).toBe('slm')
    expect(models[0]!.tpotS).toBeLessThan(0.02)
    world.expander.judge('a', 'slm', 0.9)
    world.expander.judge('a', 'slm', 0.5)
    world.expander.judge('a', 'larger', 0.4)
    expect(world.expander.view().devices[0]!.models.map(({ model, ability }) => [model, ability])).toEqual([
      ['larger', 0.4],
      ['slm', expect.closeTo(0.7)],
    ])
    await reopen()
    world.connect('a')
    expect(world.expander.view().devices[0]!.models[1]).toEqual(expect.objectContaining({ tpotS: models[0]!.tpotS }))
  })
})
