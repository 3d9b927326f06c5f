import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { RelayedConnection } from '../../cluster/relay.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { type FailoverAnswer, type FailoverCluster, type Site, startFailoverCluster } from './cluster.ts'
import { drawQuestion, type PlannedRun, planRuns, type Question } from './plan.ts'
import { type FailoverRun, failoverFigures, showFailover } from './report.ts'

const quickRuns = 10
/** A shorter answer has no middle that a fault could hit. */
const minAnswerTokens = 8
/** Questions drawn before giving up on a long enough answer. */
const maxDraws = 50

const options = {
  bundle: z.string().min(1).optional().meta({ description: 'folder of a split bundle', fallback: 'the demonstration model' }),
  runs: z.int().min(1).default(100).describe('number of answers, each with one fault'),
  seed: z.int().min(0).default(1).describe('seed of questions, faults and moments'),
  maxTokens: z.int().min(minAnswerTokens).default(48).describe('maximum length of an answer, in tokens'),
}

export const failoverBench = tabledBench<FailoverRun, typeof options>({
  name: 'failover',
  title: 'Failover',
  contents: 'every run',
  figureText: 'Seconds lost by kind of fault',
  quickRepetitions: 2,
  options,
  examples: [['brim bench failover --runs 20 --seed 7', 'other faults at other moments']],
  figures: failoverFigures,
  measure,
  show: showFailover,
})

export const command = benchCommand(failoverBench)

/** @throws BrimError of a process that does not start */
async function measure(context: BenchContext, given: z.output<z.ZodObject<typeof options>>) {
  const { seed, maxTokens } = given
  const bundle = given.bundle ?? (await ensureDemoBundle())
  const count = context.quick ? Math.min(given.runs, quickRuns) : given.runs
  const { card, modelId, dims, format } = await readManifest(bundle)
  context.progress('starting two bridges, a device and its neighbours')
  await using cluster = await startFailoverCluster({ bundle, maxTokens, io: context.io })
  // A separate generator, so that the plan does not depend on how many questions are redrawn.
  const spare = seededRandom(seed + 1)
  const redraw = () => drawQuestion(spare, dims.vocab)
  const neighbours = await askUntilLongEnough(cluster, redraw(), redraw)
  const runs: FailoverRun[] = []
  for (const [at, plan] of planRuns(count, seed, dims.vocab).entries()) {
    const expected = await askUntilLongEnough(cluster, plan.question, redraw)
    const result = await runOnce(cluster, plan, expected, neighbours)
    runs.push(result)
    context.progress(`run ${at + 1} of ${count}: ${describeRun(result)}`)
  }
  return { conditions: { model: card.name, modelId, format: format.name, seed, maxTokens, runs: runs.length }, runs }
}

function describeRun({ kind, bridge, moment, identical, failovers, lostS, error }: FailoverRun): string {
  const outcome = error ?? (identical ? 'identical' : 'DIFFERENT')
  const fault = `${kind} at ${bridge ?? 'no bridge'} after ${Math.round(100 * moment)} %`
  return `${fault}: ${outcome}, ${failovers} failovers, ${lostS.toFixed(2)} s lost`
}

interface ExpectedAnswer {
  readonly question: Question
  /** Its answer without a fault. */
  readonly answer: FailoverAnswer
}

async function askUntilLongEnough(cluster: FailoverCluster, first: Question, redraw: () => Question): Promise<ExpectedAnswer> {
  let question = first
  for (let draws = 1; draws <= maxDraws; draws++) {
    const answer = await cluster.ask(question)
    if (answer.tokenIds.length >= minAnswerTokens && answer.arrivedMs.length >= 2) return { question, answer }
    question = redraw()
  }
  throw new BrimError('RUNTIME_FAILED', `none of ${maxDraws} answers was ${minAnswerTokens} tokens long`, {
    hint: 'this model ends its answers at once: try another bundle',
  })
}

