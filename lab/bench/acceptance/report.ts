import { barPanel, linePanel } from '../../frame/panels.ts'
import { distinct, runsBy } from '../../frame/runs.ts'
import { mean, sum } from '../../frame/statistics.ts'
import type { DocumentOf, FigureRow, FigureTable, ShownRuns } from '../../frame/tabled-bench.ts'
import { type Column, tableOf, toDigits } from '../../frame/tables.ts'
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
export const keptAcceptanceRun = (run: AcceptanceRun) => {
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

const lengthOf = (drafter: DrafterKind, among = (_run: AcceptanceRun) => true): FigureRow<AcceptanceRun>[0] => {
  return (runs) => acceptLength(runs.filter((run) => run.drafter === drafter && among(run)))
}
const isUnlooped = ({ looping }: AcceptanceRun) => !looping

export const acceptanceFigures: FigureTable<AcceptanceRun> = {
  acceptLengthAdapter: [lengthOf('adapter'), { min: 2.2 }],
  acceptLengthAdapterPaper: [lengthOf('adapter-paper')],
  acceptLengthMedusa: [lengthOf('medusa')],
  acceptLengthLookup: [lengthOf('lookup')],
  acceptLengthAdapterLookup: [lengthOf('adapter+lookup')],
  acceptLengthAdapterWithoutLoops: [lengthOf('adapter', isUnlooped)],
  loopingAnswers: [(runs) => runs.filter(({ drafter, looping }) => drafter === 'none' && looping).length],
}

/** A rate over a smaller share of the drafts than this would be noise. */
const minShownShare = 0.02

const written = (value: number | null | undefined) => toDigits(value, 2)

export function showAcceptance(document: DocumentOf<AcceptanceRun>): ShownRuns {
  const { runs, conditions } = document
  const shown = runsBy(runs, 'drafter', drafters).map(({ name, runs: own }) => {
    return { name, own, rates: ratesByDraftPosition(own), buckets: acceptLengthsByPosition(own) }
  })
  type Shown = (typeof shown)[number]
  const tasks = distinct(runs, 'task').sort()
  const ofTask = (task: string) => (run: AcceptanceRun) => run.task === task
  const drafting = shown.filter(({ name }) => name !== 'none')
  const kinds: [string, (run: AcceptanceRun) => boolean][] = [
    ['all answers', () => true],
    ['without loops', isUnlooped],
    ...tasks.map((task): [string, (run: AcceptanceRun) => boolean] => [task, ofTask(task)]),
  ]
  const lengths = kinds.map(([title, among]) => {
    const answers = `${drafting[0]?.own.filter(among).length ?? 0} answers`
    return { title, bars: drafting.map(({ name, own }) => [answers, name, acceptLength(own.filter(among))] as const) }
  })
  const yMax = Math.max(0, ...lengths.flatMap(({ bars }) => bars.map(([, , value]) => value ?? 0)))
  const places = Math.max(0, ...shown.map(({ rates }) => rates.length))
  const starts = [...new Set(shown.flatMap(({ buckets }) => buckets.map(({ from }) => from)))].sort((a, b) => a - b)
  return {
    figure: {
      title: 'Drafters: tokens per verification',
      subtitle: `${conditions.model}; ${conditions.answers} greedy answers of at most ${conditions.maxTokens} tokens; η = ${conditions.threshold}, drafts of at most ${conditions.draftLimit}`,
      columns: 3,
      panels: [
        linePanel(
          'Acceptance by draft position',
          'position in the draft (of a tree: depth)',
          'accepted share of the drafts that reach it',
          drafting.flatMap(({ name, rates }) =>
            rates
              .filter(({ drafts }) => drafts >= minShownShare * rates[0]!.drafts)
              .map(({ position, rate }) => [name, position, rate] as const),
          ),
        ),
        ...lengths.map(({ title, bars }) =>
          barPanel(`Accept length: ${title}`, 'tokens per verification, bonus included', bars, yMax),
        ),
      ],
    },
    tables: [
      tableOf('Accept length: tokens per verification, bonus included', shown, [
        ['drafter', ({ name }) => name],
        ['all', ({ own }) => written(acceptLength(own))],
        ['without loops', ({ own }) => written(acceptLength(own.filter(isUnlooped)))],
        ...tasks.map((task): Column<Shown> => [task, ({ own }) => written(acceptLength(own.filter(ofTask(task))))]),
        ['drafted', ({ own }) => String(sum(own.map(({ drafted }) => drafted)))],
        ['accepted', ({ own }) => String(sum(own.map(({ accepted }) => accepted)))],
      ]),
      tableOf(
        'Acceptance rate by draft position, over the drafts that reach it',
        shown.filter(({ rates }) => rates.length > 0),
        [
          ['drafter', ({ name }) => name],
          ...Array.from({ length: places }, (_, at): Column<Shown> => [String(at + 1), ({ rates }) => written(rates[at]?.rate)]),
        ],
      ),
      tableOf('Accept length by position in the context', shown, [
        ['drafter', ({ name }) => name],
        ...starts.map(
          (start): Column<Shown> => [
            `from ${start}`,
            ({ buckets }) => written(buckets.find(({ from }) => from === start)?.acceptLength),
          ],
        ),
      ]),
    ],
    findings: findings(document),
    conditions: conditionsOf(document),
  }
}

function describe(drafter: DrafterKind, { features, medusaTree }: DocumentOf<AcceptanceRun>['conditions']): string {
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

function findings({ summary, conditions }: DocumentOf<AcceptanceRun>): string {
  const length = (name: string) => written(summary[name])
  const { answers, loopingAnswers, features } = conditions
  return `- ${loopingAnswers} of the ${answers} answers loop: more than half of their 4-grams occur earlier in them. Loops are easy to
  draft. Without them the adapter's accept length is ${length('acceptLengthAdapterWithoutLoops')} instead of ${length('acceptLengthAdapter')}.
- ${features ? "The bundle's adapter reads deep states where the device has them, unlike the paper's. The paper's own adapter (*adapter-paper*)" : "The paper's adapter (*adapter-paper*)"}
  reaches ${length('acceptLengthAdapterPaper')}, Medusa ${length('acceptLengthMedusa')}.`
}

function conditionsOf({ conditions: of, runs }: DocumentOf<AcceptanceRun>): string {
  return `${of.model} (${of.format}, model id ${String(of.modelId).slice(0, 12)}); ${of.answers} prompts of ${of.prompts}; greedy
answers of at most ${of.maxTokens} tokens by the reference, the whole model with the wire's rounding at the cuts; η = ${of.threshold},
drafts of at most ${of.draftLimit} tokens.

Each drafter is the agent's own code, replayed round by round against the finished answer.

${runsBy(runs, 'drafter', drafters)
  .map(({ name }) => `- *${name}*: ${describe(name, of)}.`)
  .join('\n')}
- *drafted* and *accepted* are totals; every node of a tree counts as drafted. The figure leaves out positions that fewer than
  ${100 * minShownShare} % of a drafter's drafts reach.
- *without loops* leaves out the looping answers.`
}
