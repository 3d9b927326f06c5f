import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AvailableDevice, assignJobs, type QueuedJob, rebalanceJobs } from '../../../../core/policy/jobs/assign-jobs.ts'

const device = (name: string, freeSlots = 1, kinds: readonly string[] = ['generate']): AvailableDevice => ({
  device: name,
  kinds,
  freeSlots,
})
const job = (n: number, fields: Partial<QueuedJob> = {}): QueuedJob => ({
  n,
  kind: 'generate',
  priority: 5,
  target: null,
  ...fields,
})
const assigned = (jobs: readonly QueuedJob[], devices: readonly AvailableDevice[]) =>
  assignJobs(jobs, devices).map(({ job, device }) => [job.n, device])

describe('assigning jobs', () => {
  it('takes the highest priority first, then the oldest job', () => {
    const jobs = [job(1), job(3, { priority: 9 }), job(2, { priority: 9 })]
    expect(assigned(jobs, [device('a', 3)])).toEqual([
      [2, 'a'],
      [3, 'a'],
      [1, 'a'],
    ])
  })

  it('serves jobs bound to a device before others, and only on that device', () => {
    const jobs = [job(1, { priority: 9 }), job(2, { target: 'b', kind: 'profile' }), job(3, { target: 'c' })]
    expect(assigned(jobs, [device('b'), device('a', 0)])).toEqual([[2, 'b']])
  })

  it('gives an unbound job to the device with the most free slots that supports its kind', () => {
    const devices = [device('a', 1), device('b', 2), device('c', 9, ['profile'])]
    expect(assigned([job(1), job(2), job(3), job(4)], devices)).toEqual([
      [1, 'b'],
      [2, 'a'],
      [3, 'b'],
    ])
  })

  it('never exceeds free slots, assigns no job twice, and leaves no job that a free device could run', () => {
    const kinds = ['generate', 'verify']
    const anyJobs = fc.array(
      fc.record({
        kind: fc.constantFrom(...kinds),
        priority: fc.integer({ min: 0, max: 9 }),
        target: fc.constantFrom(null, null, 'a', 'b', 'z'),
      }),
      { maxLength: 20 },
    )
    const anyDevices = fc.uniqueArray(
      fc.record({
        device: fc.constantFrom('a', 'b', 'c', 'd'),
        kinds: fc.subarray(kinds),
        freeSlots: fc.integer({ min: -1, max: 3 }),
      }),
      { selector: ({ device }) => device },
    )
    fc.assert(
      fc.property(anyJobs, anyDevices, (fields, devices) => {
        const jobs = fields.map((some, n) => ({ n, ...some }))
        const assignments = assignJobs(jobs, devices)
        expect(new Set(assignments.map(({ job }) => job.n)).size).toBe(assignments.length)
        const free = new Map<string, number>(devices.map(({ device, freeSlots }) => [device, freeSlots]))
        for (const { device } of assignments) free.set(device, (free.get(device) ?? 0) - 1)
        for (const { device, freeSlots } of devices) expect(free.get(device)).toBeGreaterThanOrEqual(Math.min(0, freeSlots))
        for (const left of jobs.filter((one) => !assignments.some(({ job }) => job === one)))
          for (const { device, kinds: supported } of devices)
            if (left.target === device || (left.target === null && supported.includes(left.kind)))
              expect(free.get(device)).toBeLessThanOrEqual(0)
      }),
      { seed: 1, numRuns: 500 },
    )
  })
})

it('rebalances one waiting job to each idle device that supports its kind', () => {
  const waiting = [job(1, { kind: 'profile' }), job(2), job(3), job(4)]
  const moves = rebalanceJobs(waiting, [device('a'), device('b', 2, ['generate', 'verify'])])
  expect(moves.map(({ job, device }) => [job.n, device])).toEqual([
    [2, 'a'],
    [3, 'b'],
  ])
  expect(rebalanceJobs(waiting, [])).toEqual([])
})
