import { describe, expect, it } from 'vitest'
import { whyUnused } from '../../../../core/policy/fleet/unused.ts'
import type { Device } from '../../../../core/wire/protocol/http/devices.ts'

const wallMs = Date.parse('2026-05-01T12:00:00Z')
const bridge = { version: '0.3.0', modelIds: ['qwen@1'], wallMs }
const telemetry = {
  ageS: 5,
  at: '2026-05-01T11:59:55Z',
  birth: 1,
  link: { upBytesPerS: 1e6, downBytesPerS: 1e6, rttMs: 20, bridge: 'bridge-1' },
  speed: { prefillTokensPerS: null, draftStepMs: null },
}
const identity = {
  group: 'lab',
  status: 'approved',
  enrolledAt: '2026-01-01T00:00:00Z',
  keyExpiresAt: '2027-01-01T00:00:00Z',
  hardware: null,
  clone: null,
}
const good = {
  id: 'jetson-01',
  state: 'ready',
  birth: 1,
  lastSeen: '2026-05-01T11:59:55Z',
  seenS: 5,
  agent: '0.3.0',
  modelId: 'qwen@1',
  labels: {},
  jobs: 0,
  problems: [],
  identity,
  telemetry,
} as unknown as Device
const device = (more: object): Device => ({ ...good, ...more })
const sampled = (more: object): Device => device({ telemetry: { ...telemetry, ...more } })
const reasonsOf = (one: Device, of = bridge) =>
  whyUnused(one, of).map(({ kind, blocks, detail, fix }) => [blocks ? '!' : '', kind, detail, fix])

describe('a device', () => {
  it('without a reason is used, one minor release apart too', () => {
    for (const agent of ['0.2.9', '0.3.1', '0.4.0']) expect(reasonsOf(device({ agent }))).toEqual([])
    expect(reasonsOf(device({ modelId: null }), { ...bridge, modelIds: [] })).toEqual([])
    // While the fleet changes its model, devices have either.
    expect(reasonsOf(device({ modelId: 'qwen@1' }), { ...bridge, modelIds: ['qwen@2', 'qwen@1'] })).toEqual([])
    expect(reasonsOf(device({ identity: null }))).toEqual([])
    // Without a driver there is nothing to fix.
    expect(reasonsOf(device({ computing: { slm: { provider: 'cpu', reason: 'no GPU driver was found (Vulkan)' } } }))).toEqual([])
    expect(reasonsOf(sampled({ jobs: { waiting: 2, running: 1 } }))).toEqual([])
  })

  it.each<[string, Device, string, string, RegExp, RegExp]>([
    ['revoked', device({ identity: { ...identity, status: 'revoked' } }), '!', 'enrolment', /revoked/, /device remove jetson-01/],
    [
      'pending',
      device({ identity: { ...identity, status: 'pending' } }),
      '!',
      'enrolment',
      /approval/,
      /device approve jetson-01/,
    ],
    ['old key', device({ identity: { ...identity, keyExpiresAt: '2026-04-30T00:00:00Z' } }), '!', 'key', /expired/, /approve/],
    ['never', device({ state: null, telemetry: null }), '!', 'link', /never/, /agent run --id jetson-01/],
    ['lost', device({ state: 'lost', seenS: 90 }), '!', 'link', /lost for 90 s/, /systemctl status/],
    ['off', device({ state: 'disconnected' }), '!', 'link', /shut down/, /systemctl start/],
    ['drained', device({ state: 'draining' }), '!', 'drain', /no new jobs/, /undrain jetson-01/],
    ['old agent', device({ agent: '0.1.0' }), '', 'version', /0\.1\.0.*0\.3\.0/, /rollout create software .*--device jetson-01/],
    ['new agent', device({ agent: '1.0.0' }), '', 'version', /1\.0\.0/, /update the bridge/],
    [
      'other bundle',
      device({ modelId: 'qwen@2' }),
      '!',
      'bundle',
      /qwen@2.*qwen@1/,
      /--model qwen@1 --activate --device jetson-01/,
    ],
    ['no bundle', device({ modelId: null }), '!', 'bundle', /no bundle/, /bundle\.install/],
    [
      'a GPU that failed',
      device({ computing: { llm: { provider: 'cpu', reason: 'webgpu failed its trial: no memory', failed: true } } }),
      ...([
        '',
        'gpu',
        /CPU computes its split model: webgpu failed its trial: no memory/,
        /brim doctor.*--provider cpu/,
      ] as const),
    ],
    ['unset clock', sampled({ clockIsSet: false, at: '1970-01-01T00:00:00Z' }), '', 'clock', /not set/, /set-ntp/],
    ['slow clock', sampled({ at: '2026-05-01T11:49:55Z' }), '', 'clock', /600 s slow/, /set-ntp/],
    ['no data plane', sampled({ link: null }), '', 'link', /data plane/, /device logs jetson-01/],
    ['slow link', sampled({ link: { ...telemetry.link, upBytesPerS: 5_000 } }), '', 'link', /5000 bytes/, /device watch/],
    ['battery', device({ problems: [{ kind: 'battery', detail: '12 %' }] }), '', 'battery', /12 %/, /plug/],
    ['full disk', device({ problems: [{ kind: 'disk-full', detail: '' }] }), '!', 'disk', /^$/, /df -h/],
    ['stuck jobs', sampled({ jobs: { waiting: 2, running: 0 } }), '', 'lag', /2 jobs wait/, /device show/],
    ['late samples', sampled({ spool: { waiting: 40 } }), '', 'lag', /40 samples/, /device watch/],
    ['old sample', sampled({ ageS: 900, at: '2026-05-01T11:45:00Z' }), '', 'lag', /900 s/, /device logs/],
  ])('that is not used has its reason: %s', (_, one, mark, kind, detail, fix) => {
    expect(reasonsOf(one)).toEqual([[mark, kind, expect.stringMatching(detail), expect.stringMatching(fix)]])
  })

  it('has all its reasons at once, but those alone that bar it', () => {
    const many = device({ agent: '0.1.0', modelId: 'x@1', problems: [{ kind: 'throttled', detail: 'gpu' }] })
    expect(reasonsOf(many).map(([, kind]) => kind)).toEqual(['version', 'bundle', 'heat'])
    expect(reasonsOf({ ...many, identity: { ...identity, status: 'revoked' } } as Device)).toHaveLength(1)
  })
})
