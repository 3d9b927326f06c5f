import type { Scenario } from '../../scenario/scenario.ts'
import { experimentsOf, scenarioFor } from '../experiments.ts'
import { readPaper } from '../paper-file.ts'

export const paper = readPaper('tokenflow')
export const { setup: setups, server: servers } = paper.scenario.by as {
  readonly [Name in 'setup' | 'server']: Readonly<Record<string, { readonly cloud: object }>>
}

export interface Case {
  readonly setup: string
  readonly server: string
  /** That readers take; default: 20. */
  readonly tokensPerS?: number
  /** Δt and μ_b of TokenFlow. */
  readonly intervalMs?: number
  readonly conservativeness?: number
  /** What an ablation leaves out. */
  readonly without?: string
}

/** Every run that a figure needs, once. */
export const cases: readonly Case[] = experimentsOf<Case>(paper, false).map(({ setup, server, ...changes }) => ({
  setup,
  server,
  ...changes,
}))

/** Same name, same scenario. */
export const nameOf = ({ setup, server, ...changes }: Case): string =>
  [setup, server, ...Object.entries(changes).map(([name, value]) => `${name} ${value}`)].join(', ')

export function scenarioOf(one: Case, seed: number): Scenario {
  const { tokensPerS = paper.constants.tokensPerS, intervalMs, conservativeness } = one
  return scenarioFor(paper, one, {
    name: nameOf(one),
    seed,
    workload: { readers: [{ tokensPerS, share: 1 }] },
    policies: { tokenflow: { ...(intervalMs && { intervalMs }), ...(conservativeness && { conservativeness }) } },
  })
}

/** Of requests whose arrivals and lengths are recorded, the same with every seed: the file in the folder of the traces. */
export function traceOf(setup: string): string | undefined {
  const { arrivals } = scenarioOf({ setup, server: 'SGLang' }, 1).workload
  return arrivals.kind === 'trace' ? arrivals.file : undefined
}
