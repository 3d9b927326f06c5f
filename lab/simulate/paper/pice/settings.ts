import { z } from 'zod'
import type { Scenario } from '../../scenario/scenario.ts'
import { experimentsOf, scenarioFor } from '../experiments.ts'
import { publishedAs, readPaper } from '../paper-file.ts'

export const paper = readPaper('pice')
const { constants } = paper

const byModel = z.record(z.string(), z.number())
const sizes = publishedAs(paper, 'sizes', byModel)
const speeds = publishedAs(paper, 'speeds', byModel)
const abilities = publishedAs(paper, 'abilities', byModel)
export const models = Object.keys(sizes)
const smallest = 'qwen2.5-1.5b'

export interface Setting {
  readonly measured: string
  readonly method: string
  readonly model: string
  /** Requests per minute. */
  readonly rpm: number
  /** Expansions that may wait for all devices together; undefined: PICE's one, Brim's two for each device. */
  readonly queue?: number
  readonly mbitPerS?: number
  /** Of a router: the share of the questions that it gives to devices, and their small model. */
  readonly edgeShare?: number
  readonly router?: string
  readonly requests?: number
  /** Shorter answers are not sketched. */
  readonly minTokens?: number
}

/**
 * The maximum batch: 20 for the 72B, the others' in proportion to their speeds (Table I). That of the 32B there is of one GPU, so that its
 * weights do not count for what four of them give: it counts with 35 tokens/s, the roofline of two.
 */
export function batchOf(model: string): number {
  const speed = model === 'qwen2.5-32b' ? 35 : speeds[model]!
  return Math.round((20 * speed) / speeds['qwen2.5-72b']!)
}

/** Smaller than the cloud's, or the smallest of all. */
export function smallModelsFor(model: string): readonly string[] {
  const smaller = models.filter((name) => name in abilities && sizes[name]! < sizes[model]!)
  return smaller.length > 0 ? smaller : [smallest]
}

/** A router's small model: the largest that the LLM exceeds ten times, as the paper recommends, else the smallest. */
export const routersModel = (model: string): string =>
  smallModelsFor(model).find((small) => 10 * sizes[small]! <= sizes[model]!) ?? smallest

/** RPM of Table III: 1.5 times the maximum batch (§V-B). */
export const settingsOf = (isQuick: boolean): readonly Setting[] =>
  experimentsOf<Setting>(paper, isQuick).map(({ measured, method, model, ...varied }) => ({
    ...{ measured, method, model, rpm: 1.5 * batchOf(model) },
    ...varied,
  }))

export function scenarioOf(setting: Setting, seed: number): Scenario {
  const { method, model, rpm, queue, minTokens, requests = constants.questions } = setting
  const { devices, answerMean, answerSigma, answerMax } = constants
  const bytesPerS = ((setting.mbitPerS ?? constants.mbitPerS!) * 1e6) / 8
  const smallModels =
    method === 'edge-only' ? [model] : method === 'routing' ? [setting.router ?? routersModel(model)] : smallModelsFor(model)
  const link = { up: bytesPerS, down: bytesPerS, rttMs: 10 }
  const median = answerMean! / Math.exp(answerSigma! ** 2 / 2)
  return scenarioFor(paper, setting, {
    name: `${method}, ${model}`,
    seed,
    cloud: { model, answersAtOnce: batchOf(model) },
    devices: [{ ...paper.scenario.device, count: devices, smallModels, link }],
    policies: {
      pice: {
        ...(queue !== undefined && { waitingPerDevice: queue / devices! }),
        ...(minTokens !== undefined && { minTokens }),
      },
      routing: { ...(setting.edgeShare !== undefined && { edgeShare: setting.edgeShare }) },
    },
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS: rpm / 60 },
      outputTokens: { kind: 'lognormal', median, sigma: answerSigma, max: answerMax },
    },
  })
}
