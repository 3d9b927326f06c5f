import { describe, expect, it } from 'vitest'
import { isBridgeGone } from '../../../agent/answer/hand-over.ts'
import { readsTokensOf } from '../../../agent/slm/local-model.ts'
import { BrimError, type ErrorCode } from '../../../core/base/errors.ts'
import type { Manifest } from '../../../core/model/manifest.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

describe('an answer may go on without a bridge', () => {
  it.each<[ErrorCode, boolean]>([
    ['LINK_LOST', true],
    ['BRIDGE_UNREACHABLE', true],
    ['SESSION_REFUSED', true],
    ['BUNDLE_MISMATCH', false],
    ['PROTOCOL_VERSION', false],
    ['OUT_OF_MEMORY', false],
    ['RUNTIME_FAILED', false],
    ['CONTEXT_OVERFLOW', false],
    ['CANCELED', false],
  ])('after %s: %s', (code, may) => {
    expect(isBridgeGone(new BrimError(code, 'so it is'))).toBe(may)
  })

  it('but not after what nobody foresaw', () => {
    expect(isBridgeGone(new Error('LINK_LOST'))).toBe(false)
  })
})

describe('tokens are taken over', () => {
  const withTokenizer = (manifest: Manifest, digit: string, vocab: number): Manifest => ({
    ...manifest,
    dims: { ...manifest.dims, vocab },
    files: [...manifest.files, { path: 'tokenizer/tokenizer.json', bytes: 1, sha256: digit.repeat(64) }],
  })

  it('where the tokenizer is the same and the vocabulary holds them all', async () => {
    using bundle = await tinyBundle()
    const split = withTokenizer(bundle.manifest, 'a', 160)
    expect(readsTokensOf(withTokenizer(bundle.manifest, 'a', 160), split)).toBe(true)
    // Padded further.
    expect(readsTokensOf(withTokenizer(bundle.manifest, 'a', 192), split)).toBe(true)
    expect(readsTokensOf(withTokenizer(bundle.manifest, 'a', 159), split)).toBe(false)
    expect(readsTokensOf(withTokenizer(bundle.manifest, 'b', 160), split)).toBe(false)
    expect(readsTokensOf(bundle.manifest, bundle.manifest)).toBe(false)
  })
})
