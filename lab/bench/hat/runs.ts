import type { Answered } from './client.ts'
import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** One request and its answer. */
export interface Sample extends Omit<Answered, 'tokenIds'> {
  readonly device: number
  /** When it was asked, since the load began. */
  readonly atMs: number
  /** The answer is the reference's; null where it is not held to that (int8). */
  identical: boolean | null
  /** Tokens where rounding alone decided between the reference's two likeliest. */
  nearTies: number
  /** Asked alone: what the bridge computed for the prompt, and what the link allows at best. */
  readonly prefill?: PrefillFigures
}

export interface PrefillFigures {
  /** Device, cloud and the rest of TTFT, ms. */
  readonly deviceMs: number
  readonly cloudMs: number
  readonly networkMs: number
  /** No TTFT is below this: first chunk's input pass, upload by the link's trace, g of the last chunk, round trip, head. */
  readonly limitMs: number
}

/** What a run was for. */
export type Measured = 'loaded' | 'rates' | 'ablation' | 'alone' | 'second-turn' | 'longest' | 'rtt'

export interface Utilisation {
  /** Of its core, by the process; null where the system does not tell. */
  readonly bridge: number | null
  /** Agents, links and load, of the core that they share. */
  readonly others: number | null
  /** Of their core, by whatever else runs on the machine. */
  readonly foreign: number | null
  /** Time that the middle part was computing. */
  readonly computing: number
}

export interface HatRun {
  readonly measured: Measured
  readonly strategy: StrategyName
  readonly workload: WorkloadName
  readonly seed: number
  readonly devices: number
  readonly rttMs: number
  /** Requests per second of all devices together; null where they are asked one after the other. */
  readonly perS: number | null
  readonly utilisation: Utilisation | null
  /** The core of agents and load was too busy for these figures to say anything of the system. */
  readonly isVoid: boolean
  readonly samples: readonly Sample[]
  /** Every step of the bridge meanwhile: "items/tokens/computed ms/predicted ms", separated by spaces. */
  readonly steps: string
}

export interface StepFigures {
  readonly items: number
  readonly tokens: number
  readonly computeMs: number
  readonly predictedMs: number | null
}

export function encodeSteps(steps: readonly StepFigures[]): string {
  const written = (ms: number | null) => (ms === null ? '' : ms.toFixed(2))
  return steps
    .map(({ items, tokens, computeMs, predictedMs }) => `${items}/${tokens}/${written(computeMs)}/${written(predictedMs)}`)
    .join(' ')
}

export function decodeSteps(text: string): StepFigures[] {
  if (text === '') return []
  return text.split(' ').map((step) => {
    const [items, tokens, computeMs, predictedMs] = step.split('/')
    return {
      items: Number(items),
      tokens: Number(tokens),
      computeMs: Number(computeMs),
      predictedMs: predictedMs ? Number(predictedMs) : null,
    }
  })
}
