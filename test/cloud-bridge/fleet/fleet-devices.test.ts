import { expect, it } from 'vitest'
import { createFleet, type FleetOptions } from '../../../cloud-bridge/fleet/fleet.ts'

it('a revoked device is listed as lost, without a problem, and one that waits for approval with that alone', () => {
  const record = (id: string) => ({ id, state: 'lost', birth: 1, lastSeen: '2026-05-01T12:00:00Z', agent: null, modelId: null })
  const identity = (device: string, status: string) => ({ device, status, group: 'default', enrolledAt: '2026-05-01T11:00:00Z' })
  const enrolled = [identity('approved', 'approved'), identity('revoked', 'revoked'), identity('waits', 'pending')]
  const fleet = createFleet({
    registry: { ids: () => ['waits', 'revoked', 'approved'], device: record },
    labels: { all: () => new Map(), of: () => ({}) },
    identities: { devices: () => enrolled, device: (id: string) => enrolled.find(({ device }) => device === id) },
    jobs: { loads: { all: () => new Map() }, heldBy: () => [] },
    wallMs: () => Date.parse('2026-05-01T12:00:09Z'),
  } as unknown as FleetOptions)
  const found = fleet.devices().map(({ id, state, problems }) => [id, state, problems.map(({ kind }) => kind)])
  expect(found).toEqual([
    ['approved', 'lost', ['lost']],
    ['revoked', 'lost', []],
    ['waits', 'lost', ['pending']],
  ])
  expect(fleet.device('revoked')?.problems).toEqual([])
})

it('a device is listed with the problems of its last sample, its jobs, its labels and the time since its last message', () => {
  const throttling = { isThrottled: true, causes: ['cooling'] }
  const record = (id: string) => ({
    id,
    state: 'ready',
    birth: 1,
    lastSeen: '2026-05-01T12:00:00Z',
    telemetry: { at: '2026-05-01T12:00:00Z', ageS: id === 'a' ? 3.2 : 60, throttling },
  })
  const fleet = createFleet({
    registry: { ids: () => ['b', 'a'], device: record },
    labels: { all: () => new Map([['a', { site: 'north' }]]), of: () => ({ site: 'north' }) },
    identities: { devices: () => [], device: () => undefined },
    jobs: { loads: { all: () => new Map([['a', 2]]) }, heldBy: () => [{}, {}] },
    wallMs: () => Date.parse('2026-05-01T12:00:09Z'),
  } as unknown as FleetOptions)
  const [a, b] = fleet.devices()
  const problems = [{ kind: 'throttled', detail: 'cooling' }]
  expect(a).toMatchObject({ problems, jobs: 2, labels: { site: 'north' }, seenS: 3 })
  expect(b).toMatchObject({ problems, jobs: 0, labels: {}, seenS: 9 })
  expect(fleet.device('a')).toEqual(a)
})

it('a large fleet is described in several turns of the event loop, in order', async () => {
  const ids = Array.from({ length: 1_000 }, (_, at) => `d${at}`)
  const described: string[] = []
  const fleet = createFleet({
    registry: { ids: () => ids, device: (id: string) => ({ id }) },
    labels: { all: () => new Map() },
    identities: { devices: () => [] },
    jobs: { loads: { all: () => new Map() } },
    wallMs: () => 0,
  } as unknown as FleetOptions)
  const describing = fleet.devicesAs(({ id }) => described.push(id))
  expect(described.length).toBeLessThan(ids.length)
  await describing
  expect(described).toEqual(ids.toSorted())
})

it('a device whose id or key another machine uses is listed with that problem first', () => {
  const record = (id: string) => ({ id, state: 'lost', birth: 1, lastSeen: '2026-05-01T12:00:00Z' })
  const identity = { device: 'copied', status: 'approved', group: 'default', clone: 'dmi 4711' }
  const fleet = createFleet({
    registry: { device: record },
    labels: { of: () => ({}) },
    identities: { device: (id: string) => (id === 'copied' ? identity : undefined) },
    jobs: { heldBy: () => [] },
    otherAt: (id: string) => (id === 'twin' ? '10.0.0.7' : undefined),
    wallMs: () => Date.parse('2026-05-01T12:00:09Z'),
  } as unknown as FleetOptions)
  const lost = { kind: 'lost', detail: '' }
  expect(fleet.device('twin')?.problems).toEqual([{ kind: 'id-conflict', detail: 'another device at 10.0.0.7' }, lost])
  expect(fleet.device('copied')?.problems).toEqual([{ kind: 'id-conflict', detail: 'its key on another machine' }, lost])
  expect(fleet.device('alone')?.problems).toEqual([lost])
})
