import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { isTerminal, type JobState } from '../../../core/policy/jobs/job.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { JobClient, ShownJob } from '../../cluster/job-client.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { type ChaosCluster, type ChaosOptions, chaosBrokers, startChaosCluster } from './cluster.ts'
import { type ChaosRun, chaosReport, settleMs } from './report.ts'

const quickKills = 10

const options = {
  broker: z.enum(chaosBrokers).default('embedded').describe("broker: in the bridge's process, or a mosquitto process"),
  kills: z.int().min(1).default(100).describe('number of faults, one after the other'),
  seed: z.int().min(0).default(1).describe('seed of victims and moments'),
}

export const chaosBench: Bench<typeof options> = {
  name: 'chaos',
  quickRepetitions: 2,
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

export const command = benchCommand(chaosBench)

const victims = ['agent', 'bridge', 'link', 'broker'] as const
type Victim = (typeof victims)[number]

interface Fault {
  readonly victim: Victim
  /** Index of the device, where the victim is an agent. */
  readonly agent: number
  /** Since the fault before was repaired. */
  readonly afterMs: number
}

/** Random faults that follow from the seed. Half of them hit agents. */
export function planFaults(count: number, seed: number, agents: number, broker: ChaosOptions['broker']): Fault[] {
  const random = seededRandom(seed)
  const others: readonly Victim[] = broker === 'mosquitto' ? ['bridge', 'link', 'broker'] : ['bridge', 'link']
  return Array.from({ length: count }, () => {
    const dice = random.next()
    const victim = dice < 0.5 ? 'agent' : others[Math.floor((dice - 0.5) * 2 * others.length)]!
    return { victim, agent: Math.floor(random.next() * agents), afterMs: 100 + 900 * random.next() }
  })
}

const agents = 2
/** Jobs that are under way at any time. */
const inFlight = 6
const questions = ['What is a good place to eat?', 'Can you book a table for two?', 'Is there a train to the city?']

interface ChaosLimits extends Omit<ChaosOptions, 'agents' | 'io'> {
  readonly kills: number
  readonly seed: number
}

/** Job ids by idempotency key. */
type SubmittedJobs = Map<string, string>

/** @throws BrimError of a process that does not start, or does not come back */
export async function benchChaos(limits: ChaosLimits, context: BenchContext): Promise<BenchResult> {
  const { broker, kills, seed } = limits
  context.progress(`starting a bridge and ${agents} devices`)
  await using cluster = await startChaosCluster({ ...limits, agents, io: context.io })
  const submitted: SubmittedJobs = new Map()
  const faults = planFaults(kills, seed, agents, broker)
  const faultsEnded = new AbortController()
  await Promise.all([
    inject(faults, cluster, context).finally(() => faultsEnded.abort()),
    submitUntil(faultsEnded.signal, cluster.jobs, submitted, seededRandom(seed + 1)),
  ])
  context.progress(`${submitted.size} jobs; waiting for the last of them`)
  await settle(cluster.jobs, [...submitted.values()])
  const all = await examine(cluster, submitted)
  const count = (matches: (run: ChaosRun) => boolean) => all.filter(matches).length
  const summary = {
    kills,
    jobs: all.length,
    lost: count(({ lost }) => lost),
    doubled: count(({ doubled }) => doubled),
    stuck: count(({ stuck }) => stuck),
    different: count(({ different }) => different),
    repeated: count(({ attempts }) => attempts > 1),
    ...Object.fromEntries(victims.map((name) => [`${name}Kills`, faults.filter(({ victim }) => victim === name).length])),
  }
  // Of the jobs without incident, tens of thousands in a long run, the document holds the number only.
  return { conditions: { seed, kills, agents, inFlight, broker }, summary, runs: all.filter(hasIncident) }
}

async function inject(faults: readonly Fault[], cluster: ChaosCluster, context: BenchContext): Promise<void> {
  for (const [at, { victim, agent, afterMs }] of faults.entries()) {
    await systemClock.sleep(afterMs)
    context.progress(`fault ${at + 1} of ${faults.length}: ${victim}`)
    switch (victim) {
      case 'agent':
        await cluster.agents[agent]!.restart()
        break
      case 'bridge':
        await cluster.bridge.restart()
        break
      case 'broker':
        await cluster.mosquitto!.restart()
        break
      case 'link':
        cluster.mqttRelay.cut()
        break
      default:
        victim satisfies never
    }
  }
}

/** Keeps `inFlight` jobs under way, each under a new key. */
async function submitUntil(stop: AbortSignal, jobs: JobClient, submitted: SubmittedJobs, random: Random): Promise<void> {
  const open = new Set<string>()
  while (!stop.aborted) {
    while (open.size < inFlight && !stop.aborted) {
      const question = Math.floor(random.next() * questions.length)
      const key = `job-${submitted.size}-${question}`
      const limits = { attempts: 100, deadlineS: 3_600, timeouts: { acceptS: 2 }, disconnect: { lostAfterS: 2 } }
      const input = { prompt: questions[question], maxTokens: 24 }
      const id = await jobs.submit({ kind: 'slm.generate', input, ...limits }, key)
      submitted.set(key, id)
      open.add(id)
    }
    await removeEnded(open, jobs)
    await systemClock.sleep(20)
  }
}

/** Waits until every job has ended, at most `settleMs`. */
async function settle(jobs: JobClient, ids: readonly string[]): Promise<void> {
  const open = new Set(ids)
  const giveUpMs = systemClock.nowMs() + settleMs
  while (open.size > 0 && systemClock.nowMs() < giveUpMs) {
    await removeEnded(open, jobs)
    await systemClock.sleep(50)
  }
}

async function removeEnded(open: Set<string>, jobs: JobClient): Promise<void> {
  for (const id of open) if (isEnded(await jobs.show(id))) open.delete(id)
}

/** A job that the bridge does not know has ended too: it is lost. */
const isEnded = (job: ShownJob | undefined) => !job || isTerminal(job.state)

async function examine({ jobs, finishedJobs }: ChaosCluster, submitted: SubmittedJobs): Promise<ChaosRun[]> {
  const finished = finishedJobs()
  const firstTexts = new Map<string, string>()
  const runs: ChaosRun[] = []
  for (const [key, id] of submitted) {
    const job = await jobs.show(id)
    const idOfSameKey = await jobs.submit({ kind: 'slm.generate', input: { prompt: questions[0] } }, key)
    const ends = (await jobs.history(id)).filter((type) => isTerminal(type.toUpperCase() as JobState)).length
    const stuck = !isEnded(job)
    const question = key.split('-').at(-1)!
    const text = job?.result?.text
    if (text !== undefined && !firstTexts.has(question)) firstTexts.set(question, text)
    runs.push({
      key,
      state: job?.state ?? 'unknown',
      attempts: job?.attempt ?? 0,
      lost: job?.state !== 'SUCCEEDED' && !stuck,
      doubled: ends > 1 || idOfSameKey !== id || finished.some((device) => (device.get(id) ?? 0) > 1),
      stuck,
      different: text !== undefined && text !== firstTexts.get(question),
    })
  }
  return runs
}

const hasIncident = ({ attempts, lost, doubled, stuck, different }: ChaosRun) =>
  attempts !== 1 || lost || doubled || stuck || different
