import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { mean, sum } from '../../frame/statistics.ts'
import type { BarPanel, Figure, LinePanel } from '../../plot/plot.ts'
import type { Round } from './replay.ts'

/** The drafters, in the order of tables and figures. */
export const drafters = ['adapter+lookup', 'adapter', 'adapter-paper', 'lookup', 'medusa', 'none'] as const
export type DrafterKind = (typeof drafters)[number]

/** One drafter's drafts for one answer. */
export interface AcceptanceRun {
  readonly drafter: DrafterKind
  readonly id: string
  readonly task: string
  readonly promptTokens: number
  readonly answerTokens: number
  /** The answer repeats itself: more than half of its 4-grams have occurred in it before. */
  readonly looping: boolean
  /** Drafted and accepted tokens of all rounds. */
  readonly drafted: number
  readonly accepted: number
  /** Per round the tokens of its longest path and the accepted ones: '3/2 8/8 1/0'. */
  readonly rounds: string
}

export function runOf(
  of: Pick<AcceptanceRun, 'drafter' | 'id' | 'task' | 'promptTokens' | 'answerTokens' | 'looping'>,
  rounds: readonly Round[],
): AcceptanceRun {
  const written = rounds.map(({ longest, accepted }) => `${longest}/${accepted}`).join(' ')
  return {
    ...of,
    drafted: sum(rounds.map(({ drafted }) => drafted)),
    accepted: sum(rounds.map(({ accepted }) => accepted)),
    rounds: written,
  }
}

/** What the tables of the model card are made of. */
const keptRun = (run: AcceptanceRun) => {
  const { drafter, task, answerTokens, looping } = run
  return { drafter, task, answerTokens, looping, verifications: roundsOf(run).length }
}

/** A round with the position of its first token in the context, and the number of tokens it gave. */
interface PlacedRound extends Pick<Round, 'longest' | 'accepted'> {
  readonly position: number
  readonly tokens: number
}

function roundsOf({ rounds, promptTokens, answerTokens }: AcceptanceRun): PlacedRound[] {
  let at = 0
  return rounds
    .split(' ')
    .filter((round) => round !== '')
    .map((round) => {
      const [longest = 0, accepted = 0] = round.split('/').map(Number)
      // The bonus token after an end-of-text token does not belong to the answer.
      const tokens = Math.min(accepted + 1, answerTokens - 1 - at)
      at += tokens
      return { longest, accepted, tokens, position: promptTokens + at - tokens }
    })
}

/** Tokens per verification, bonus included; null where nothing was verified. */
export function acceptLength(runs: readonly AcceptanceRun[]): number | null {
  return meanTokens(runs.flatMap(roundsOf))
}

const meanTokens = (rounds: readonly PlacedRound[]) => mean(rounds.map(({ tokens }) => tokens))

/** For n = 1, 2, …: how many drafts have an n-th token, and the share of them whose n-th token was accepted. */
export function ratesByDraftPosition(runs: readonly AcceptanceRun[]): { position: number; rate: number; drafts: number }[] {
  const rounds = runs.flatMap(roundsOf)
  const longest = rounds.reduce((max, round) => Math.max(max, round.longest), 0)
  return Array.from({ length: longest }, (_, at) => {
    const reaching = rounds.filter((round) => round.longest > at)
    const accepting = reaching.filter(({ accepted }) => accepted > at)
    return { position: at + 1, rate: accepting.length / reaching.length, drafts: reaching.length }
  })
}

/** First positions of the buckets. */
const bucketStarts = [0, 128, 256, 512, 1024, 2048, 4096] as const

