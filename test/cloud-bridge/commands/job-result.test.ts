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
    models: [
      {
        ...speeds,
        model: 'tiny',
        decodeTokensPerS: 160,
        c: 0.512,
        loadMs: 830.4,
        parallel: [
          [2, 1.6],
          [16, 3.42],
        ],
      },
    ],
    unfit: [{ model: 'large', modelId: 'b'.repeat(64), code: 'OUT_OF_MEMORY' }],
  }
  expect(resultText('profile', profile).split('\n')).toEqual([
    'MODEL                   TTFT   PROMPT         ANSWER        TIME/LLM  OPENING  TOGETHER',
    'qwen (with the bridge)  41 ms  1.6k tokens/s  83 tokens/s   -         -        -',
    'tiny                    41 ms  1.6k tokens/s  160 tokens/s  0.51      830 ms   3.4 × for 16',
    'large cannot be opened on this device: OUT_OF_MEMORY',
    'measured 2026-05-01T12:00:00.000Z with a prompt of 64 tokens and an answer of 32',
  ])
})

it('a profile of a device without the split model, or of an earlier release, shows what it has', () => {
  const profile = { measuredAt: '2026-05-01T12:00:00.000Z', promptTokens: 64, answerTokens: 128, unfit: [] }
  const rows = (fields: object) => resultText('profile', { ...profile, ...fields }).split('\n')
  expect(rows({ llm: null, models: [{ ...speeds, model: 'tiny', c: null, loadMs: 0, parallel: [] }] })[1]).toMatch(
    /^tiny +41 ms .* - +0 ms +-$/,
  )
  expect(rows({ llm: { ...speeds, model: 'qwen' }, models: [{ ...speeds, model: 'tiny', c: 0.5 }] })[2]).toMatch(/0\.50 +- +-$/)
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
