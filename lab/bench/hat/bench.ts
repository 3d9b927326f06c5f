import { z } from 'zod'
import type { Bench } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { fullPlan, quickPlan, restrictedPlan } from './plan.ts'
import { hatReport } from './report.ts'
import { benchHat } from './run.ts'
import { strategyNames } from './strategies.ts'

const options = {
  prompts: z
    .string()
    .min(1)
    .meta({
      description: 'JSON lines with "prompt" or "messages", which are cut and joined to length',
      fallback: "the demonstration's held-out prompts",
    })
    .optional(),
  strategies: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(z.enum(strategyNames, `must be a list of ${strategyNames.join(', ')}`)))
    .meta({ description: `strategies to measure, separated by commas: ${strategyNames.join(',')}`, fallback: 'all' })
    .optional(),
  rtt: z.number().min(0).default(20).describe('round-trip time in ms, without the time of the bytes'),
  seeds: z.int().min(1).meta({ description: 'number of seeds', fallback: '3, with --quick 1' }).optional(),
  rate: z
    .number()
    .gt(0)
    .default(1)
    .describe(`request rate, as a multiple of ${fullPlan.loaded.short.perS}/s (short) and ${fullPlan.loaded.long.perS}/s (long)`),
  netTrace: z
    .string()
    .min(1)
    .meta({ description: 'lines of "seconds Mbit/s" that shape the rates of the links', fallback: 'random walks' })
    .optional(),
}

export const hatBench: Bench<typeof options> = {
  name: 'hat',
  quickLimit: '4 minutes',
  options,
  examples: [['brim bench hat --strategies hat,u-shape --rtt 60', 'two strategies, far from the cloud']],
  goals: {
    ttftOverUShapeLong: { max: 0.62 },
    ttftOverUShapeLongLoaded: { max: 0.55 },
    ttftOverLimit: { max: 1.1 },
    ttftInt8OverUShapeLong: { max: 0.4 },
    ttftSecondTurnOverUShape: { max: 0.15 },
    tbtTimesAcceptOverUShapeShort: { max: 1.15 },
    tbtTimesAcceptOverUShapeLong: { max: 1.15 },
    tbtOverUShapeShort: { max: 0.5 },
    tbtOverUSarathiShort: { max: 0.65 },
    tbtOverUMedusaShort: { max: 0.7 },
    acceptLength: { min: 2.2 },
    decodeSpeedup: { min: 1.8 },
    cloudDelayCvOverUShape: { max: 0.6 },
    gError: { max: 0.15 },
    batch16OverSerial: { min: 2 },
    answersDifferent: { max: 0 },
  },
  async run(context, { prompts, strategies, rtt, seeds, rate, netTrace }) {
    const plan = restrictedPlan(context.quick ? quickPlan : fullPlan, { strategies, seeds, rate })
    return benchHat({ plan, prompts, rttMs: rtt, netTrace }, context)
  },
  report: hatReport,
}

/** `brim bench hat` */
export const command = benchCommand(hatBench)
