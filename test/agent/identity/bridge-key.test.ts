import { mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { openBridgeKey, ownKeyFileOf } from '../../../agent/identity/bridge-key.ts'
import { resetIdentity } from '../../../agent/identity/enrolment.ts'
import { identityDirOf } from '../../../agent/identity/key-file.ts'
import { tempDir } from '../../support/temp-dir.ts'

const url = 'https://bridge.example.org'

describe("a device's key at a bridge", () => {
  it('has one successor until the bridge knows it, across restarts, and then is replaced by it', () => {
    using dir = tempDir()
    const { publicKey } = resetIdentity(dir.path)
    const key = openBridgeKey(dir.path, url)
    expect([key.current.publicKey, key.next]).toEqual([publicKey, undefined])
    const next = key.makeNext()
    const reopened = openBridgeKey(dir.path, url)
    expect([reopened.makeNext().publicKey, reopened.next?.publicKey]).toEqual([next.publicKey, next.publicKey])
    expect(reopened.current.publicKey).toBe(publicKey)
    for (let times = 0; times < 2; times++) reopened.promote(next)
    for (const one of [reopened, openBridgeKey(dir.path, url)])
      expect([one.current.publicKey, one.next]).toEqual([next.publicKey, undefined])
    expect(openBridgeKey(dir.path, 'https://other.example.org').current.publicKey).toBe(publicKey)
    expect(ownKeyFileOf(dir.path, url)).toMatch(/device-key\.bridge\.example\.org_443\.pem$/)
    for (const name of readdirSync(identityDirOf(dir.path)))
      expect(statSync(`${identityDirOf(dir.path)}/${name}`).mode & 0o777).toBe(0o600)
    expect(resetIdentity(dir.path).publicKey).toBe(openBridgeKey(dir.path, url).current.publicKey)
  })

  it('is replaced although its file cannot be renamed, and no further one overwrites it', () => {
    using dir = tempDir()
    resetIdentity(dir.path)
    const key = openBridgeKey(dir.path, url)
    const next = key.makeNext()
    // No file can be renamed to a folder.
    mkdirSync(ownKeyFileOf(dir.path, url))
    expect(() => key.promote(next)).toThrow()
    expect([key.current.publicKey, key.next]).toEqual([next.publicKey, undefined])
    expect(() => key.makeNext()).toThrow()
    rmdirSync(ownKeyFileOf(dir.path, url))
    expect(openBridgeKey(dir.path, url).next?.publicKey).toBe(next.publicKey)
    expect(key.makeNext().publicKey).not.toBe(next.publicKey)
    expect(openBridgeKey(dir.path, url).current.publicKey).toBe(next.publicKey)
  })
})
