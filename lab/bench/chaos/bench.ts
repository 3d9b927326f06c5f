import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { type Random, seededRandom } from '../../../core/base/random.ts'
import { isTerminal, type JobState } from '../../../core/policy/jobs/job.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { renderFigure } from '../../plot/plot.ts'
import { type Bench, type BenchContext, type BenchDocument, type BenchResult, benchCommand } from '../frame.ts'
import { type ChaosBroker, type ChaosCluster, chaosBrokers, startChaosCluster } from './cluster.ts'
import type { JobClient } from './job-client.ts'

const victims = ['agent', 'bridge', 'link', 'broker'] as const
type Victim = (typeof victims)[number]

export interface Kill {
  readonly victim: Victim
  /** Which device. */
  readonly agent: number
  /** After the one before. */
  readonly afterMs: number
}

/** What became of one job. */
export interface ChaosRun {
  readonly key: string
  readonly state: string
  readonly attempts: number
  /** Acknowledged to its submitter, and not SUCCEEDED though its time is not over. */
  readonly lost: boolean
  /** More than one end in its history, or the same device did it to its end more than once. */
  readonly doubled: boolean
  /** No terminal state when everything else had one. */
  readonly stuck: boolean
  /** Another text than the first answer to the same question. */
  readonly different: boolean
}

const options = {
  broker: z.enum(chaosBrokers).default('embedded').describe("in the bridge's process, or a mosquitto"),
  kills: z.int().min(1).default(100).describe('faults, one after the other'),
  seed: z.int().default(1).describe('seed of victims and moments'),
}

export const chaosBench: Bench<typeof options> = {
  name: 'chaos',
  examples: [
    ['brim bench chaos --kills 1000', 'the long run'],
    ['brim bench chaos --broker mosquitto', 'the broker is a process of its own and is killed too'],
  ],
  options,
  reach: { lost: { atMost: 0 }, doubled: { atMost: 0 }, stuck: { atMost: 0 }, different: { atMost: 0 } },
  async run(context, { broker, kills, seed }) {
    const [bundle, slm] = [await ensureDemoBundle('llm'), await ensureDemoBundle('slm-deep')]
    return benchChaos({ bundle, slm, broker, kills: context.quick ? Math.min(kills, 10) : kills, seed }, context)
  },
  report: (document, goals) => ({ svg: figure(document), markdown: page(document, goals) }),
}

/** `brim bench chaos` */
export const command = benchCommand(chaosBench)

/** The plan is told by its seed. Agents die most often: they are many. */
export function planKills(count: number, seed: number, agents: number, broker: ChaosBroker): Kill[] {
  const random = seededRandom(seed)
  const fewer: readonly Victim[] = broker === 'mosquitto' ? ['bridge', 'link', 'broker'] : ['bridge', 'link']
  return Array.from({ length: count }, () => {
    const dice = random.next()
    const victim = dice < 0.5 ? 'agent' : fewer[Math.floor((dice - 0.5) * 2 * fewer.length)]!
    return { victim, agent: Math.floor(random.next() * agents), afterMs: 100 + 900 * random.next() }
  })
}

const agents = 2
/** Jobs that are under way at any time. */
const inFlight = 6
/** How long the last jobs may take once nothing dies any more. */
const settleMs = 120_000
const questions = ['What is a good place to eat?', 'Can you book a table for two?', 'Is there a train to the city?']

export interface ChaosLimits {
  readonly bundle: string
  readonly slm: string
  readonly broker: ChaosBroker
  readonly kills: number
  readonly seed: number
}

/** @throws BrimError of a process that cannot be started, or does not come back */
export async function benchChaos(limits: ChaosLimits, context: BenchContext): Promise<BenchResult> {
  const { broker, kills, seed } = limits
  context.progress(`starting a bridge and ${agents} devices`)
  await using cluster = await startChaosCluster({ ...limits, agents, io: context.io })
  const ids = new Map<string, string>()
  const plan = planKills(kills, seed, agents, broker)
  const done = new AbortController()
  const random = seededRandom(seed + 1)
  const flowing = flow(cluster.jobs, ids, random, done.signal)
  // Until the last kill: what fails there must end the run, not be forgotten.
  const struck = strikeAll(cluster, plan, context).finally(() => done.abort())
  await Promise.all([struck, flowing])
  context.progress(`${ids.size} jobs; waiting for the last of them`)
  const all = await settle(cluster, ids)
  const count = (which: (run: ChaosRun) => boolean) => all.filter(which).length
  const summary = {
    kills,
    jobs: all.length,
    lost: count(({ lost }) => lost),
    doubled: count(({ doubled }) => doubled),
    stuck: count(({ stuck }) => stuck),
    different: count(({ different }) => different),
    repeated: count(({ attempts }) => attempts > 1),
    ...Object.fromEntries(victims.map((name) => [`${name}Kills`, plan.filter(({ victim }) => victim === name).length])),
  }
  // Those that went as if nothing had happened are counted, and tens of thousands.
  return { conditions: { seed, kills, agents, inFlight, broker }, summary, runs: all.filter(isOfNote) }
}

