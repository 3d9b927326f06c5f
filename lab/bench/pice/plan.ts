import type { StepPace } from '../../cluster/cluster.ts'
import { picked } from '../../frame/columns.ts'
import { onlyNamed, seedsFrom } from '../../frame/options.ts'
import type { MethodName } from './methods.ts'

/** Of the emulated cloud and of each emulated device. */
export interface Paces {
  readonly cloud: StepPace
  readonly device: StepPace
}

/** What is measured, and how often. */
export interface Plan {
  readonly seeds: readonly number[]
  readonly devices: number
  readonly paces: Paces
  /** Of any answer: one that loops ends here. */
  readonly answerTokens: number
  /** Answers in full, and as many by sketch, before the runs of a bridge. */
  readonly warmAnswers: number
  /** Different prompts; the requests of a run take turns with them. */
  readonly prompts: number
  readonly requests: number
  /** Loads of each method that is compared. */
  readonly loads: Readonly<Partial<Record<MethodName, readonly number[]>>>
  /** Sensitivity at the paper's load: expansions that may wait for each device, and rates of the devices' links. */
  readonly waitingPerDevice: readonly number[]
  readonly bytesPerS: readonly number[]
  readonly sensitivityRequests: number
  /** Questions that are answered while a device hangs. */
  readonly silentRequests: number
  /** Questions that are asked beside a device that writes rubbish. */
  readonly rubbishRequests: number
  /** Repeats of the measurements on one device. */
  readonly deviceRepeats: number
}

/**
 * Requests per second over the answers per second that the cloud gives when it is saturated. The paper counts in maximum batches
 * per minute: its cloud-only serves 16.33 of a maximum batch of 20 (Llama3-70B, Table III), so that its 1.5 is this load.
 * Beyond a load of x, no method can have more than x times the throughput of the cloud alone.
 */
export const paperLoad = (1.5 * 20) / 16.33
/** At which cloud and devices have time for every answer. */
export const halfLoad = 0.5
/** 1.5 times what the cloud serves. */
export const overload = 1.5

/**
 * Steps of the emulated machines. In the paper a step of 20 answers in the cloud takes little longer than one of a single answer:
 * here one of 16 takes 1.34 times as long. A device is slowed so far that four of them, each answering one question at a time,
 * serve about 0.37 of what the cloud serves: the paper's Jetsons with Llama3-8B beside its cloud with Llama3-70B (Table III).
 */
const paces: Paces = {
  cloud: { stepMs: 15, rowMs: 0.35 },
  device: { stepMs: 14, rowMs: 0.7 },
}

const allLoads = [halfLoad, 1, overload, paperLoad, 3]

export const fullPlan: Plan = {
  seeds: [1],
  // As many as the paper has Jetsons.
  devices: 4,
  paces,
  answerTokens: 400,
  warmAnswers: 16,
  prompts: 30,
  requests: 144,
  loads: {
    'cloud-only': allLoads,
    'edge-only': [halfLoad, overload, paperLoad],
    'routing by length': [halfLoad, overload, paperLoad],
    'routing by difficulty': allLoads,
    'PICE static': [halfLoad, overload, paperLoad],
    PICE: allLoads,
  },
  waitingPerDevice: [1, 2, 4, 8],
  bytesPerS: [4_000, 20_000, 100_000],
  sensitivityRequests: 48,
  silentRequests: 6,
  rubbishRequests: 20,
  deviceRepeats: 3,
}

/** Every goal, from fewer and smaller runs. */
export const quickPlan: Plan = {
  ...fullPlan,
  prompts: 16,
  // Of half as many, a third were the last ones, beside which cloud and devices are idle.
  requests: 96,
  loads: {
    'cloud-only': [halfLoad, paperLoad],
    'routing by difficulty': [paperLoad],
    'PICE static': [paperLoad],
    PICE: [halfLoad, paperLoad],
  },
  waitingPerDevice: [],
  bytesPerS: [],
  silentRequests: 3,
  rubbishRequests: 8,
  deviceRepeats: 1,
}

/** With what the command line gives; undefined: as planned. */
export function restrictedPlan(
  plan: Plan,
  { methods, seeds }: { readonly methods?: readonly MethodName[] | undefined; readonly seeds?: number | undefined },
): Plan {
  const names = onlyNamed(Object.keys(plan.loads) as MethodName[], methods)
  return { ...plan, loads: picked(plan.loads, names), seeds: seedsFrom(seeds, plan.seeds) }
}
