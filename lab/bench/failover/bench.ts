import { z } from 'zod'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { failoverReport } from './report.ts'
import { benchFailover, minAnswerTokens } from './run.ts'

const quickRuns = 10

const options = {
  bundle: z.string().min(1).meta({ description: 'folder of a split bundle', fallback: 'the demonstration model' }).optional(),
  runs: z.int().min(1).default(100).describe('number of answers, each with one fault'),
  seed: z.int().min(0).default(1).describe('seed of questions, faults and moments'),
  maxTokens: z.int().min(minAnswerTokens).default(48).describe('maximum length of an answer, in tokens'),
}

export const failoverBench: Bench<typeof options> = {
  name: 'failover',
  options,
  examples: [['brim bench failover --runs 20 --seed 7', 'other faults at other moments']],
  goals: {
    different: { max: 0 },
    duplicatedTokens: { max: 0 },
    touchedNeighbours: { max: 0 },
    lostSMax: { max: 20 },
  },
  async run(context, { bundle, runs, seed, maxTokens }) {
    const folder = bundle ?? (await ensureDemoBundle())
    return benchFailover({ bundle: folder, runs: context.quick ? Math.min(runs, quickRuns) : runs, seed, maxTokens }, context)
  },
  report: failoverReport,
}

/** `brim bench failover` */
export const command = benchCommand(failoverBench)
