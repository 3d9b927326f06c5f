import { onlyNamed, seedsFrom } from '../../frame/options.ts'
import { ablated, crowdServers, policies, type ServerName } from './servers.ts'
import type { WorkloadName } from './workload.ts'

/** What is measured, and how often. */
export interface Plan {
  readonly seeds: readonly number[]
  /** Servers in turn on each workload, with every seed. */
  readonly compared: readonly WorkloadName[]
  readonly servers: readonly ServerName[]
  /** Servers of the workloads in `rates`, which have the first seed only. */
  readonly rates: readonly WorkloadName[]
  readonly rateServers: readonly ServerName[]
  /** Readers at once in great numbers, with the first seed only. */
  readonly crowds: readonly WorkloadName[]
  readonly crowdServers: readonly ServerName[]
  /** Seeds of the ablation, on the workload of the paper's Table 2. */
  readonly ablation: { readonly workload: WorkloadName; readonly servers: readonly ServerName[]; readonly seeds: number }
  /** Share of each workload's requests. */
  readonly share: number
  /** Answers at once of a bridge in full steps whose fast tier holds them all, and their length. */
  readonly saturated: { readonly streams: number; readonly answerTokens: number }
  /** Turns with and without write-through. */
  readonly costTurns: number
  /** Restarts of a bridge that was killed. */
  readonly restarts: number
}

export const fullPlan: Plan = {
  seeds: [1, 2, 3],
  compared: ['burst 60 SL', 'burst 80 LL', 'Poisson 2', 'Poisson 4', 'azure', 'mooncake'],
  servers: policies,
  rates: ['rate 20', 'rate 30', 'rates 15 and 20'],
  rateServers: policies,
  crowds: ['matched crowd', 'overloading crowd'],
  crowdServers,
  ablation: { workload: 'burst 80 LL', servers: ablated, seeds: 3 },
  share: 1,
  saturated: { streams: 16, answerTokens: 160 },
  costTurns: 8,
  restarts: 8,
}

/** Every goal, from fewer and smaller runs. */
export const quickPlan: Plan = {
  ...fullPlan,
  seeds: [1],
  compared: ['burst 60 SL'],
  rates: [],
  ablation: { workload: 'burst 60 SL', servers: ablated, seeds: 1 },
  share: 0.5,
  costTurns: 3,
  restarts: 3,
}

/** With what the command line gives; undefined: as planned. */
export function restrictedPlan(
  plan: Plan,
  { workloads, seeds }: { readonly workloads?: readonly WorkloadName[] | undefined; readonly seeds?: number | undefined },
): Plan {
  const only = (all: readonly WorkloadName[]) => onlyNamed(all, workloads)
  const { compared, rates, crowds } = plan
  return { ...plan, seeds: seedsFrom(seeds, plan.seeds), compared: only(compared), rates: only(rates), crowds: only(crowds) }
}
