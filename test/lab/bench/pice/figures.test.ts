import { describe, expect, it } from 'vitest'
import type { FilePrompt } from '../../../../core/model/text/prompt-file.ts'
import { piceBench } from '../../../../lab/bench/pice/bench.ts'
import { keywordSketch, sketchSentences } from '../../../../lab/bench/pice/device.ts'
import {
  figuresOf,
  methodRatio,
  parallelOverSequential,
  piceFigures,
  prefixTokensSaved,
} from '../../../../lab/bench/pice/figures.ts'
import { type MethodName, methodNames } from '../../../../lab/bench/pice/methods.ts'
import { fullPlan, halfLoad, overload, paperLoad, quickPlan, restrictedPlan } from '../../../../lab/bench/pice/plan.ts'
import type { Measured, PiceRun, PiceSample } from '../../../../lab/bench/pice/runs.ts'
import { longPrompts, saturatedPerS } from '../../../../lab/bench/pice/workload.ts'
import { summaryOf } from '../../../../lab/frame/figures.ts'
import { benchPage } from '../../../../lab/frame/page.ts'
import { renderFigure } from '../../../../lab/plot/plot.ts'

const sample = (given: Partial<PiceSample> = {}): PiceSample => ({
  prompt: 'p',
  atMs: 0,
  ttftMs: 500,
  tookMs: 2_000,
  by: 'cloud',
  reason: null,
  level: null,
  foreseenTokens: null,
  plannedS: null,
  sketchLines: 0,
  completedSentences: 0,
  formKept: null,
  cloudTokens: 200,
  edgeTokens: 0,
  tokens: 200,
  quality: { rouge1: 1, meanLog2Probability: -1, confidence: 0.8 },
  error: null,
  ...given,
})

interface RunOf {
  readonly measured?: Measured
  readonly method?: MethodName
  readonly load?: number
  readonly seed?: number
  readonly setting?: number | null
}
const run = (given: RunOf, samples: readonly PiceSample[]): PiceRun => ({
  measured: 'compared',
  method: 'PICE',
  seed: 1,
  load: paperLoad,
  perS: 2,
  setting: null,
  bridgeCore: 0.2,
  devicesCore: 0.4,
  samples,
  ...given,
})

describe('the figures of a run', () => {
  it('count from the first request to the last answer', () => {
    const figures = figuresOf(run({}, [sample(), sample({ atMs: 4_000, tookMs: 6_000, by: 'sketch' })]))
    expect(figures).toMatchObject({
      answersPerMin: 12,
      latencyMeanS: 4,
      ttftMeanS: 0.5,
      answered: 1,
      sketched: 0.5,
      perplexity: 2,
    })
  })

  it('leave out what was not answered, and say how much that is', () => {
    const failed = sample({ tookMs: null, ttftMs: null, quality: null, tokens: null, error: 'gone [LINK_LOST]' })
    expect(figuresOf(run({}, [sample(), failed]))).toMatchObject({ answered: 0.5, latencyMeanS: 2, answersPerMin: 30 })
    expect(figuresOf(run({}, [failed]))).toMatchObject({ answered: 0, latencyMeanS: null, answersPerMin: null, perplexity: null })
  })

  it('are compared between methods at one load, seed by seed', () => {
    const runs = [1, 2, 3].flatMap((seed) => [
      run({ seed }, [sample({ tookMs: 1_000 * seed })]),
      run({ seed, method: 'cloud-only' }, [sample({ tookMs: 4_000 })]),
      run({ seed, method: 'cloud-only', load: halfLoad }, [sample({ tookMs: 1 })]),
    ])
    expect(methodRatio(runs, 'latencyMeanS', ['PICE', 'cloud-only'], paperLoad)).toBe(0.5)
    expect(methodRatio(runs, 'latencyMeanS', ['PICE', 'PICE static'], paperLoad)).toBeNull()
  })

  it('of one device are the saved prompt positions and the gain in tokens per second', () => {
    const device = {
      promptTokens: 1_000,
      prefilledTokens: 190,
      groups: 10,
      parallelMs: 500,
      parallelTokens: 200,
      sequentialMs: 2_000,
      sequentialTokens: 200,
    }
    expect(prefixTokensSaved(device)).toBeCloseTo(0.81)
    expect(parallelOverSequential(device)).toBeCloseTo(4)
  })
})

