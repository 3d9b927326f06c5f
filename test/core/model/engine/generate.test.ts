import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../core/kit/base/clock.ts'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { type GenerateRequest, type GenerationSummary, generate } from '../../../../core/model/engine/generate.ts'
import { openModel } from '../../../../core/model/engine/open-model.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { greedy } from '../../../../core/model/engine/sampler.ts'
import { loadTokenizer, type TextTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { fixtureDir, type OracleCase, readOracle } from '../../../oracle/fixtures.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const { cases } = readOracle('llama')
const oracle = cases[3] as OracleCase

const dir = shared(tempDir)
let runtime: Runtime
let chain: Chain
let tokenizer: TextTokenizer
/** Sequences that were created and not yet released. */
let open = 0
beforeAll(async () => {
  runtime = await openRuntime()
  await buildBundle({ checkpoint: fixtureDir('llama'), out: `${dir.path}/llama`, format: 'fp32' })
  chain = counted((await openModel(runtime, `${dir.path}/llama`, { parts: 'chain', threads: 1 })).chain({ cuts: 'full' }))
  tokenizer = await loadTokenizer(`${dir.path}/llama/tokenizer`)
})
afterAll(() => runtime.close())

describe('generating', () => {
  it('returns the same tokens for any chunk size of the prompt', async () => {
    for (const prefillChunk of [1, 7, oracle.promptIds.length, 1_000]) {
      const { tokens, summary } = await run({ maxTokens: 64, prefillChunk })
      expect(tokens).toEqual(oracle.continuation)
      expect(summary).toMatchObject({
        finishReason: 'length',
        promptTokens: oracle.promptIds.length,
        tokenIds: oracle.continuation,
      })
    }
  })

  it('returns the text of its tokens', async () => {
    const { text, summary } = await run({ maxTokens: 64 })
    const whole = tokenizer.decode(summary.tokenIds, { skipSpecialTokens: true })
    expect([text, `${text}\ufffd`]).toContain(whole)
    expect(text.length).toBeGreaterThan(20)
  })

  it('measures the time to the first text and the speed', async () => {
    const { summary } = await run({ maxTokens: 16 })
    expect(summary.ttftMs).toBeGreaterThan(0)
    expect(summary.tokensPerS).toBeGreaterThan(0)
    expect((await run({ maxTokens: 1 })).summary.tokensPerS).toBeNull()
  })

  it('ends at an end-of-text token', async () => {
    const eos = [oracle.continuation[9] as number]
    const end = oracle.continuation.indexOf(eos[0] as number) + 1
    const { summary } = await run({ eos })
    expect(summary).toMatchObject({ finishReason: 'stop', tokenIds: oracle.continuation.slice(0, end) })
  })

  it('ends before a stop string', async () => {
    const { text } = await run({ maxTokens: 64 })
    const stop = text.slice(30, 36)
    const stopped = await run({ maxTokens: 64, stop: [stop] })
    expect(stopped.text).toBe(text.slice(0, text.indexOf(stop)))
    expect(stopped.summary.finishReason).toBe('stop')
  })

  it('samples the same answer for the same seed and different ones for different seeds', async () => {
    const answer = async (seed: number) => (await run({ maxTokens: 24, sampling: { ...greedy, temperature: 0.8, seed } })).tokens
    const first = await answer(1)
    expect(await answer(1)).toEqual(first)
    expect(await answer(2)).not.toEqual(first)
    expect(first).not.toEqual(oracle.continuation.slice(0, 24))
  })

  it('fills the context without a limit', async () => {
    const { contextLimit } = chain.manifest.dims
    const promptIds = Array.from({ length: contextLimit - 5 }, (_, at) => at % 200)
    const { tokens, summary } = await run({ promptIds, eos: [] })
    expect(tokens).toHaveLength(5)
    expect(summary.finishReason).toBe('length')
  })

  it('returns token ids without a tokenizer', async () => {
    const events = generate(chain, undefined, { promptIds: oracle.promptIds, maxTokens: 8, sampling: greedy, clock: systemClock })
    expect((await drain(events)).tokens).toEqual(oracle.continuation.slice(0, 8))
  })
})

describe('an invalid request', () => {
  const long = Array.from({ length: 512 }, () => 5)
  it.each<[string, Partial<GenerateRequest>, string, RegExp]>([
    ['a prompt that fills the context', { promptIds: long }, 'CONTEXT_OVERFLOW', /512 tokens\).*context of 512/],
    ['an answer that would exceed it', { promptIds: long.slice(0, 500), maxTokens: 13 }, 'CONTEXT_OVERFLOW', /500 tokens.*13/],
    ['no prompt', { promptIds: [] }, 'REQUEST_INVALID', /no tokens/],
    ['a token beyond the vocabulary', { promptIds: [1, 512] }, 'REQUEST_INVALID', /512.*0 to 511/],
    ['max tokens 0', { maxTokens: 0 }, 'REQUEST_INVALID', /maximum number of tokens is 0/],
    ['a negative temperature', { sampling: { ...greedy, temperature: -1 } }, 'REQUEST_INVALID', /temperature is -1/],
    ['an empty stop string', { stop: [''] }, 'REQUEST_INVALID', /stop string/],
  ])('is rejected before any work: %s', async (_, request, code, message) => {
    const steps = stepsDone
    await expect(run(request)).rejects.toMatchObject({ code, message: expect.stringMatching(message) })
    expect(stepsDone).toBe(steps)
    expect(open).toBe(0)
  })
})

