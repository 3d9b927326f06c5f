import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { systemClock } from '../../../core/base/clock.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { readManifest } from '../../../core/model/bundle.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { RelayedConnection } from '../../cluster/relay.ts'
import { type Bench, type BenchContext, type BenchResult, benchCommand } from '../frame.ts'
import { type Answer, type FailoverCluster, type Site, startFailoverCluster } from './cluster.ts'
import { type FailoverRun, summarise } from './figures.ts'
import { drawQuestion, type PlannedRun, planRuns, type Question } from './plan.ts'
import { failoverTable, reportFailover } from './report.ts'

/** With --quick. */
const quickRuns = 10

/** A shorter answer has no middle. */
const minAnswerTokens = 8

const options = {
  bundle: z.string().meta({ description: 'folder of a split bundle', fallback: 'the demonstration model' }).optional(),
  runs: z.int().min(1).default(100).describe('answers, each with one fault'),
  seed: z.int().min(0).default(1).describe('seed of questions, faults and moments'),
  maxTokens: z.int().min(minAnswerTokens).default(48).describe('max tokens of an answer'),
}

export const failoverBench: Bench<typeof options> = {
  name: 'failover',
  examples: [['brim bench failover --runs 20 --seed 7', 'other faults at other moments']],
  options,
  reach: {
    different: { atMost: 0 },
    duplicatedTokens: { atMost: 0 },
    touchedNeighbours: { atMost: 0 },
    lostSMax: { atMost: 20 },
  },
  async run(context, { bundle, runs, seed, maxTokens }) {
    const folder = bundle ?? (await ensureDemoBundle())
    return benchFailover({ bundle: folder, runs: context.quick ? Math.min(runs, quickRuns) : runs, seed, maxTokens }, context)
  },
  print: failoverTable,
  report: reportFailover,
}

/** `brim bench failover` */
export const command = benchCommand(failoverBench)

export interface FailoverLimits {
  readonly bundle: string
  readonly runs: number
  readonly seed: number
  readonly maxTokens: number
}

/** Draws of a question whose answer is not too short. */
const drawsAtMost = 50

/** @throws BrimError of a process that cannot be started */
export async function benchFailover(limits: FailoverLimits, context: BenchContext): Promise<BenchResult> {
  const { bundle, seed, maxTokens } = limits
  const { card, modelId, dims, format } = await readManifest(bundle)
  context.progress('starting two bridges, a device and its neighbours')
  await using cluster = await startFailoverCluster({ bundle, maxTokens, io: context.io })
  // Of its own, so that the plan is the same whatever had to be drawn anew.
  const spare = seededRandom(seed + 1)
  const askedOfNeighbours = await answered(cluster, drawQuestion(spare, dims.vocab), () => drawQuestion(spare, dims.vocab))
  const runs: FailoverRun[] = []
  for (const [at, plan] of planRuns(limits.runs, seed, dims.vocab).entries()) {
    const asked = await answered(cluster, plan.question, () => drawQuestion(spare, dims.vocab))
    const run = await runOnce(cluster, plan, asked, askedOfNeighbours)
    runs.push(run)
    context.progress(`run ${at + 1} of ${limits.runs}: ${told(run)}`)
  }
  const conditions = { model: card.name, modelId, format: format.name, seed, maxTokens, runs: runs.length }
  return { conditions, summary: summarise(runs), runs }
}

const told = ({ kind, bridge, moment, identical, failovers, lostS, error }: FailoverRun) =>
  `${kind} at ${bridge ?? 'no bridge'} after ${Math.round(100 * moment)} %: ${error ?? (identical ? 'identical' : 'DIFFERENT')}, ${failovers} failovers, ${lostS.toFixed(2)} s lost`

interface Asked {
  readonly question: Question
  /** Without a fault. */
  readonly answer: Answer
}

/** A question, drawn again while its answer is too short for a fault in the middle. */
async function answered(cluster: FailoverCluster, first: Question, again: () => Question): Promise<Asked> {
  let question = first
  for (let draws = 1; draws <= drawsAtMost; draws++) {
    const answer = await cluster.ask(question)
    if (answer.tokenIds.length >= minAnswerTokens && answer.arrivedMs.length >= 2) return { question, answer }
    question = again()
  }
  throw new BrimError('RUNTIME_FAILED', `none of ${drawsAtMost} answers was as long as ${minAnswerTokens} tokens`, {
    hint: 'this model ends its answers at once: try another bundle',
  })
}