/** Accept length by the position of a round's first token in the context, without empty buckets. */
export function acceptLengthsByPosition(
  runs: readonly AcceptanceRun[],
): { from: number; to: number; acceptLength: number; rounds: number }[] {
  const rounds = runs.flatMap(roundsOf)
  return bucketStarts.flatMap((from, at) => {
    const to = bucketStarts[at + 1] ?? Number.POSITIVE_INFINITY
    const own = rounds.filter(({ position }) => position >= from && position < to)
    const mean = meanTokens(own)
    return mean === null ? [] : [{ from, to, acceptLength: mean, rounds: own.length }]
  })
}

export const acceptanceReport: BenchReport = {
  title: 'Drafters',
  contents: 'every round of every answer: the length of its draft and how much of it was accepted',
  keptRuns: (document) => runsOf(document).map(keptRun),
  figure,
  figureText: 'Acceptance rate by draft position, and accept length per task',
  tables: tablesOf,
  findings,
  conditions,
}

const runsOf = ({ runs }: BenchDocument) => runs as readonly AcceptanceRun[]

/** The drafters that ran, each with its runs. */
function byDrafter(runs: readonly AcceptanceRun[]): { drafter: DrafterKind; own: readonly AcceptanceRun[] }[] {
  return drafters
    .map((drafter) => ({ drafter, own: runs.filter((run) => run.drafter === drafter) }))
    .filter(({ own }) => own.length > 0)
}

const tasksOf = (runs: readonly AcceptanceRun[]) => [...new Set(runs.map(({ task }) => task))].sort()
const lengthOf = (runs: readonly AcceptanceRun[]) => written(acceptLength(runs))
const written = (value: number | null) => (value === null ? '–' : value.toFixed(2))

function tablesOf(document: BenchDocument): Table[] {
  const runs = runsOf(document)
  const shown = byDrafter(runs)
  const tasks = tasksOf(runs)
  const rates = shown.map(({ own }) => ratesByDraftPosition(own))
  const places = Array.from({ length: Math.max(0, ...rates.map((rate) => rate.length)) }, (_, at) => at)
  const buckets = shown.map(({ own }) => acceptLengthsByPosition(own))
  const starts = [...new Set(buckets.flat().map(({ from }) => from))].sort((a, b) => a - b)
  return [
    {
      title: 'Accept length: tokens per verification, bonus included',
      head: ['drafter', 'all', 'without loops', ...tasks, 'drafted', 'accepted'],
      rows: shown.map(({ drafter, own }) => [
        drafter,
        lengthOf(own),
        lengthOf(own.filter(({ looping }) => !looping)),
        ...tasks.map((task) => lengthOf(own.filter((run) => run.task === task))),
        String(sum(own.map(({ drafted }) => drafted))),
        String(sum(own.map(({ accepted }) => accepted))),
      ]),
    },
    {
      title: 'Acceptance rate by draft position, over the drafts that reach it',
      head: ['drafter', ...places.map((at) => String(at + 1))],
      rows: shown.flatMap(({ drafter }, row) => {
        const own = rates[row] ?? []
        return own.length === 0 ? [] : [[drafter, ...places.map((at) => written(own[at]?.rate ?? null))]]
      }),
    },
    {
      title: 'Accept length by position in the context',
      head: ['drafter', ...starts.map((from) => `from ${from}`)],
      rows: shown.map(({ drafter }, row) => [
        drafter,
        ...starts.map((start) => written(buckets[row]?.find(({ from }) => from === start)?.acceptLength ?? null)),
      ]),
    },
  ]
}

/** A rate over a smaller share of the drafts than this would be noise. */
const minShownShare = 0.02

