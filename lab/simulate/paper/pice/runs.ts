import { z } from 'zod'
import { modelBytes } from '../../device/small-model-step.ts'
import { headOf, wholeModel } from '../../hardware/model-shape.ts'
import { gpuNamed, modelNamed } from '../../hardware/presets/presets.ts'
import { headS, stepS, together, workOf } from '../../hardware/roofline.ts'
import type { ScenarioResult } from '../../run/result.ts'
import { publishedAs } from '../paper-file.ts'
import type { PaperRun } from '../quantity.ts'
import { meanOver } from '../run-scenarios.ts'
import { models, paper, routersModel, type Setting } from './settings.ts'

/** A setting's means over its seeds. */
export interface Run extends Setting {
  readonly answersPerMin: number
  readonly latencyS: number
  readonly ttftS: number
  /** Per answer: tokens of the LLM, and of small models. */
  readonly cloudTokens: number
  readonly edgeTokens: number
  /** Share of the time in which devices computed. */
  readonly deviceBusy: number
}

export function runOf(setting: Setting, results: readonly ScenarioResult[]): Run {
  const mean = meanOver(results)
  return {
    ...setting,
    answersPerMin: mean(({ all }) => 60 * all.answersPerS),
    latencyS: mean(({ all }) => all.latencyMs.mean / 1_000),
    ttftS: mean(({ all }) => all.ttftMs.mean / 1_000),
    cloudTokens: mean(({ all }) => all.work.serverOutputTokens / all.answered),
    edgeTokens: mean(({ all }) => all.work.deviceOutputTokens / all.answered),
    deviceBusy: mean(({ devices }) => devices.jetsons!.busyShare),
  }
}

const published = publishedAs(paper, 'table', z.record(z.string(), z.record(z.string(), z.tuple([z.number(), z.number()]))))

/** The runs, and what the paper's figures need beside them. */
export const comparedRuns = (runs: readonly Run[]): readonly PaperRun[] => [
  ...runs.map((run) => ({ ...run, ...(run.mbitPerS && { log10Mbit: Math.log10(run.mbitPerS) }) })),
  ...models.map((model) => ({ measured: 'speed', model, tokensPerS: streamTokensPerS(model) })),
  ...models.flatMap((model) =>
    Object.entries(published[model]!).map(([method, [answersPerMin, latencyS]]) => ({
      ...{ measured: 'paper', model, method, answersPerMin, latencyS },
    })),
  ),
  ...['PICE', 'Brim'].map((method) => bestQueue(runs, method)),
  ...models.map((model) => nearestRouter(runs, model)),
  nearestRule(runs),
]

function streamTokensPerS(model: string): number {
  const gpu = gpuNamed('a100-80')
  const shape = modelNamed(model)
  const hardware = together(gpu, modelBytes(shape) < gpu.memoryBytes ? 1 : 2)
  return 1 / (stepS(hardware, wholeModel(shape), workOf(1, 256)) + headS(hardware, headOf(shape), 1))
}

function bestQueue(runs: readonly Run[], method: string): PaperRun {
  const own = runs.filter((run) => run.measured === 'queue' && run.method === method)
  const perMin = own.map(({ answersPerMin }) => answersPerMin)
  const best = own.reduce((a, b) => (b.answersPerMin > a.answersPerMin ? b : a))
  return { ...best, measured: 'best queue', spread: 1 - Math.min(...perMin) / Math.max(...perMin) }
}

/** By the greater of the ratios to both figures. */
function nearest(tried: readonly Run[], answersPerMin: number, latencyS?: number): Run {
  const distance = (run: Run) =>
    Math.max(
      Math.abs(Math.log(run.answersPerMin / answersPerMin)),
      latencyS === undefined ? 0 : Math.abs(Math.log(run.latencyS / latencyS)),
    )
  return tried.reduce((best, run) => (distance(run) < distance(best) ? run : best))
}

function nearestRouter(runs: readonly Run[], model: string): PaperRun {
  const own = runs.filter((run) => run.method === 'routing' && run.model === model)
  const tried = ['cause', 'table'].flatMap((measured) => own.filter((run) => run.measured === measured))
  const { questions: requests, edgeShare } = paper.constants
  const defaults = { requests, edgeShare, router: routersModel(model) }
  return { ...defaults, ...nearest(tried, ...published[model]!.routing!), measured: 'nearest router', tried: tried.length }
}

function nearestRule(runs: readonly Run[]): PaperRun {
  const tried = runs.filter(({ measured, method }) => measured === 'cause' && method === 'PICE static')
  const [answersPerMin] = published['llama3-70b']!.PICE!
  return { ...nearest(tried, answersPerMin / publishedAs(paper, 'overStatic', z.number())), measured: 'nearest rule' }
}