async function runOnce(
  cluster: FailoverCluster,
  plan: PlannedRun,
  { question, answer: expected }: ExpectedAnswer,
  ofNeighbours: ExpectedAnswer,
): Promise<FailoverRun> {
  const { kind, moment } = plan
  const carriedBefore = new Map(cluster.sites.flatMap((site) => site.connections()).map((link) => [link, link.up.length]))
  let fault: Fault | undefined
  const injectOnce = () => {
    fault ??= inject(busiestLink(cluster, carriedBefore), plan)
  }
  const neighbours = cluster.askNeighbours(ofNeighbours.question).map(outcomeOf)
  let hasEnded = false
  const onText = (textSoFar: string) => {
    if (textSoFar.length > moment * expected.text.length) injectOnce()
  }
  const own = outcomeOf(cluster.ask(question, onText)).finally(() => {
    hasEnded = true
  })
  // A fault in prefill: as soon as one of its frames is on the way.
  while (moment === 0 && !hasEnded && !fault) {
    if (hasSentRows(cluster, carriedBefore)) injectOnce()
    else await systemClock.sleep(1)
  }
  const { answer, error } = await own
  await fault?.heal()
  const others = await Promise.all(neighbours)
  return {
    kind,
    bridge: fault?.site.name ?? null,
    promptTokens: question.prompt.length,
    temperature: question.temperature,
    moment,
    tokens: expected.tokenIds.length,
    identical: isSame(answer, expected),
    duplicatedTokens: Math.max(0, (answer?.tokenIds.length ?? 0) - expected.tokenIds.length),
    failovers: answer?.failovers ?? 0,
    lostS: fault ? longestWaitS(answer?.arrivedMs ?? [], fault.atMs) : 0,
    neighbours: others.map((other) => ({
      identical: isSame(other.answer, ofNeighbours.answer),
      failovers: other.answer?.failovers ?? 0,
      error: other.error,
    })),
    error,
  }
}

interface Outcome {
  readonly answer: FailoverAnswer | undefined
  /** Why there is no answer. */
  readonly error: string | null
}

const outcomeOf = (asked: Promise<FailoverAnswer>): Promise<Outcome> =>
  asked.then(
    (answer) => ({ answer, error: null }),
    (error: unknown) => ({ answer: undefined, error: error instanceof Error ? error.message : String(error) }),
  )

const isSame = (answer: FailoverAnswer | undefined, expected: FailoverAnswer) =>
  answer?.text === expected.text && answer.tokenIds.join() === expected.tokenIds.join()

/** The longest gap between pieces of text from the fault on; the first gap begins with the fault. */
function longestWaitS(arrivedMs: readonly number[], faultMs: number): number {
  const after = [faultMs, ...arrivedMs.filter((atMs) => atMs > faultMs)]
  return Math.max(0, ...after.slice(1).map((atMs, i) => atMs - after[i]!)) / 1_000
}

/** Chunks that each connection had carried before the answer. */
type Carried = ReadonlyMap<RelayedConnection, number>

interface Victim {
  readonly site: Site
  readonly link: RelayedConnection
}

/** The connection that has carried most since then: the answer's. */
function busiestLink({ sites }: FailoverCluster, before: Carried): Victim {
  const candidates = sites.flatMap((site) => site.connections().map((link) => ({ site, link })))
  const carried = ({ link }: Victim) => link.up.length - (before.get(link) ?? 0)
  const [busiest] = candidates.sort((a, b) => carried(b) - carried(a))
  if (!busiest) throw new Error('the device answers without a connection')
  return busiest
}

/** The first chunk opens the session, those after it carry rows. */
const hasSentRows = ({ sites }: FailoverCluster, before: Carried) =>
  sites.some((site) => site.connections().some((link) => link.up.length > (before.get(link) ?? 0) + 1))

interface Fault {
  readonly site: Site
  readonly atMs: number
  /** Resolves when everything is as before. */
  heal(): Promise<void>
}

function inject({ site, link }: Victim, { kind, noise }: PlannedRun): Fault {
  const atMs = systemClock.nowMs()
  switch (kind) {
    case 'kill': {
      const restarted = site.bridge.restart()
      restarted.catch(() => {})
      return { site, atMs, heal: () => restarted }
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
