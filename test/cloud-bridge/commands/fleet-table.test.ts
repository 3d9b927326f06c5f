import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { age, compact, cutMiddle } from '../../../cloud-bridge/commands/figures.ts'
import { layOutFleet } from '../../../cloud-bridge/commands/fleet/table.ts'
import { fleetRowOf } from '../../../core/policy/fleet/fleet-row.ts'
import type { Device, FleetSummary } from '../../../core/wire/protocol/http/devices.ts'

const device = (id: string, more: object = {}): Device => ({
  id,
  state: 'ready',
  birth: 1,
  lastSeen: '2026-01-01T00:00:00Z',
  seenS: 3,
  agent: '0.1.0',
  modelId: 'a'.repeat(64),
  computing: null,
  labels: {},
  jobs: 0,
  problems: [],
  identity: null,
  telemetry: null,
  ...more,
})
const facts = { version: '0.1.0', modelIds: ['a'.repeat(64)], wallMs: Date.parse('2026-01-01T00:00:03Z') }
const fleet = (devices: Device[], more: object = {}): FleetSummary => ({
  bridge: 'bridge-1',
  version: '0.1.0',
  modelId: 'a'.repeat(64),
  uptimeS: 273_600,
  sessions: 14,
  kvBytes: 5e8,
  kvBudgetBytes: 2e9,
  jobs: { queued: 12, underWay: 4, dead: 1 },
  problems: [],
  modelIds: ['a'.repeat(64)],
  computing: [],
  database: null,
  devices: devices.map((one) => fleetRowOf(one, facts)),
  ...more,
})
const textOf = (status: FleetSummary) => layOutFleet(status).map(({ text }) => text)

const orin = (id: string, more: object = {}) =>
  device(id, {
    jobs: 2,
    telemetry: {
      device: { module: 'AGX Orin', model: null, kind: 'jetson' },
      power: { railsW: {}, totalW: 23.46, scope: 'module', jPerToken: 1.2 },
      temperatures: { hottestC: 71.4, zonesC: {} },
      throttling: { isThrottled: false, causes: [] },
      load: { cpuPercent: 23.4, gpuPercent: 97.6 },
      link: { upBytesPerS: 1_250_000, downBytesPerS: 12_500_000, rttMs: 20 },
      answers: { underWay: 1, decodeTokensPerS: { slow: 14.2, fast: 61.7 } },
    },
    ...more,
  })

