import { z } from 'zod'
import { systemClock } from '../../../core/base/clock.ts'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import { floods } from '../../attack/floods.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench, BenchContext, BenchResult } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { type AttackCluster, startAttackCluster } from './cluster.ts'
import { runFloods } from './flood-process.ts'
import type { FloodReply } from './flood-worker.ts'
import { type HonestDevice, type HonestSample, startHonestDevice } from './honest-device.ts'
import { type AttackRun, attackReport, together, undisturbed } from './report.ts'

/** Of each flood that runs alone, and of the time without a flood. */
const aloneS = { quick: 2, full: 5 }
const quickSeconds = 10

const options = { seconds: z.number().min(1).default(60).describe('time that all floods run together') }

export const attackBench: Bench<typeof options> = {
  name: 'attack',
  options,
  examples: [['brim bench attack --seconds 600', 'a long attack']],
  goals: { honestP99Ms: { max: 100 }, honestLost: { max: 0 }, bridgeRssMb: { max: 600 } },
  run: (context, { seconds }) => benchAttack(context, seconds),
  report: attackReport,
}

/** `brim bench attack` */
export const command = benchCommand(attackBench)

/** @throws BrimError of a process that does not start */
async function benchAttack(context: BenchContext, seconds: number): Promise<BenchResult> {
  const { io, quick, progress } = context
  const [bundle, slm] = [await ensureDemoBundle('llm'), await ensureDemoBundle('slm-deep')]
  progress('starting a bridge and an agent, and enrolling devices')
  const names = floods.map(({ name }) => name)
  await using cluster = await startAttackCluster({ bundle, slm, floods: names, io })
  const device = await startHonestDevice({ ...cluster, signal: io.signal })
  const phaseS = quick ? aloneS.quick : aloneS.full
  const togetherS = quick ? Math.min(seconds, quickSeconds) : seconds
  const phases = [
    { name: undisturbed, floods: [], s: phaseS },
    ...names.map((name) => ({ name, floods: [name], s: phaseS })),
    { name: together, floods: names, s: togetherS },
  ]
  const runs: AttackRun[] = []
  for (const { name, floods: chosen, s } of phases) {
    progress(`${name}, ${s} s`)
    runs.push(await runPhase({ cluster, device, name, floods: chosen, ms: 1_000 * s, io }))
  }
  const { started, lost } = await device.finish()
  const attack = runs.at(-1)!
  const summary = {
    honestP99Ms: attack.honestP99Ms,
    honestLost: lost,
    honestStarted: started,
    bridgeRssMb: cluster.bridgeRssMb()?.peak ?? null,
    undisturbedP99Ms: runs[0]!.honestP99Ms,
  }
  return { conditions: { seconds: togetherS, floods: names }, summary, runs }
}

interface Phase extends Pick<BenchContext, 'io'> {
  readonly cluster: AttackCluster
  readonly device: HonestDevice
  readonly name: string
  readonly floods: readonly string[]
  readonly ms: number
}

async function runPhase({ cluster, device, name, floods: chosen, ms, io }: Phase): Promise<AttackRun> {
  const before = device.samples.length
  const counts: FloodReply =
    chosen.length === 0
      ? await systemClock.sleep(ms, io.signal).then(() => ({}))
      : await runFloods({ attacks: cluster.attacks.filter(({ flood }) => chosen.includes(flood)), ms }, io)
  const samples = device.samples.slice(before)
  return {
    name,
    s: ms / 1_000,
    honestP99Ms: quantileMs(samples, 0.99),
    honestP50Ms: quantileMs(samples, 0.5),
    answerP99Ms: quantileMs(samples, 0.99, ['answer']),
    bridgeRssMb: cluster.bridgeRssMb()?.now ?? null,
    counts,
    samples,
  }
}

/** Null without samples. */
function quantileMs(
  samples: readonly HonestSample[],
  q: number,
  kinds: readonly HonestSample['what'][] = ['puback', 'dispatch'],
): number | null {
  const ms = samples.filter(({ what }) => kinds.includes(what)).map((sample) => sample.ms)
  return ms.length === 0 ? null : quantile(ms, q)
}
