import { z } from 'zod'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import type { Flood } from '../../attack/flood.ts'
import { floods } from '../../attack/floods.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { WorkerProcess } from '../../cluster/worker-process.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { type AttackCluster, startAttackCluster } from './cluster.ts'
import type { FloodReply, FloodRequest } from './flood-worker.ts'
import { type HonestDevice, type HonestSample, startHonestDevice } from './honest-device.ts'
import { type AttackRun, attackReport, together, undisturbed } from './report.ts'

/** Of each flood that runs alone, and of the time without a flood. */
const fullAloneS = 5
const quickAloneS = 2
/** Of all floods together. */
const quickSeconds = 10
/** Floods end at their signal; one that does not within this time is a fault of the benchmark. */
const graceMs = 30_000

const options = { seconds: z.number().min(1).default(60).describe('time that all floods run together') }

export const attackBench: Bench<typeof options> = {
  name: 'attack',
  quickLimit: '2 minutes',
  quickRepetitions: 2,
  options,
  examples: [['brim bench attack --seconds 600', 'a long attack']],
  goals: { honestP99Ms: { max: 100 }, honestLost: { max: 0 }, bridgeRssMb: { max: 600 } },
  async run(context, { seconds }) {
    const [aloneS, togetherS] = context.quick ? [quickAloneS, Math.min(seconds, quickSeconds)] : [fullAloneS, seconds]
    return benchAttack({ bundle: await ensureDemoBundle(), floods, aloneS, togetherS }, context)
  },
  report: attackReport,
}

export const command = benchCommand(attackBench)

interface AttackLimits {
  readonly bundle: string
  readonly floods: readonly Pick<Flood, 'name' | 'keyRole'>[]
  readonly aloneS: number
  readonly togetherS: number
}

/** @throws BrimError of a process that does not start */
export async function benchAttack(limits: AttackLimits, { io, progress }: BenchContext): Promise<BenchResult> {
  const { bundle, aloneS, togetherS } = limits
  progress('starting a bridge and an agent, and enrolling devices')
  const names = limits.floods.map(({ name }) => name)
  await using cluster = await startAttackCluster({ bundle, floods: limits.floods, io })
  const device = await startHonestDevice({ ...cluster, signal: io.signal })
  const phases = [
    { name: undisturbed, floods: [], s: aloneS },
    ...names.map((name) => ({ name, floods: [name], s: aloneS })),
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
  await using attacker = new WorkerProcess<FloodRequest, FloodReply>(new URL('./flood-worker.js', import.meta.url), io)
  const attacks = cluster.attacks.filter(({ flood }) => chosen.includes(flood))
  const counts = await attacker.ask({ attacks, ms }, ms + graceMs)
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
