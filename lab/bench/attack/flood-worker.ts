import { setTimeout as sleep } from 'node:timers/promises'
import type { AttackTarget, Flood } from '../../attack/flood.ts'
import { floods } from '../../attack/floods.ts'
import { serveRequests } from '../../cluster/worker-process.ts'

/** A flood by its name, and with whose identity it attacks. */
export interface FloodAttack {
  readonly flood: string
  readonly target: AttackTarget
}

/** The attacker: a process that runs floods side by side, so that they do not delay the honest device's measurements. */
export interface FloodRequest {
  readonly attacks: readonly FloodAttack[]
  readonly ms: number
}

export type FloodCounts = Readonly<Record<string, number>>
/** Counts by flood. */
export type FloodReply = Readonly<Record<string, FloodCounts>>

const pauseMs = 50

/** Repeats a flood that ends by itself, until the signal is aborted. */
async function repeat(flood: Flood, target: AttackTarget, signal: AbortSignal): Promise<FloodCounts> {
  const total: Record<string, number> = {}
  const add = (counts: FloodCounts) => {
    for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count
  }
  while (!signal.aborted) {
    await flood.run(target, signal).then(add, () => add({ broken: 1 }))
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
  return total
}

serveRequests(async ({ attacks, ms }: FloodRequest): Promise<FloodReply> => {
  const signal = AbortSignal.timeout(ms)
  const attack = async ({ flood, target }: FloodAttack) => {
    const found = floods.find(({ name }) => name === flood)!
    return [flood, await repeat(found, target, signal)] as const
  }
  const [counts] = await Promise.all([Promise.all(attacks.map(attack)), sleep(ms)])
  return Object.fromEntries(counts)
})
// A socket that the bridge has closed must not end the attack.
process.on('uncaughtException', () => {})