async function runOnce(cluster: FailoverCluster, plan: PlannedRun, asked: Asked, ofNeighbours: Asked): Promise<FailoverRun> {
  const { kind, moment } = plan
  const { question, answer: expected } = asked
  const before = new Map(cluster.sites.flatMap((site) => site.connections()).map((link) => [link, link.up.length]))
  let struck: Struck | undefined
  const strikeNow = () => {
    struck ??= strike(victim(cluster, before), plan)
  }
  const neighbours = cluster.askNeighbours(ofNeighbours.question).map(outcomeOf)
  const onText = (soFar: string) => {
    if (soFar.length > moment * expected.text.length) strikeNow()
  }
  const own = outcomeOf(cluster.ask(question, onText))
  let over = false
  void own.then(() => {
    over = true
  })
  // In prefill: as soon as any of its frames is on the way.
  while (moment === 0 && !over && !struck) {
    if (cluster.sites.some((site) => site.connections().some((link) => link.up.length > (before.get(link) ?? 0) + 1))) strikeNow()
    else await delay(1)
  }
  const { answer, error } = await own
  await struck?.heal()
  const others = await Promise.all(neighbours)
  return {
    kind,
    bridge: struck?.site.name ?? null,
    promptTokens: question.prompt.length,
    temperature: question.temperature,
    moment,
    tokens: expected.tokenIds.length,
    identical: isSame(answer, expected),
    duplicatedTokens: Math.max(0, (answer?.tokenIds.length ?? 0) - expected.tokenIds.length),
    failovers: answer?.failovers ?? 0,
    lostS: struck ? longestWaitS(answer?.arrivedMs ?? [], struck.atMs) : 0,
    neighbours: others.map((other) => ({
      identical: isSame(other.answer, ofNeighbours.answer),
      failovers: other.answer?.failovers ?? 0,
      error: other.error,
    })),
    error,
  }
}

interface Outcome {
  readonly answer: Answer | undefined
  /** Why there is none. */
  readonly error: string | null
}

const outcomeOf = (asked: Promise<Answer>): Promise<Outcome> =>
  asked.then(
    (answer) => ({ answer, error: null }),
    (error: unknown) => ({ answer: undefined, error: error instanceof Error ? error.message : String(error) }),
  )

const isSame = (answer: Answer | undefined, expected: Answer) =>
  answer?.text === expected.text && answer.tokenIds.join() === expected.tokenIds.join()

/** The longest gap that ends after the fault; the first one begins with it. */
function longestWaitS(atMs: readonly number[], faultMs: number): number {
  const after = [faultMs, ...atMs.filter((at) => at > faultMs)]
  return Math.max(0, ...after.slice(1).map((at, i) => at - after[i]!)) / 1_000
}

interface Victim {
  readonly site: Site
  readonly link: RelayedConnection
}

/** The connection that has carried most since then: the answer is on it. */
function victim(cluster: FailoverCluster, before: ReadonlyMap<RelayedConnection, number>): Victim {
  const candidates = cluster.sites.flatMap((site) => site.connections().map((link) => ({ site, link })))
  const carried = ({ link }: Victim) => link.up.length - (before.get(link) ?? 0)
  const [busiest] = candidates.sort((a, b) => carried(b) - carried(a))
  if (!busiest) throw new Error('the device is answering without a connection')
  return busiest
}

interface Struck {
  readonly site: Site
  readonly atMs: number
  /** Resolves when everything is as before. */
  heal(): Promise<void>
}

function strike({ site, link }: Victim, { kind, noise }: PlannedRun): Struck {
  const atMs = systemClock.nowMs()
  switch (kind) {
    case 'kill': {
      const back = site.bridge.restart()
      back.catch(() => {})
      return { site, atMs, heal: () => back }
    }
    case 'hang':
      site.bridge.suspend()
      return { site, atMs, heal: async () => site.bridge.resume() }
    case 'cut':
      link.cut()
      break
    case 'stall':
      link.stall()
      break
    case 'garbage':
      link.inject(noise)
      break
    default:
      kind satisfies never
  }
  return { site, atMs, heal: async () => link.cut() }
}
