import { chmodSync, copyFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { readInvitation } from '../../../core/wire/protocol/identity.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { runBrim } from '../../support/run-brim.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

it('commands on the machine of a bridge find its address, its pin and a key by themselves', async () => {
  using dir = tempDir()
  using bundle = await tinyBundle()
  const stateDir = join(dir.path, 'state', 'brim', 'bridge')
  const tls = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  for (const part of ['cert', 'key'] as const) {
    copyFileSync(fileURLToPath(new URL(`../../fixtures/tls/first.${part}.pem`, import.meta.url)), tls[part])
    chmodSync(tls[part], 0o600)
  }
  const env = { HOME: dir.path, XDG_STATE_HOME: join(dir.path, 'state') }
  const brim = (...argv: string[]) => runBrim(argv, { env })
  {
    await using bridge = await startTestBridge({ bundle: bundle.path, stateDir, auth: true, tls })
    expect(await brim('whoami', '--json')).toMatchObject({ code: 0, out: expect.stringContaining('"role":"admin"') })
    expect((await brim('fleet', 'status')).code).toBe(0)

    const key = join(dir.path, 'key')
    expect(await brim('bridge', 'key', 'create', '--name', 'sam', '--out', key)).toMatchObject({ code: 0, out: '' })
    expect(statSync(key).mode & 0o777).toBe(0o600)

    const token = join(dir.path, 'token')
    await brim('bridge', 'token', 'create', '--out', token)
    expect(readInvitation(readFileSync(token, 'utf8').trim())).toMatchObject({ url: bridge.httpUrl, pin: bridge.pin })

    const labelled = join(dir.path, 'labelled')
    await brim('bridge', 'token', 'create', '--approve', '--label', 'site=lab', '--label', 'row=3', '--out', labelled)
    const agentDir = join(dir.path, 'agent')
    await brim('agent', 'enroll', '--id', 'orin', '--token-file', labelled, '--state-dir', agentDir)
    const { devices } = JSON.parse((await brim('fleet', 'status', '--json')).out)
    expect(devices).toMatchObject([{ id: 'orin', labels: { site: 'lab', row: '3' } }])

    const waiting = await brim('job', 'submit', 'slm.generate', '--prompt', 'Hello')
    expect(waiting).toMatchObject({ code: 0, err: expect.stringContaining('no connected device takes jobs slm.generate') })

    // A revoked key is replaced: a user who may write this folder is an admin.
    const keys = JSON.parse((await brim('bridge', 'key', 'list', '--json')).out).keys as { id: string; name: string }[]
    await brim('bridge', 'key', 'revoke', keys.find(({ name }) => name === 'local')!.id)
    expect((await brim('fleet', 'status')).code).toBe(0)

    expect(await brim('login', '--bridge-url', bridge.httpUrl, '--pin', bridge.pin!, '--key-file', key)).toMatchObject({
      code: 0,
    })
    expect(await brim('whoami')).toMatchObject({ code: 0, out: expect.stringContaining('sam') })
    await brim('logout')
  }
  expect(existsSync(join(stateDir, 'address.json'))).toBe(false)
  // As a bridge that was killed leaves it: another program may listen there.
  writeFileSync(join(stateDir, 'address.json'), JSON.stringify({ v: 1, url: 'http://127.0.0.1:1' }))
  expect((await brim('whoami')).err).not.toMatch(/127\.0\.0\.1:1\b/)
})
