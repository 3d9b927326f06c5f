import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import type { Rollout } from '../../../core/wire/protocol/http/rollouts.ts'
import { newSigningKey, readSigner } from '../../../core/wire/signing/signature.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { postJson } from '../../support/post-json.ts'
import { runBrim } from '../../support/run-brim.ts'
import { shared } from '../../support/shared.ts'

const world = shared(() => startAgentWorld({ bridge: { limits: { rolloutSoakS: 0 } } }))
let signingKey: string
let access: string[]
beforeAll(async () => {
  signingKey = join(world.dir, 'release.key')
  writeFileSync(signingKey, newSigningKey(), { mode: 0o600 })
  const trustedKeys = [readSigner(signingKey).publicKey]
  await world.startAgent({ id: 'jetson-02', trustedKeys })
  const store = openIdentityStore(join(world.dir, 'bridge'))
  const keyFile = (name: string, role: 'operator' | 'admin') => {
    const path = join(world.dir, name)
    writeFileSync(path, store.createKey('test', name, role).key, { mode: 0o600 })
    return path
  }
  access = ['--bridge-url', world.bridge.httpUrl, '--key-file', keyFile('operator', 'operator')]
  store.close()
})

const brim = (...words: string[]) => runBrim(words)
const rollout = (...words: string[]) => brim('rollout', ...words, ...access)
const latest = async () => JSON.parse((await rollout('status', '--json')).out) as Rollout

describe('brim rollout', () => {
  it('installs a bundle on the selected devices; one that does not trust its signature keeps what it has', async () => {
    await brim('device', 'label', 'jetson-01', 'site=lab', ...access)
    const bundle = ['create', 'bundle', '--model', world.bundle]
    const installed = await rollout(...bundle, '--label', 'site=lab', '--watch')
    expect(installed).toMatchObject({
      code: 0,
      out: expect.stringMatching(/completed {2}1 of 1 devices ended\n\[#{24}] {2}1 succeeded/),
    })
    expect(await latest()).toMatchObject({
      input: { activate: true, probe: { prompt: 'Hello' } },
      selector: { labels: { site: 'lab' } },
    })
    // The first device has succeeded before, the second refuses an unsigned bundle.
    const refused = await rollout(
      ...bundle,
      '--all',
      '--first',
      '2',
      '--rate',
      '60/min',
      '--abort-after',
      '2',
      '--abort-above',
      '40%',
      '--watch',
    )
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('1 of 2 devices failed, more than 40 %') })
    expect(refused.out).toMatch(/jetson-02 +failed .*SIGNATURE_INVALID/)
    expect((await rollout('status', '--state', 'failed')).out).toMatch(/jetson-02 +failed .*SIGNATURE_INVALID/)
    expect(await brim('bundle', 'sign', world.bundle, '--key', signingKey)).toMatchObject({ code: 0 })
    const { id } = await latest()
    expect(await rollout('retry', id, '--watch')).toMatchObject({ code: 0, err: expect.stringContaining('1 devices') })
    expect(await latest()).toMatchObject({ state: 'completed', selector: { devices: ['jetson-02'] }, devices: { succeeded: 1 } })
    expect(await rollout('retry', (await latest()).id)).toMatchObject({ code: 2, err: expect.stringContaining('no device') })
  })

  it('refuses what selects no device, what is no rate, and software without the key of an admin', async () => {
    const config = ['create', 'config', '--set', 'heartbeat=30']
    const refusals = [
      [config, 'choose the devices'],
      [[...config, '--all', '--rate', 'fast'], '--rate fast is not of the form 10/min'],
      [[...config, '--all', '--rate', '0'], '"pace.ratePerMinute"'],
      [[...config, '--group', 'none'], 'the selection fits no device'],
      [[...config, '--agent-version', '~1.0'], 'must be conditions such as <0.3.0'],
      [['create', 'config', '--all', '--set', 'nosuch=1'], '"nosuch" is no option that the fleet may set'],
      [['create', 'config', '--all', '--set', 'telemtry=1'], 'did you mean "telemetry"?'],
      [['create', 'config', '--all', '--set', 'bridge=mqtt://127.0.0.1'], '"bridge" is no option that the fleet may set'],
      [['create', 'config', '--all'], 'needs --set <name=value>'],
      [[...config, '--all', '--model', 'qwen'], '--model is for bundle, not for config'],
      [[...config, '--all', '--allow-downgrade'], '--allow-downgrade is for bundle and software'],
      [['create', 'bundle', '--model', 'qwen', '--all', '--reset'], '--reset is for config, not for bundle'],
      [['create', 'software', '--all', '--archive', join(world.dir, 'none.tar.gz')], 'does not exist'],
      [['status', 'none'], 'there is no rollout "none"'],
    ] as const
    for (const [words, message] of refusals)
      expect(await rollout(...words)).toMatchObject({
        code: expect.not.stringMatching('0'),
        out: '',
        err: expect.stringContaining(message),
      })
    const response = await postJson(`${world.bridge.httpUrl}/v1/rollouts`, {
      kind: 'software.install',
      input: { version: '9.9.9', archiveSha256: '0'.repeat(64) },
      selector: { all: true },
    })
    expect([response.status, await response.text()]).toEqual([403, expect.stringContaining("only an admin's key")])
  })
})
