import { expect, it } from 'vitest'
import { resultText } from '../../../cloud-bridge/commands/job/result.ts'

const speeds = { modelId: 'a'.repeat(64), ttftMs: 41.26, tpotMs: 12, prefillTokensPerS: 1_551, decodeTokensPerS: 83.3 }

it('a profile is a table of models', () => {
  const profile = {
    measuredAt: '2026-05-01T12:00:00.000Z',
    promptTokens: 64,
    answerTokens: 32,
    llm: { ...speeds, model: 'qwen' },
    slm: null,
    models: [{ ...speeds, model: 'tiny', decodeTokensPerS: 160, c: 0.512 }],
    unfit: [{ model: 'large', modelId: 'b'.repeat(64), code: 'OUT_OF_MEMORY' }],
  }
  expect(resultText('profile', profile).split('\n')).toEqual([
    'MODEL                   TTFT   PROMPT         ANSWER        TIME/LLM',
    'qwen (with the bridge)  41 ms  1.6k tokens/s  83 tokens/s   -',
    'tiny                    41 ms  1.6k tokens/s  160 tokens/s  0.51',
    'large cannot be opened on this device: OUT_OF_MEMORY',
    'measured 2026-05-01T12:00:00.000Z with a prompt of 64 tokens and an answer of 32',
  ])
})

it('an installation names the model, its size and the parts that passed the self-test', () => {
  const modelId = 'c'.repeat(64)
  const probes = ['input', 'output'].map((part) => ({ part, error: 0, tolerance: 0.01, passed: true }))
  const installed = { modelId, wasInstalled: false, name: 'tiny', bytes: 3 << 20, fetchedBytes: 1 << 20, tookMs: 2_100, probes }
  expect(resultText('bundle.install', installed).split('\n')).toEqual([
    `installed tiny in 2s: model ${modelId}`,
    '3.0 MiB of files, 1.0 MiB of them downloaded',
    'self-test passed: input, output',
  ])
  expect(resultText('bundle.install', { modelId, wasInstalled: true })).toBe(
    `already installed, and its files are intact: model ${modelId}`,
  )
})

it('an answer is its text, and a result of a newer device is JSON', () => {
  expect(resultText('slm.generate', { text: 'Yes.', tokens: 2 })).toBe('Yes.')
  expect(resultText('profile', { llm: 'new' })).toBe('{"llm":"new"}')
  expect(resultText('a.new.kind', [1])).toBe('[1]')
})
