import { describe, expect, it } from 'vitest'
import { HeldLease, leaseMs } from '../../../cloud-bridge/replica/held-lease.ts'
import { Shipper, type ShipperOptions } from '../../../cloud-bridge/replica/shipper.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const changes = (...keys: string[]) => ({
  rows: keys.map((key) => ({ file: 'jobs.sqlite', table: 'jobs', key, row: '{}' })),
  forget() {},
})
const turns = async (count = 20) => {
  for (let at = 0; at < count; at++) await new Promise((resolve) => setImmediate(resolve))
}

function shipperOf(options: Partial<ShipperOptions>) {
  const clock = fakeClock()
  let lost = 0
  const shipper = new Shipper({
    files: { read: () => changes() },
    ship: async () => true,
    confirmLease: async () => true,
    onLost() {
      lost += 1
    },
    clock,
    logger: silentLogger(),
    ...options,
  })
  return { shipper, clock, lost: () => lost }
}

describe('what leaves a primary', () => {
  it('waits until what was stored before is in the database, in order', async () => {
    const sent: string[] = []
    let store: (() => void) | undefined
    const ship = () =>
      new Promise<boolean>((resolve) => {
        store = () => resolve(true)
      })
    const { shipper } = shipperOf({ files: { read: () => changes('[1]') }, ship })
    shipper.after(() => sent.push('first'))
    shipper.after(() => sent.push('second'))
    await turns()
    expect(sent).toEqual([])
    store!()
    await turns(3)
    expect(sent).toEqual(['first', 'second'])
  })

  it('is held back while the database fails, and lost with the lease', async () => {
    const sent: string[] = []
    let outcome: () => Promise<boolean> = async () => {
      throw new Error('disk full')
    }
    const { shipper, clock, lost } = shipperOf({ files: { read: () => changes('[1]') }, ship: () => outcome() })
    shipper.after(() => sent.push('job'))
    await turns()
    expect(sent).toEqual([])
    expect(shipper.failure).toBe('disk full')
    outcome = async () => true
    await clock.advance(1_000)
    await turns()
    expect(sent).toEqual(['job'])
    expect(shipper.failure).toBeUndefined()
    outcome = async () => false
    shipper.after(() => sent.push('late'))
    await turns()
    shipper.after(() => sent.push('later'))
    await turns()
    expect(sent).toEqual(['job'])
    expect(lost()).toBe(1)
  })

  it('needs the lease also where nothing was stored', async () => {
    const sent: string[] = []
    const { shipper, lost } = shipperOf({ confirmLease: async () => false })
    shipper.after(() => sent.push('resent command'))
    await turns()
    expect(sent).toEqual([])
    expect(lost()).toBe(1)
  })
})

describe('a lease', () => {
  it('is confirmed by a renewal once the latest one is old, and never held again once it was lost', async () => {
    const clock = fakeClock()
    const answers = [true, true, false, true]
    let renewals = 0
    const held = new HeldLease(clock, async () => answers[renewals++]!)
    expect(await held.confirm()).toBe(true)
    expect(await held.confirm()).toBe(true)
    expect(renewals).toBe(1)
    await clock.advance(leaseMs)
    expect(await held.confirm()).toBe(true)
    expect(renewals).toBe(2)
    await clock.advance(leaseMs)
    expect(await held.confirm()).toBe(false)
    expect(await held.confirm()).toBe(false)
    expect(renewals).toBe(3)
  })
})
