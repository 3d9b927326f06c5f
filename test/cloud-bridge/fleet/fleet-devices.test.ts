import { expect, it } from 'vitest'
import { createFleet, type FleetOptions } from '../../../cloud-bridge/fleet/fleet.ts'

it('a device that was revoked is lost, and no trouble to anybody', () => {
  const record = (id: string) => ({ id, state: 'lost', birth: 1, lastSeen: '2026-05-01T12:00:00Z', agent: null, modelId: null })
  const identity = (device: string, status: string) => ({ device, status, group: 'default', enrolledAt: '2026-05-01T11:00:00Z' })
  const enrolled = [identity('here', 'approved'), identity('gone', 'revoked')]
  const fleet = createFleet({
    registry: { devices: () => ['here', 'gone'].map(record), device: record },
    labels: { all: () => new Map(), of: () => ({}) },
    identities: { devices: () => enrolled, device: (id: string) => enrolled.find(({ device }) => device === id) },
    jobs: { loads: () => new Map(), heldBy: () => [] },
    wallMs: () => Date.parse('2026-05-01T12:00:09Z'),
  } as unknown as FleetOptions)
  const found = fleet.devices().map(({ id, state, problems }) => [id, state, problems.map(({ kind }) => kind)])
  expect(found).toEqual([
    ['gone', 'lost', []],
    ['here', 'lost', ['lost']],
  ])
  expect(fleet.device('gone')?.problems).toEqual([])
})
