import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { readInvitation } from '../../core/wire/protocol/identity.ts'
import { brim } from '../support/brim.ts'
import { captureIo } from '../support/captured-io.ts'
import { fresh } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = fresh(tempDir)

const path = (name: string) => join(dir.path, name)

async function create(...more: string[]) {
  const { io, out, err } = captureIo({ env: { HOME: dir.path } })
  await brim(['bridge', 'token', 'create', '--state-dir', path('bridge'), ...more], io)
  return { out: out(), err: err() }
}

describe('bridge token create --out', () => {
  it('writes the token to a file of this user, and does not print it', async () => {
    for (const more of [[], ['--json']]) {
      const file = path(`token${more.length}`)
      const { out, err } = await create('--out', file, ...more)
      expect((statSync(file).mode & 0o777).toString(8)).toBe('600')
      const text = readFileSync(file, 'utf8').trim()
      const { id, secret } = readInvitation(text)
      expect(err + out).toContain(id)
      expect(err + out).not.toContain(text)
      expect(err + out).not.toContain(secret)
    }
  })

  it('creates no token for a file that exists or cannot be written', async () => {
    writeFileSync(path('mine'), 'precious')
    await expect(create('--out', path('mine'))).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE' })
    await expect(create('--out', path('no/such/token'))).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE' })
    expect(readFileSync(path('mine'), 'utf8')).toBe('precious')
    const store = openIdentityStore(path('bridge'))
    expect(store.tokens()).toEqual([])
    store.close()
  })
})

it('agent enroll refuses a token file that other users can read, before it contacts the bridge', async () => {
  await create('--out', path('token'), '--url', 'http://127.0.0.1:1')
  const enroll = () =>
    brim(['agent', 'enroll', '--id', 'a', '--token-file', path('token'), '--state-dir', path('a')], captureIo().io)
  for (const mode of [0o644, 0o640, 0o602]) {
    chmodSync(path('token'), mode)
    await expect(enroll()).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(`0${mode.toString(8)}`) })
  }
})
