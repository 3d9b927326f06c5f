import { afterEach, describe, expect, it } from 'vitest'
import { readBridgeConfig } from '../../../cloud-bridge/config.ts'
import type { BridgeLimits } from '../../../cloud-bridge/limits.ts'
import { createBridgeMetrics } from '../../../cloud-bridge/metrics/bridge-metrics.ts'
import { openSketching } from '../../../cloud-bridge/parts/sketching.ts'
import type { AnswerRequest, Endpoint, TextDelta } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import type { PicePrompts } from '../../../core/answer/sketch/prompts.ts'
import { createClosers } from '../../../core/kit/base/closers.ts'
import { readerRates } from '../../../core/kit/base/reader-rates.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { type ExpansionRun, openExpansionWorld } from '../../support/expansion-world.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { type Call, type Reply, scriptedLlm } from '../../support/scripted-llm.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const prompts: PicePrompts = {
  foresight: 'How long?',
  foresightUnit: 'tokens',
  sketch: 'Sketch {level}.',
  sketchShares: [0.4],
  expand: 'Sketch:\n{sketch}\n\nWrite:\n{line}',
  expandNext: 'Write:\n{line}',
}
const sketch = ['keys, table', 'dog, garden', 'rain, evening']
const kindOf = ({ instruction }: Call) =>
  instruction === ''
    ? 'full'
    : instruction === prompts.foresight
      ? 'foresight'
      : instruction.startsWith('Sketch ')
        ? 'sketch'
        : 'line'
const replies: Record<ReturnType<typeof kindOf>, Reply> = {
  foresight: { pieces: ['1', '20'] },
  sketch: { pieces: sketch.map((line) => `${line}\n`) },
  line: { pieces: ['By', ' the', ' LLM.'] },
  full: { pieces: ['A', ' full', ' answer.'] },
}

/** Of the LLM, as the bridge measures them: 120 tokens take 12 s, and a sketch with its slack, of 58 tokens, 5.8 s. */
const tokenMs = 100
const fullS = 12
const sketchS = 5.8

const dir = fresh(tempDir)
let close: () => Promise<void>
afterEach(() => close())

/** What a bridge plans and sketches with, around an LLM whose tokens take their time and devices that the test plays. */
async function world(
  limits: Partial<BridgeLimits> = {},
  reply: (call: Call) => Reply | 'waits' = (call) => replies[kindOf(call)],
) {
  const clock = fakeClock(1_000_000)
  const fleet = openExpansionWorld(dir.path, clock, limits)
  const closers = createClosers()
  close = async () => {
    await closers.closeAll()
    await fleet.close()
  }
  const config = readBridgeConfig({ stateDir: dir.path, limits, upstream: { url: 'http://127.0.0.1:9/v1', model: 'llm' } })
  const metrics = createBridgeMetrics(5)
  const llm = scriptedLlm(reply)
  /** Before the first token of a foresight. */
  let foresightMs = 0
  const timed: Endpoint = {
    model: llm.model,
    async *answer(...args) {
      const at = llm.calls.length
      let isFirst = true
      for await (const delta of llm.answer(...args)) {
        if (isFirst && kindOf(llm.calls[at]!) === 'foresight') await clock.advance(foresightMs)
        isFirst = false
        if ('text' in delta && delta.tokenCount > 0) await clock.advance(tokenMs)
        yield delta
      }
    },
  }
  const sketching = openSketching({ config, clock, closers, logger: silentLogger(), metrics }, fleet)(
    timed,
    prompts,
    (endpoint) => endpoint,
  )
  const { endpoint } = sketching.sketching
  const answer = (more: Partial<AnswerRequest>, signal: AbortSignal) => {
    const prompt = new Prompt({ kind: 'chat', messages: [{ role: 'user', content: 'How do I bake bread?' }] })
    return endpoint.answer({ prompt, sampling: greedy, stop: [], client: 'c', mode: 'auto', ...more }, signal)
  }
  /** An answer; `ended` has its text and its last figures. */
  function ask(more: Partial<AnswerRequest> = {}) {
    const stop = new AbortController()
    const ended = (async () => {
      let text = ''
      let last: TextDelta | undefined
      for await (const delta of answer(more, stop.signal)) {
        last = delta as TextDelta
        text += last.text
      }
      return { text, figures: last!.pice!() }
    })()
    // One that the test leaves.
    ended.catch(() => {})
    return { ended, stop: () => stop.abort() }
  }
  // The LLM's speed is known from here on.
  expect((await ask({ tokensPerS: 5 }).ended).figures.reason).toBe('no-device')
  return {
    clock,
    fleet,
    ask,
    calls: llm.calls,
    /** The LLM names lengths so much later. */
    delayForesight: (ms: number) => {
      foresightMs = ms
    },
    connect(device: string, model: { readonly ttftMs: number; readonly tpotMs: number }) {
      fleet.profiles.onProfile(device, { measuredAt: '2026-05-04T09:30:00.125Z', models: [{ model: 'slm', ...model }] })
      fleet.connect(device)
    },
    async run(at: number): Promise<ExpansionRun> {
      await expect.poll(() => fleet.runs.length).toBeGreaterThan(at)
      return fleet.runs[at]!
    },
  }
}