describe('the table of a fleet', () => {
  it('shows the problems of the bridge first', () => {
    const problems = [
      { kind: 'upstream', detail: 'http://10.0.0.8:8000/v1 gets no requests: upstream 1 cannot be reached', fix: 'x' },
    ]
    const hot = device('b', { problems: [{ kind: 'throttled', detail: '' }] })
    const lines = layOutFleet(fleet([device('a'), hot], { problems }), 200)
    expect(lines.slice(2, 4)).toEqual([
      { text: `! bridge: ${problems[0]!.detail}`, mood: 'bad' },
      { text: '! 1 throttled: b', mood: 'warning' },
    ])
  })

  it('shows a line per device with figures aligned right, without columns that are unknown for every device', () => {
    expect(textOf(fleet([orin('jetson-01'), device('jetson-02')]))).toEqual([
      'bridge bridge-1  0.1.0  up 3d  14 sessions  KV 25 % of 2.0GB',
      'jobs: 12 queued, 4 under way, 1 dead',
      '2 devices: 2 ready; 2 usable',
      '',
      'DEVICE    STATE MODULE   SEEN  W °C CPU GPU   UP DOWN JOBS TK/S',
      'jetson-01 ready AGX Orin   3s 23 71  23  98 1.3M  13M    2   62',
      'jetson-02 ready –          3s  –  –   –   –    –    –    0    –',
    ])
  })

  it('counts devices by what computes on them, where they say it', () => {
    const on = (id: string, provider: string) => device(id, { computing: { llm: { provider, reason: 'asked for' } } })
    const lines = textOf(fleet([on('a', 'webgpu'), on('b', 'cpu'), on('c', 'cpu'), device('d')]))
    expect(lines).toContain('4 devices: 4 ready; 4 usable  on 2 cpu, 1 webgpu')
  })

  it('names the devices that are ready and not used, and why', () => {
    const lines = textOf(fleet([device('a'), device('b', { modelId: 'b'.repeat(64) }), device('c', { state: 'lost' })]))
    expect(lines).toContain('3 devices: 1 lost, 2 ready; 1 usable')
    expect(lines.find((line) => line.startsWith('! 1 unusable: bundle: b'))).toBeDefined()
    expect(lines.at(-3)).toMatch(/^b /)
  })

  it('starts with the problems, the worst first, and marks throttled clocks', () => {
    const { telemetry } = orin('x')
    const hot = orin('b', {
      telemetry: { ...telemetry, throttling: { isThrottled: true, causes: ['cooling cpufreq-cpu0'] } },
      problems: [{ kind: 'throttled', detail: 'cooling cpufreq-cpu0' }],
    })
    const lost = orin('c', { state: 'lost', seenS: 7_200, problems: [{ kind: 'lost', detail: '' }] })
    const lines = layOutFleet(fleet([orin('a'), hot, lost]))
    const texts = lines.map(({ text }) => text)
    expect(texts.slice(3, 5)).toEqual(['! 1 lost: c', '! 1 throttled: b (cooling cpufreq-cpu0)'])
    expect(texts.slice(-3).map((line) => line[0])).toEqual(['c', 'b', 'a'])
    expect(texts.at(-2)).toContain(' 71! ')
    // A lost device's last measurements are not shown.
    expect(texts.at(-3)).toMatch(/^c +lost +– +2h( +–)+ +2 +–$/)
    expect(lines.map(({ mood }) => mood).slice(-3)).toEqual(['bad', 'warning', 'plain'])
  })

  it('shows pending, revoked and never-seen devices, without figures', () => {
    const enrolled = (id: string, status: string, more: object = {}) =>
      device(id, {
        ...{ state: null, seenS: null },
        identity: { group: 'lab', status, enrolledAt: '2026-01-01T00:00:00Z', hardware: null, clone: null },
        ...more,
      })
    const devices = [
      enrolled('a-revoked', 'revoked', { state: 'lost', seenS: 60 }),
      orin('b-ready'),
      enrolled('c-new', 'approved'),
      enrolled('d-waits', 'pending', { problems: [{ kind: 'pending', detail: '' }] }),
    ]
    const lines = layOutFleet(fleet(devices))
    expect(lines.map(({ text }) => text).slice(2, 4)).toEqual([
      '4 devices: 1 never, 1 pending, 1 ready, 1 revoked; 1 usable',
      '! 1 waiting for approval: d-waits',
    ])
    expect(lines.slice(-4).map(({ text, mood }) => [...text.split(/ +/).slice(0, 2), mood])).toEqual([
      ['d-waits', 'pending', 'warning'],
      ['b-ready', 'ready', 'plain'],
      ['c-new', 'never', 'quiet'],
      ['a-revoked', 'revoked', 'quiet'],
    ])
  })

  it('reports that no device has connected yet', () => {
    expect(textOf(fleet([])).at(-1)).toBe('0 devices: none has connected or enrolled yet')
  })

  const figure = fc.oneof(fc.constant(null), fc.double(), fc.double({ min: 0, max: 200 }), fc.nat())
  const word = fc.oneof(fc.string({ unit: 'binary', maxLength: 100 }), fc.stringMatching(/^[a-z0-9-]{1,64}$/))
  const anyDevice = fc.record({
    id: word,
    state: fc.oneof(fc.constantFrom('ready', 'lost', 'draining', 'disconnected', null), word),
    seenS: figure,
    jobs: fc.nat(),
    computing: fc.oneof(fc.constant(null), fc.record({ llm: fc.record({ provider: word, reason: word }) })),
    labels: fc.constant({}),
    problems: fc.array(fc.record({ kind: fc.constantFrom('lost', 'throttled', 'new'), detail: word }), { maxLength: 3 }),
    identity: fc.constant(null),
    telemetry: fc.option(
      fc.record({
        device: fc.record({ module: fc.option(word), kind: word }),
        power: fc.record({ totalW: figure }),
        temperatures: fc.record({ hottestC: figure }),
        throttling: fc.record({ isThrottled: fc.option(fc.boolean()) }),
        battery: fc.option(fc.record({ levelPercent: figure })),
        load: fc.record({ cpuPercent: figure, gpuPercent: figure }),
        link: fc.option(fc.record({ upBytesPerS: figure, downBytesPerS: figure })),
        answers: fc.record({ decodeTokensPerS: fc.dictionary(word, fc.double()) }),
      }),
    ),
  })
  it('keeps every line within 80 columns for any names and figures', () => {
    fc.assert(
      fc.property(fc.array(anyDevice, { maxLength: 12 }), word, figure, (devices, bridge, some) => {
        const status = fleet(devices as unknown as Device[], { bridge, uptimeS: some ?? 0, sessions: some ?? 0 })
        const lines = textOf(status)
        expect(lines.filter((line) => line.length > 80)).toEqual([])
        expect(lines.filter((line) => /[^\x20-\x7e°–…]/.test(line))).toEqual([])
        if (devices.length > 0) expect(lines.length).toBeGreaterThan(devices.length + 3)
      }),
      { numRuns: 300 },
    )
  })

  it('fits the widest figures into 80 columns, and keeps the ends of long names', () => {
    const wide = { ...orin('x').telemetry, battery: { levelPercent: 100, state: 'full' } }
    const widest = ['1', '2'].map((end) =>
      device(`jetson-agx-orin-warehouse-north-0${end}`, { state: 'draining', seenS: 9e5, telemetry: wide }),
    )
    const lines = textOf(fleet(widest))
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
    expect(lines.at(-2)).toMatch(/^jetson-\S*…north-01 draining /)
    expect(lines.at(-1)!.split(' ')[0]).not.toBe(lines.at(-2)!.split(' ')[0])
  })
})

describe('figures in four characters', () => {
  it.each([
    [0, '0'],
    [7.12, '7.1'],
    [9.96, '10'],
    [999.6, '1.0k'],
    [1_250_000, '1.3M'],
    [340_000_000, '340M'],
    [1e30, '>9P'],
    [-1, '–'],
    [null, '–'],
  ])('%s is %s', (value, text) => expect(compact(value)).toBe(text))

  it('takes at most four characters for any amount or age', () => {
    fc.assert(fc.property(fc.double(), (value) => compact(value).length <= 4 && age(value).length <= 4))
  })

  it('cuts the middle of a name', () => {
    expect(cutMiddle('jetson-orin-nano-17', 13)).toBe('jetson…ano-17')
  })
})