async function strikeAll(cluster: ChaosCluster, plan: readonly Kill[], context: BenchContext): Promise<void> {
  for (const [at, { victim, agent, afterMs }] of plan.entries()) {
    await delay(afterMs)
    context.progress(`fault ${at + 1} of ${plan.length}: ${victim}`)
    if (victim === 'agent') await cluster.agents[agent]!.restart()
    else if (victim === 'bridge') await cluster.bridge.restart()
    else if (victim === 'broker') await cluster.mosquitto?.kill()
    else cluster.mqttRelay.cut()
  }
}

/** Keeps some jobs under way, each under a key of its own. */
async function flow(jobs: JobClient, ids: Map<string, string>, random: Random, over: AbortSignal): Promise<void> {
  const open = new Set<string>()
  while (!over.aborted) {
    while (open.size < inFlight && !over.aborted) {
      const key = `job-${ids.size}`
      const question = Math.floor(random.next() * questions.length)
      const id = await jobs.submit(`${key}-${question}`, {
        kind: 'slm.generate',
        input: { prompt: questions[question], maxTokens: 24 },
        attempts: 100,
        deadlineS: 3_600,
        timeouts: { acceptS: 2 },
        disconnect: { lostAfterS: 2 },
      })
      ids.set(`${key}-${question}`, id)
      open.add(id)
    }
    for (const id of open) {
      const job = await jobs.show(id)
      if (!job || isTerminal(job.state as JobState)) open.delete(id)
    }
    await delay(20)
  }
}

async function settle({ jobs, finishedJobs }: ChaosCluster, ids: ReadonlyMap<string, string>): Promise<ChaosRun[]> {
  const open = new Set(ids.values())
  for (const startedMs = performance.now(); open.size > 0 && performance.now() - startedMs < settleMs; await delay(50)) {
    for (const id of open) {
      const job = await jobs.show(id)
      if (!job || isTerminal(job.state as JobState)) open.delete(id)
    }
  }
  const finished = finishedJobs()
  const answers = new Map<string, string>()
  const runs: ChaosRun[] = []
  for (const [key, id] of ids) {
    const job = await jobs.show(id)
    const again = await jobs.submit(key, { kind: 'slm.generate', input: { prompt: questions[0] } })
    const ends = (await jobs.history(id)).filter((type) => isTerminal(type.toUpperCase() as JobState)).length
    const stuck = job !== undefined && !isTerminal(job.state as JobState)
    const question = key.split('-').at(-1)!
    const text = job?.result?.text
    if (text !== undefined && !answers.has(question)) answers.set(question, text)
    runs.push({
      key,
      state: job?.state ?? 'unknown',
      attempts: job?.attempt ?? 0,
      lost: job?.state !== 'SUCCEEDED' && !stuck,
      doubled: ends > 1 || again !== id || finished.some((device) => (device.get(id) ?? 0) > 1),
      stuck,
      different: text !== undefined && text !== answers.get(question),
    })
  }
  return runs
}

const isOfNote = ({ attempts, lost, doubled, stuck, different }: ChaosRun) =>
  attempts !== 1 || lost || doubled || stuck || different

function figure({ runs, summary, conditions }: BenchDocument): string {
  const repeated = (runs as readonly ChaosRun[]).filter(({ attempts }) => attempts > 1)
  const most = Math.max(1, ...repeated.map(({ attempts }) => attempts))
  const took = (count: number) => repeated.filter(({ attempts }) => attempts === count).length
  const groups = Array.from({ length: most }, (_, i) => ({
    label: String(i + 1),
    bars: [{ name: 'jobs', value: i === 0 ? Number(summary.jobs) - repeated.length : took(i + 1) }],
  }))
  return renderFigure({
    title: 'Jobs outlive what does them',
    subtitle: `${conditions.kills} faults, seed ${conditions.seed}`,
    columns: 1,
    panels: [{ kind: 'bars', title: 'Attempts that a job took', yLabel: 'jobs', groups }],
  })
}

function page({ conditions, summary }: BenchDocument, goals: readonly string[][]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return `# Chaos

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); every job that
took more than one attempt, or went wrong, is in [chaos.json](chaos.json).

${[['figure', 'measured', 'reach', ''], ['---', '---', '---', '---'], ...goals].map(row).join('\n')}

![Attempts](chaos.svg)

## Conditions

A \`brim bridge run\` and ${conditions.agents} \`brim agent run\`, all processes; the broker: ${conditions.broker}; MQTT goes through a
relay.
${conditions.inFlight} \`slm.generate\` jobs are under way at any time; ${summary.jobs} in all. Seed ${conditions.seed};
${conditions.cpu}, ${conditions.cores} cores.

- *agent*: SIGKILL, started again with its store. *bridge*: the same for the bridge, and with it an embedded broker, which lives
  in its process. *broker*: the same for a mosquitto, which keeps nothing. *link*: every MQTT connection is cut. The next fault comes 0.1 to 1 s after the one before is repaired.
- *lost*: acknowledged to the submitter, and not SUCCEEDED in the end. *stuck*: not ended ${settleMs / 1_000} s after the last
  fault. *doubled*: ended twice, done to the end twice by one device, or two jobs under one key.
- *different*: another text than the first answer to the same question (greedy). *repeated*: took more than one attempt.
`
}