describe('a planned answer', () => {
  it.each([
    [10, 'sketch', sketchS + 0.01 + 119 * 0.01],
    [50, 'sketch', sketchS + 0.01 + 119 * 0.05],
    [60, 'full', sketchS + 0.01 + 119 * 0.06],
  ] as const)(
    'of a device with %i ms per token is %s, by the time that its expansion takes',
    async (tpotMs, mode, predictedS) => {
      const w = await world()
      w.connect('a', { ttftMs: 10, tpotMs })
      const { ended } = w.ask()
      if (mode === 'sketch') w.fleet.succeed(await w.run(0))
      else await expect.poll(() => w.calls.slice(2).map(kindOf)).toContain('full')
      const { figures } = await ended
      expect(figures).toMatchObject({ mode, reason: mode === 'full' ? 'latency' : null })
      if (mode === 'sketch')
        expect([figures.fullS, figures.predictedS]).toEqual([expect.closeTo(fullS), expect.closeTo(predictedS)])
    },
  )

  it('counts the queue at the LLM as long as its own wait for its length was', async () => {
    const w = await world({}, (call) => (call.request.client === 'waiting' ? 'waits' : replies[kindOf(call)]))
    // Beside a queue of 2.1 s, two more seconds for other answers are worth it.
    w.connect('a', { ttftMs: 8_000, tpotMs: 20 })
    const other = w.ask({ client: 'waiting' })
    await expect.poll(() => w.calls.at(-1)?.request.client).toBe('waiting')
    w.delayForesight(1_000)
    expect((await w.ask({ tokensPerS: 1_000 }).ended).figures).toMatchObject({ mode: 'full', reason: 'latency' })
    w.delayForesight(4_000)
    const { ended } = w.ask({ tokensPerS: 1_000 })
    w.fleet.succeed(await w.run(0))
    expect((await ended).figures).toMatchObject({ mode: 'sketch', reason: null })
    other.stop()
  })

  it('gives its expansion little more than the predicted time where other answers wait', async () => {
    const w = await world({ waitingExpansionsPerDevice: 4 })
    w.connect('a', { ttftMs: 10, tpotMs: 10 })
    w.fleet.expand('one')
    await w.run(0)
    w.fleet.expand('two')
    const { ended } = w.ask()
    await expect.poll(() => w.calls.map(kindOf)).toContain('sketch')
    for (const at of [0, 1, 2]) w.fleet.succeed(await w.run(at))
    await ended
    expect(w.fleet.runs[2]!.input.sketches[0]!.budgetMs).toBeCloseTo(1.5 * (10 + 119 * 10))
  })

  it('is paced to its reader where it is full; what the LLM writes of a sketched one is not, nor waits longer than the limit', async () => {
    const w = await world({ expansionS: 3 })
    expect(w.calls.map((call) => [kindOf(call), call.request.tokensPerS])).toEqual([
      ['foresight', readerRates.max],
      ['full', 5],
    ])
    w.connect('a', { ttftMs: 10, tpotMs: 10 })
    const { ended } = w.ask({ mode: 'sketch', tokensPerS: 5 })
    const run = await w.run(0)
    w.fleet.begin(run)
    w.fleet.sentence(run, 0, 1)
    await w.clock.advance(2_900)
    expect(w.calls).toHaveLength(4)
    await w.clock.advance(200)
    await expect.poll(() => w.calls.slice(4).map(kindOf)).toEqual(['line', 'line'])
    expect(await ended).toMatchObject({ figures: { reason: 'expansion', expandedSentences: 1, completedSentences: 2 } })
    const rest = (['foresight', 'sketch', 'line', 'line'] as const).map((kind) => [kind, readerRates.max])
    expect(w.calls.slice(2).map((call) => [kindOf(call), call.request.tokensPerS])).toEqual(rest)
  })
})