describe('the plan', () => {
  it('compares every method at the loads of the goals, with --quick those that the figures name', () => {
    const named = ['cloud-only', 'routing by difficulty', 'PICE static', 'PICE'] as const
    for (const [plan, methods] of [[fullPlan, methodNames] as const, [quickPlan, named] as const]) {
      for (const method of methods) expect(plan.loads[method], method).toContain(paperLoad)
      for (const method of ['PICE', 'cloud-only'] as const) expect(plan.loads[method]).toContain(halfLoad)
    }
    expect(fullPlan.loads.PICE).toContain(overload)
  })

  it('can be restricted to methods and seeds', () => {
    const plan = restrictedPlan(fullPlan, { methods: ['PICE'], seeds: 2 })
    expect(Object.keys(plan.loads)).toEqual(['PICE'])
    expect(plan.seeds).toEqual([1, 2])
  })

  it('emulates a cloud that decodes 16 answers in 1.34 times the time of one', () => {
    const { stepMs, rowMs } = fullPlan.paces.cloud
    expect((stepMs + 16 * rowMs) / (stepMs + rowMs)).toBeCloseTo(1.34, 1)
  })
})

describe('the workload', () => {
  const prompt = (id: string, task: string): FilePrompt => ({ id, task, ids: [1], messages: [{ role: 'user', content: id }] })

  it('has prompts for long answers, the same ones each time', () => {
    const prompts = [prompt('a', 'guide'), prompt('b', 'story-qa'), prompt('c', 'tale')]
    const chosen = longPrompts(prompts, 10)
    expect(chosen.map(({ id }) => id).sort()).toEqual(['a', 'c'])
    expect(longPrompts(prompts, 10)).toEqual(chosen)
    expect(longPrompts(prompts, 1)).toHaveLength(1)
  })

  it('measures capacity while all places are taken, parts of answers included', () => {
    // Two places, three answers of 10 pieces and 1 s each: the third begins when a place is free, and runs alone at the end.
    const pieces = (fromMs: number) => Array.from({ length: 10 }, (_, i) => fromMs + 100 * (i + 1))
    expect(saturatedPerS([pieces(0), pieces(0), pieces(1_000)], 2)).toBeCloseTo(2)
  })
})

describe('a sketch of key words', () => {
  it('has ten lines, those of a shorter text again', () => {
    const lines = keywordSketch('The fox went to the old mill. He was hungry! And so it goes.')
    expect(lines).toHaveLength(sketchSentences)
    expect(lines.slice(0, 4)).toEqual(['fox went old mill', 'hungry', 'goes', 'fox went old mill'])
    expect(keywordSketch('')).toHaveLength(sketchSentences)
  })
})

describe('the page', () => {
  const runs = methodNames.flatMap((method) =>
    [halfLoad, paperLoad].map((load) =>
      run({ method, load }, [sample({ by: method === 'PICE' ? 'sketch' : 'cloud', level: 2 }), sample()]),
    ),
  )
  const varied = [
    run({ measured: 'queue length', setting: 4 }, [sample()]),
    run({ measured: 'bandwidth', setting: 4_000 }, [sample()]),
  ]
  const capacity = { cloudPerS: 2, edgePerS: 1, cloudTokens: 200, edgeTokens: 180, cloudTokenS: 0.01, edgeTokenS: 0.01 }
  const document = (all: readonly PiceRun[]) => ({
    bench: 'pice',
    conditions: {
      command: 'c',
      startedAt: 's',
      commit: 'x',
      cpu: 'c',
      memoryGiB: 1,
      platform: 'p',
      node: 'n',
      loadAverageBefore: 0,
      loadAverageAfter: 0,
      model: 'm',
      modelId: 'i',
      format: 'f',
      smallModels: ['s'],
      tasks: ['guide'],
      machine: { stepMs: 1, rowMs: 0.2 },
      plan: fullPlan,
      capacity,
      devices: [],
    },
    summary: summaryOf(piceFigures, { runs: all, devices: [], silent: [], rubbish: { answers: 4, served: 0, jobs: 1 } }),
    runs: all,
  })

  it.each([
    ['everything', [...runs, ...varied]],
    ['one method', runs.filter(({ method }) => method === 'PICE')],
  ])('reports %s that was measured', (_, all) => {
    const page = benchPage(document(all), piceBench.report, piceBench.goals)
    expect(page).not.toMatch(/undefined|NaN|Infinity/)
    for (const { method } of all) expect(page).toContain(method)
    expect(renderFigure(piceBench.report.figure(document(all)))).not.toMatch(/NaN|undefined|Infinity/)
  })

  it('has every goal in the summary', () => {
    expect(
      Object.keys(summaryOf(piceFigures, { runs, devices: [], silent: [], rubbish: { answers: 4, served: 0, jobs: 1 } })),
    ).toEqual(expect.arrayContaining(Object.keys(piceBench.goals)))
  })
})
