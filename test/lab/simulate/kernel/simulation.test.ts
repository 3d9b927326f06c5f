import { describe, expect, it } from 'vitest'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'

describe('Simulation', () => {
  it('lets time pass from event to event, never backwards', async () => {
    const simulation = new Simulation(1)
    const times: number[] = []
    const see = () => times.push(simulation.nowMs)
    simulation.at(30, () => {
      see()
      // Too late: it happens now.
      simulation.at(10, see)
      simulation.after(5, see)
    })
    simulation.at(20, see)
    expect(await simulation.run()).toBe(true)
    expect(times).toEqual([20, 30, 30, 35])
    expect(simulation.events).toBe(4)
  })

  it('leaves what comes after the end', async () => {
    const simulation = new Simulation(1)
    const happened: number[] = []
    for (const atMs of [10, 20, 30]) simulation.at(atMs, () => happened.push(atMs))
    expect(await simulation.run({ untilMs: 20 })).toBe(true)
    expect(happened).toEqual([10, 20])
  })

  it('says whether more waits after so many events, up to the end and not after it', () => {
    const simulation = new Simulation(1)
    for (const atMs of [10, 20, 30]) simulation.at(atMs, () => {})
    expect([simulation.advance(1, 20), simulation.advance(1, 20), simulation.advance(1, 20)]).toEqual([true, false, false])
    expect([simulation.nowMs, simulation.advance(1)]).toEqual([20, false])
  })

  it('ends with the event that stops it', async () => {
    const simulation = new Simulation(1)
    const happened: number[] = []
    for (const atMs of [10, 20])
      simulation.at(atMs, () => {
        happened.push(atMs)
        simulation.stop()
      })
    expect(await simulation.run()).toBe(true)
    expect(happened).toEqual([10])
  })

  it('is interrupted by its signal', async () => {
    const simulation = new Simulation(1)
    const stop = new AbortController()
    const forever = () => {
      if (simulation.events === 50_000) stop.abort()
      simulation.after(1, forever)
    }
    simulation.after(1, forever)
    expect(await simulation.run({ signal: stop.signal })).toBe(false)
    expect(simulation.events).toBeGreaterThanOrEqual(50_000)
  })

  it('draws the same chance for one seed and purpose, whatever is drawn for others', () => {
    const drawn = (seed: number, purpose: string, others: number) => {
      const simulation = new Simulation(seed)
      const other = simulation.random('other')
      for (let i = 0; i < others; i += 1) other.next()
      return simulation.random(purpose).next()
    }
    expect(drawn(5, 'links', 0)).toBe(drawn(5, 'links', 9))
    expect(drawn(5, 'links', 0)).not.toBe(drawn(6, 'links', 0))
    expect(drawn(5, 'links', 0)).not.toBe(drawn(5, 'modes', 0))
  })
})
