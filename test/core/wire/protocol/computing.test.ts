import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ProviderName, ShownComputing } from '../../../../core/wire/protocol/computing.ts'
import { DeviceState } from '../../../../core/wire/protocol/messages.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 2_000 }),
  // What is cut between the halves of a pair, and what reorders or hides text.
  fc
    .array(fc.constantFrom('😀', '\u001b[2J', '\n', '\t', '\u0000', '\u202e', '\ud800', '\u2028', 'x'), { maxLength: 600 })
    .map((parts) => parts.join('')),
)

describe('what computes, as people see it', () => {
  it('is bounded text without control characters, whatever a library or a device says', () => {
    fc.assert(
      fc.property(text, text, (provider, reason) => {
        const shown = ShownComputing.parse({ provider, reason })
        expect(shown.provider.length).toBeLessThanOrEqual(64)
        expect(shown.reason.length).toBeLessThanOrEqual(512)
        expect(shown.provider + shown.reason).not.toMatch(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u)
        expect(ShownComputing.parse(shown)).toEqual(shown)
      }),
    )
  })

  it('is left as it is where it is short and plain', () => {
    const shown = { provider: 'cpu', reason: 'webgpu was measured as 3.1 times slower', failed: false }
    expect(ShownComputing.parse(shown)).toEqual(shown)
    const long = ShownComputing.parse({ provider: 'cpu', reason: `${'a'.repeat(510)}😀b` })
    expect(long.reason).toBe(`${'a'.repeat(510)}…`)
  })

  it('is absent in the state of an earlier agent, and where a later one sends another form', () => {
    const state = { v: 1, state: 'ready', birth: 1, at: '2026-01-02T03:04:05.678Z' }
    for (const more of [{}, { computing: 'webgpu' }, { computing: { llm: { provider: 7 } } }]) {
      const read = DeviceState.parse({ ...state, ...more })
      expect([read.state, read.computing]).toEqual(['ready', undefined])
    }
    const llm = { provider: 'cpu', reason: 'asked for' }
    expect(DeviceState.parse({ ...state, computing: { llm, tpu: llm } }).computing).toEqual({ llm })
  })
})

it.each([
  ...['auto', 'cpu', 'webgpu', 'cuda', 'QNNExecutionProvider'].map((name) => [name, true] as const),
  ...['', 'gpu', 'CPU', 'cuda ', 'ExecutionProvider', 'x ExecutionProvider', `${'a'.repeat(60)}ExecutionProvider`].map(
    (name) => [name, false] as const,
  ),
])('a provider may be named "%s": %s', (name, isOne) => {
  expect(ProviderName.safeParse(name).success).toBe(isOne)
})
