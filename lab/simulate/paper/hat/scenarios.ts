import { Scenario } from '../../scenario/scenario.ts'
import { type Dataset, type Method, paperPrompts } from './published.ts'

/** iperf3 counts megabytes of 2²⁰ bytes. */
const megabyte = 2 ** 20
/** Of the access points, which the paper does not state: a frame and its answer on WiFi. */
const rttMs = 4
/** Tokens of an answer: the paper states the maximum only. */
const answers = { kind: 'uniform', min: 64, max: 128 }
/** Of the workstation's 512 GB of memory: KV of streams that the GPUs cannot hold. */
const hostBytes = 256e9
/** Most tokens of the models' context that a prompt may have, beside 128 of an answer. */
const maxPromptTokens = 3_968

/** What differs between the data sets. */
const sets = {
  short: { model: 'vicuna-7b', inputLayers: 2, acceptLength: 2.06, medusaAcceptLength: 1.89, sarathiChunk: 128 },
  long: { model: 'vicuna-13b', inputLayers: 3, acceptLength: 1.98, medusaAcceptLength: 1.75, sarathiChunk: 256 },
} as const satisfies Record<Dataset, object>

/** Parts of the range of rates that the devices at 2, 8 and 14 m walk through. */
const distances = [
  [0.5, 1],
  [0.25, 0.75],
  [0, 0.5],
] as const
/** Devices of each board at each distance, and their memory clocks in its power modes, as shares of the highest. */
const boards = [
  { board: 'agx-orin-32', counts: [4, 3, 3], memoryClocks: [1, 1, 1, 0.67] },
  { board: 'agx-xavier', counts: [6, 7, 7], memoryClocks: [1, 0.75, 0.625, 0.5] },
] as const

/** HAT's parts (SD, PC, PD) that are in use, and what Brim adds. */
export interface HatParts {
  readonly drafts?: boolean
  readonly chunks?: boolean
  readonly draftAhead?: boolean
  readonly wire?: 'fp16' | 'int8'
  readonly deviceWeights?: 'fp16' | 'int4'
  readonly pacedDrafts?: boolean
  readonly threshold?: number
  readonly branching?: 'last' | 'each'
  readonly alternatives?: number
  readonly draftLimit?: number
  readonly acceptLength?: number
}

/** One run of a method on a data set. What the paper leaves open has a default here, and may be varied. */
export interface Setup {
  readonly dataset: Dataset
  readonly method: Method
  readonly parts?: HatParts
  /** Requests per second of all devices. */
  readonly perS: number
  /** P. */
  readonly pipeline?: number
  /** One device alone, an AGX Orin near the access point. */
  readonly alone?: boolean
  readonly promptTokens?: number
  readonly outputTokens?: number
  /** Factor of the prompts' lengths. */
  readonly lengths?: number
  /** Lowest and highest MB/s up and down. */
  readonly rates?: { readonly up: readonly [number, number]; readonly down: readonly [number, number] }
  /** Whether devices that wait for an answer ask, too. */
  readonly anyoneAsks?: boolean
  /** Whether all 30 devices are AGX Orin. */
  readonly onlyOrin?: boolean
  /** Whether power modes are drawn, which change the memory's clock. */
  readonly drawsPowerModes?: boolean
  /** Whether a prompt's pieces overlap in the pipeline. */
  readonly pipelinedPrompts?: boolean
}

export const paperRates = { up: [5, 10], down: [10, 15] } as const satisfies Setup['rates']

/** The paper's set-up: 30 Jetsons, a pipeline of A6000, at most 128 tokens per answer (HAT §4.1). */
export function scenarioOf(setup: Setup, requests: number, seed: number): Scenario {
  const { dataset, method, perS, parts = {}, pipeline = 4, alone = false, anyoneAsks = false, pipelinedPrompts = true } = setup
  const { model, inputLayers, acceptLength, medusaAcceptLength, sarathiChunk } = sets[dataset]
  const isWhole = method !== 'hat' || parts.chunks === false
  // The bridge's default for HAT; the baselines compute a prompt in one step.
  const promptRows = method === 'u-sarathi' ? sarathiChunk : isWhole ? 2_048 : 128
  return Scenario.parse({
    name: `${method}, ${dataset} prompts`,
    seed,
    cloud: {
      model,
      gpu: 'a6000',
      pipeline,
      pipelinedPrompts,
      inputLayers,
      slowBytes: hostBytes,
      policy: 'decode-first',
      // The paper's server answers every request.
      memoryWaitS: 'unlimited',
      promptRows,
      stepRows: method === 'u-sarathi' ? sarathiChunk : 2_048,
    },
    devices: alone
      ? groupsOf(setup)
          .slice(0, 1)
          .map((group) => ({ ...group, count: 1 }))
      : groupsOf(setup),
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS },
      promptTokens: setup.promptTokens ?? promptTokensOf(dataset, setup.lengths ?? 1),
      outputTokens: setup.outputTokens ?? answers,
      askers: anyoneAsks ? 'any' : 'idle',
      modes: [{ mode: method }],
    },
    policies: { hat: { acceptLength, medusaAcceptLength, ...parts } },
  })
}

function groupsOf({ rates = paperRates, drawsPowerModes = false, onlyOrin = false }: Setup): object[] {
  const walk = ([low, high]: readonly [number, number], [from, to]: readonly [number, number]) => ({
    walk: [megabyte * (low + from * (high - low)), megabyte * (low + to * (high - low))],
  })
  return boards.flatMap(({ board, counts, memoryClocks }) =>
    distances.map((part, at) => ({
      name: `${board}, ${[2, 8, 14][at]} m`,
      count: counts[at],
      board: onlyOrin ? 'agx-orin-32' : board,
      powerModes: drawsPowerModes ? memoryClocks : [1],
      link: { up: walk(rates.up, part), down: walk(rates.down, part), rttMs },
    })),
  )
}

/** Log-normal, with the paper's mean and standard deviation. */
function promptTokensOf(dataset: Dataset, factor: number): object {
  const { mean, deviation } = paperPrompts[dataset]
  const variance = Math.log(1 + (deviation / mean) ** 2)
  const median = factor * mean * Math.exp(-variance / 2)
  return { kind: 'lognormal', median, sigma: Math.sqrt(variance), max: maxPromptTokens }
}
