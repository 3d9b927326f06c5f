import { seededRandom } from '../../../core/base/random.ts'
import type { ChaosBroker } from './cluster.ts'

export const victims = ['agent', 'bridge', 'link', 'broker'] as const
export type Victim = (typeof victims)[number]

export interface Fault {
  readonly victim: Victim
  /** Index of the device, where the victim is an agent. */
  readonly agent: number
  /** Since the fault before was repaired. */
  readonly afterMs: number
}

/** Random faults that follow from the seed. Half of them hit agents. */
export function planFaults(count: number, seed: number, agents: number, broker: ChaosBroker): Fault[] {
  const random = seededRandom(seed)
  const others: readonly Victim[] = broker === 'mosquitto' ? ['bridge', 'link', 'broker'] : ['bridge', 'link']
  return Array.from({ length: count }, () => {
    const dice = random.next()
    const victim = dice < 0.5 ? 'agent' : others[Math.floor((dice - 0.5) * 2 * others.length)]!
    return { victim, agent: Math.floor(random.next() * agents), afterMs: 100 + 900 * random.next() }
  })
}
