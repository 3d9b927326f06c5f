import { Simulation } from '../../simulate/kernel/simulation.ts'
import { ResultCollector } from '../../simulate/results/result-collector.ts'
import { Answer } from '../../simulate/world/answer.ts'
import type { RequestedAnswer } from '../../simulate/world/answer-record.ts'
import { Processor } from '../../simulate/world/processor.ts'
import { SimulatedLink } from '../../simulate/world/simulated-link.ts'

const outputTokens = 100
const tokenMs = 20
/** Without a token for so long, a device would give up. */
const patienceMs = 5_000
const tokenBytes = 100

/**
 * Devices that ask a server again and again: each computes its prompt, sends it, and gets an answer token by token over its
 * link, with a timer that every token sets anew. What every mode is made of, without a policy.
 */
export function mixedEvents(devices: number): Simulation {
  const simulation = new Simulation(1)
  const random = simulation.random('devices')
  const collector = new ResultCollector(() => {})
  const trace = { intervalMs: 1_000, bytesPerS: Array.from({ length: 60 }, () => 1e6 * (1 + random.next())) }
  let asked = 0
  for (let device = 0; device < devices; device += 1) {
    const processor = new Processor(simulation)
    const link = new SimulatedLink(simulation, { up: trace, down: trace, rttMs: 40 }, random)
    const ask = (): void => {
      const promptTokens = 20 + Math.floor(400 * random.next())
      const request: RequestedAnswer = {
        id: asked++,
        atMs: simulation.nowMs,
        part: 'thin client',
        mode: 'cloud',
        device,
        promptTokens,
        outputTokens,
        sharedTokens: 0,
        tokensPerS: 20 + 10 * random.next(),
      }
      collector.ask(request)
      const answer = new Answer(request, simulation, collector)
      let patience = 0
      let made = 0
      const arrived = (): void => {
        simulation.cancel(patience)
        answer.deliver(1)
        if (answer.tokens < outputTokens) patience = simulation.after(patienceMs, gaveUp)
        else {
          answer.end()
          simulation.after(1_000 * random.next(), ask)
        }
      }
      const gaveUp = (): void => {
        throw new Error('no token came in time')
      }
      const nextToken = (): void => {
        link.send('down', tokenBytes, arrived)
        made += 1
        if (made < outputTokens) simulation.after(tokenMs * (0.5 + random.next()), nextToken)
      }
      processor.run(promptTokens / 10_000, () => {
        link.send('up', 100 * promptTokens, () => simulation.after(300 + 400 * random.next(), nextToken))
      })
    }
    simulation.after(1_000 * random.next(), ask)
  }
  return simulation
}

/** Actions that do nothing but plan the next one: what the clock itself costs, with so many of them waiting. */
export function bareEvents(waiting: number): Simulation {
  const simulation = new Simulation(1)
  const random = simulation.random('times')
  const again = (): void => {
    simulation.after(1_000 * random.next(), again)
  }
  for (let i = 0; i < waiting; i += 1) again()
  return simulation
}