function figure(document: BenchDocument): Figure {
  const { conditions } = document
  const drafting = byDrafter(runsOf(document)).filter(({ drafter }) => drafter !== 'none')
  const rates: LinePanel = {
    kind: 'lines',
    title: 'Acceptance by draft position',
    xLabel: 'position in the draft (of a tree: depth)',
    yLabel: 'accepted share of the drafts that reach it',
    series: drafting.map(({ drafter, own }) => {
      const all = ratesByDraftPosition(own)
      const drafts = all[0]?.drafts ?? 0
      const points = all
        .filter((at) => at.drafts >= minShownShare * drafts)
        .map(({ position, rate }) => [position, rate] as const)
      return { name: drafter, points }
    }),
  }
  const groups = [
    { title: 'all answers', among: () => true },
    { title: 'without loops', among: ({ looping }: AcceptanceRun) => !looping },
    ...tasksOf(runsOf(document)).map((task) => ({ title: task, among: (run: AcceptanceRun) => run.task === task })),
  ].map(({ title, among }) => ({
    title,
    answers: drafting[0]?.own.filter(among).length ?? 0,
    bars: drafting.flatMap(({ drafter, own }) => {
      const value = acceptLength(own.filter(among))
      return value === null ? [] : [{ name: drafter, value }]
    }),
  }))
  const yMax = Math.max(0, ...groups.flatMap(({ bars }) => bars.map(({ value }) => value)))
  const lengths = groups.map(
    ({ title, answers, bars }): BarPanel => ({
      kind: 'bars',
      title: `Accept length: ${title}`,
      yLabel: 'tokens per verification, bonus included',
      yMax,
      groups: [{ label: `${answers} answers`, bars }],
    }),
  )
  return {
    title: 'Drafters: tokens per verification',
    subtitle: `${conditions.model}; ${conditions.answers} greedy answers of at most ${conditions.maxTokens} tokens; η = ${conditions.threshold}, drafts of at most ${conditions.draftLimit}`,
    columns: 3,
    panels: [rates, ...lengths],
  }
}

function describe(drafter: DrafterKind, { features, medusaTree }: BenchDocument['conditions']): string {
  const descriptions: Record<DrafterKind, string> = {
    'adapter+lookup': 'the adapter, and lookup where the adapter is less certain than η',
    adapter: features ? 'Λ that also reads deep states where the device has them' : 'Λ of HAT Eq. 4',
    'adapter-paper': 'Λ of HAT Eq. 4',
    lookup: 'the tokens that followed an earlier occurrence of the last n-gram, in prompt or answer',
    medusa: `heads on the last deep state, a tree of ${(medusaTree as readonly unknown[] | null)?.length ?? 0} nodes whatever the draft limit`,
    none: 'one token per verification',
  }
  return descriptions[drafter]
}

function findings({ summary, conditions }: BenchDocument): string {
  const length = (name: string) => written(summary[name] ?? null)
  const { answers, loopingAnswers, features } = conditions
  return `- ${loopingAnswers} of the ${answers} answers loop: more than half of their 4-grams occur earlier in them. Loops are easy to
  draft. Without them the adapter's accept length is ${length('acceptLengthAdapterWithoutLoops')} instead of ${length('acceptLengthAdapter')}.
- ${features ? "The bundle's adapter reads deep states where the device has them, unlike the paper's. The paper's own adapter (*adapter-paper*)" : "The paper's adapter (*adapter-paper*)"}
  reaches ${length('acceptLengthAdapterPaper')}, Medusa ${length('acceptLengthMedusa')}.`
}

function conditions({ conditions: of, runs }: BenchDocument): string {
  return `${of.model} (${of.format}, model id ${String(of.modelId).slice(0, 12)}); ${of.answers} prompts of ${of.prompts}; greedy
answers of at most ${of.maxTokens} tokens by the reference, the whole model with the wire's rounding at the cuts; η = ${of.threshold},
drafts of at most ${of.draftLimit} tokens.

Each drafter is the agent's own code, replayed round by round against the finished answer.

${byDrafter(runs as readonly AcceptanceRun[])
  .map(({ drafter }) => `- *${drafter}*: ${describe(drafter, of)}.`)
  .join('\n')}
- *drafted* and *accepted* are totals; every node of a tree counts as drafted. The figure leaves out positions that fewer than
  ${100 * minShownShare} % of a drafter's drafts reach.
- *without loops* leaves out the looping answers.`
}
