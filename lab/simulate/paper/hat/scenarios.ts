import { z } from 'zod'
import type { Scenario } from '../../scenario/scenario.ts'
import { experimentsOf, scenarioFor } from '../experiments.ts'
import { type Dataset, datasets, methods, paper, paperAlone, paperPrompts } from './published.ts'

/** iperf3 counts megabytes of 2²⁰ bytes. */
const megabyte = 2 ** 20
/** Of the access points, which the paper does not state: a frame and its answer on WiFi. */
const rttMs = 4
/** Most tokens of the models' context that a prompt may have, beside 128 of an answer. */
const maxPromptTokens = 3_968
const sarathiChunk = { short: 128, long: 256 }

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

const range = z.tuple([z.number(), z.number()])

/** One run of a method on a data set. What the paper leaves open has a default here, and may be varied. */
const Setup = z.strictObject({
  dataset: z.enum(datasets),
  method: z.enum(methods),
  /** Requests per second of all devices. */
  perS: z.number(),
  /** HAT's parts (SD, PC, PD) that are in use, and what Brim adds: settings of the scenario's policy. */
  parts: z.record(z.string(), z.union([z.boolean(), z.string(), z.number(), z.null()])).optional(),
  /** Factor of the tokens that a verification gains. */
  drafterGain: z.number().optional(),
  /** P. */
  pipeline: z.number().optional(),
  /** One device alone, an AGX Orin near the access point. */
  alone: z.boolean().optional(),
  promptTokens: z.number().optional(),
  outputTokens: z.number().optional(),
  /** Factor of the prompts' lengths. */
  lengths: z.number().optional(),
  /** Lowest and highest MB/s up and down. */
  rates: z.object({ up: range, down: range }).optional(),
  /** Whether devices that wait for an answer ask, too. */
  anyoneAsks: z.boolean().optional(),
  /** Whether all 30 devices are AGX Orin. */
  onlyOrin: z.boolean().optional(),
  /** Whether power modes are drawn, which change the memory's clock. */
  drawsPowerModes: z.boolean().optional(),
  /** Whether a prompt's pieces overlap in the pipeline. */
  pipelinedPrompts: z.boolean().optional(),
})
export type Setup = z.output<typeof Setup>

export interface Planned {
  /** What the run is for, and what differs in it. */
  readonly purpose: string
  readonly variation: string
  readonly setup: Setup
  readonly requests: number
}

export const statedPerS = (dataset: Dataset): number => paper.constants[`${dataset}PerS`]!

/** @param requests of a run; one device alone has a tenth of them */
export const plannedRuns = (requests: number): readonly Planned[] =>
  experimentsOf<Omit<Planned, 'setup' | 'requests'> & Setup>(paper, false).map(({ purpose, variation, ...given }) => {
    const { dataset, method, perS = statedPerS(dataset), ...varied } = given
    const setup = Setup.parse({ dataset, method, perS, ...varied })
    const name = variation ?? (purpose === 'alone' ? method : `${perS}/s`)
    return { purpose, variation: name, setup, requests: setup.alone ? Math.ceil(requests / 10) : requests }
  })

export function scenarioOf(setup: Setup, requests: number, seed: number): Scenario {
  const { dataset, method, perS, parts = {}, drafterGain = 1, pipeline = 4, alone = false } = setup
  const { anyoneAsks = false, pipelinedPrompts = true, promptTokens, outputTokens } = setup
  const groups = groupsOf(setup)
  const chunk = sarathiChunk[dataset]
  const { hat, 'u-medusa': medusa } = paperAlone[dataset]
  return scenarioFor(paper, setup, {
    name: `${method}, ${dataset} prompts`,
    seed,
    cloud: {
      pipeline,
      pipelinedPrompts,
      ...(method === 'u-sarathi' && { promptRows: chunk, stepRows: chunk }),
      ...(parts.chunks === false && { promptRows: 2_048 }),
    },
    devices: alone ? [{ ...groups[0], count: 1 }] : groups,
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS },
      promptTokens: promptTokens ?? promptTokensOf(dataset, setup.lengths ?? 1),
      ...(outputTokens !== undefined && { outputTokens }),
      askers: anyoneAsks ? 'any' : 'idle',
      modes: [{ mode: method }],
    },
    policies: { hat: { acceptLength: drafterGain * hat[0], medusaAcceptLength: medusa[0], ...parts } },
  })
}

const paperRates: NonNullable<Setup['rates']> = { up: [5, 10], down: [10, 15] }

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
