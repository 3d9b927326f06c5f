import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { newSigningKey, readSigner, requireSigned, SignatureFile } from '../../../../core/wire/signing/signature.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const sha256 = 'ab'.repeat(32)

function signer() {
  using dir = tempDir()
  const path = join(dir.path, 'key.pem')
  writeFileSync(path, newSigningKey(), { mode: 0o600 })
  return readSigner(path)
}

describe('signatures', () => {
  const [own, other] = [signer(), signer()]
  const file = (...signatures: SignatureFile['signatures']) => SignatureFile.parse({ v: 1, signatures })

  it('admit what a trusted key has signed, also beside the signature of another key', () => {
    const both = file(other.sign('bundle', sha256), own.sign('bundle', sha256))
    expect(requireSigned('bundle', sha256, both, [own.publicKey])).toMatchObject({ publicKey: own.publicKey })
  })

  it.each([
    ['of a key that is not trusted', 'bundle', sha256, [other.publicKey]],
    ['of other bytes', 'bundle', 'cd'.repeat(32), [own.publicKey]],
    ['of another kind', 'software', sha256, [own.publicKey]],
    ['where no key is trusted', 'bundle', sha256, []],
  ] as const)('refuse a signature %s', (_, kind, hash, trusted) => {
    expect(() => requireSigned(kind, hash, file(own.sign('bundle', sha256)), trusted)).toThrow(
      expect.objectContaining({ code: 'SIGNATURE_INVALID' }),
    )
  })

  it('cover their number, which can neither be changed nor left out nor added', () => {
    const [numbered, plain] = [own.sign('bundle', sha256, 7), own.sign('bundle', sha256)]
    expect(requireSigned('bundle', sha256, file(plain, numbered), [own.publicKey]).sequence).toBe(7)
    const { sequence: _, ...stripped } = numbered
    for (const forged of [{ ...numbered, sequence: 8 }, stripped, { ...plain, sequence: 7 }])
      expect(() => requireSigned('bundle', sha256, file(forged), [own.publicKey])).toThrow(/does not fit/)
  })

  it('refuse a public key that is no point of the curve', () => {
    const forged = { publicKey: '_'.repeat(43), signature: 'A'.repeat(86) }
    expect(() => requireSigned('bundle', sha256, file(forged), [forged.publicKey])).toThrow(/does not fit/)
  })

  it('are made with private key files only', () => {
    using dir = tempDir()
    const [open, noKey] = [join(dir.path, 'open.pem'), join(dir.path, 'no-key.pem')]
    writeFileSync(open, newSigningKey(), { mode: 0o644 })
    expect(() => readSigner(open)).toThrow(/readable by other users/)
    writeFileSync(noKey, 'hello', { mode: 0o600 })
    expect(() => readSigner(noKey)).toThrow(/no Ed25519 private key/)
  })
})