describe('cancelling', () => {
  it('stops within one step and releases the sequence', async () => {
    const cancel = new AbortController()
    const events = generate(chain, tokenizer, {
      promptIds: oracle.promptIds,
      sampling: greedy,
      signal: cancel.signal,
      clock: systemClock,
    })
    const tokens: number[] = []
    let summary: GenerationSummary | undefined
    for await (const event of events) {
      if (event.kind === 'end') summary = event.summary
      else if (tokens.push(event.token) === 3) cancel.abort()
    }
    expect(tokens).toEqual(oracle.continuation.slice(0, 3))
    expect(summary).toMatchObject({ finishReason: 'canceled', tokenIds: tokens })
    expect(open).toBe(0)
  })

  it('during a step discards the token of that step', async () => {
    const cancel = new AbortController()
    onStep = () => cancel.abort()
    const { tokens, summary } = await run({ signal: cancel.signal, prefillChunk: 4 })
    onStep = undefined
    expect(tokens).toEqual([])
    expect(summary).toMatchObject({ finishReason: 'canceled', ttftMs: null })
    expect(open).toBe(0)
  })

  it('by leaving the loop releases the sequence', async () => {
    for await (const event of generate(chain, tokenizer, { promptIds: [1, 2], sampling: greedy, clock: systemClock })) {
      expect(event.kind).toBe('token')
      break
    }
    expect(open).toBe(0)
  })
})

let stepsDone = 0
let onStep: (() => void) | undefined

/** The real chain, with a count of its steps and of the sequences in use. */
function counted(real: Chain): Chain {
  return {
    manifest: real.manifest,
    createSequence() {
      const sequence = real.createSequence()
      open++
      const release = sequence.release.bind(sequence)
      sequence.release = () => {
        open--
        release()
      }
      return sequence
    },
    step(items) {
      stepsDone++
      onStep?.()
      return real.step(items)
    },
  }
}

function run(request: Partial<GenerateRequest>) {
  return drain(generate(chain, tokenizer, { promptIds: oracle.promptIds, sampling: greedy, clock: systemClock, ...request }))
}

async function drain(events: ReturnType<typeof generate>) {
  const tokens: number[] = []
  let text = ''
  for await (const event of events) {
    if (event.kind === 'end') return { tokens, text, summary: event.summary }
    tokens.push(event.token)
    text += event.text
  }
  throw new Error('no summary')
}
