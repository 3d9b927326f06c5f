import { z } from 'zod'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { chaosBrokers } from './cluster.ts'
import { chaosReport } from './report.ts'
import { benchChaos } from './run.ts'

const quickKills = 10

const options = {
  broker: z.enum(chaosBrokers).default('embedded').describe("broker: in the bridge's process, or a mosquitto process"),
  kills: z.int().min(1).default(100).describe('number of faults, one after the other'),
  seed: z.int().min(0).default(1).describe('seed of victims and moments'),
}

export const chaosBench: Bench<typeof options> = {
  name: 'chaos',
  options,
  examples: [
    ['brim bench chaos --kills 1000', 'the long run'],
    ['brim bench chaos --broker mosquitto', 'with a broker process that is killed too'],
  ],
  goals: { lost: { max: 0 }, doubled: { max: 0 }, stuck: { max: 0 }, different: { max: 0 } },
  async run(context, { broker, kills, seed }) {
    const [bundle, slm] = [await ensureDemoBundle('llm'), await ensureDemoBundle('slm-deep')]
    return benchChaos({ bundle, slm, broker, kills: context.quick ? Math.min(kills, quickKills) : kills, seed }, context)
  },
  report: chaosReport,
}

/** `brim bench chaos` */
export const command = benchCommand(chaosBench)
