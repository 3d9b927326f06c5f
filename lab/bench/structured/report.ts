import { median, quantile } from '../../../core/policy/estimate/quantile.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import type { DocumentOf, FigureTable, ShownRuns } from '../../frame/tabled-bench.ts'
import { tableOf } from '../../frame/tables.ts'

/** An answer that the whole model made in this process, to a schema of its own. */
export interface SchemaRun {
  readonly kind: 'schema'
  readonly schema: object
  readonly text: string
  readonly isValid: boolean
  readonly tokens: number
  /** Of the tokens, those that had to come. */
  readonly forced: number
  /** Of each mask, from the question to the reply of the thread. */
  readonly maskUs: readonly number[]
  /** That the model waited for masks after its steps. */
  readonly waitedMs: number
  readonly totalMs: number
}

/** A private answer over the link. */
export interface LinkRun {
  readonly kind: 'record' | 'free'
  readonly tokens: number
  readonly rounds: number
  /** Mean time of a token after the first. */
  readonly tpotMs: number
}

/** Times to the first text: of a question of 1,000 tokens, of a turn that follows it, and of that turn's words alone. */
export interface TurnRun {
  readonly kind: 'turns'
  readonly server: 'agent' | 'bridge'
  readonly firstMs: number
  readonly secondMs: number
  readonly aloneMs: number
}

export type StructuredRun = SchemaRun | LinkRun | TurnRun

const schemaRuns = (runs: readonly StructuredRun[]) => runs.filter((run) => run.kind === 'schema')
const linkRuns = (runs: readonly StructuredRun[], kind: LinkRun['kind']) =>
  runs.filter((run): run is LinkRun => run.kind === kind)

const turnsOf = (runs: readonly StructuredRun[], server: TurnRun['server']) =>
  runs.filter((run): run is TurnRun => run.kind === 'turns' && run.server === server)
const secondOverFirst = (runs: readonly StructuredRun[], server: TurnRun['server']) =>
  median(turnsOf(runs, server).map(({ firstMs, secondMs }) => secondMs / firstMs))

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
const masksOf = (runs: readonly StructuredRun[]) => schemaRuns(runs).flatMap(({ maskUs }) => maskUs)
const tpotOf = (runs: readonly StructuredRun[], kind: LinkRun['kind']) => median(linkRuns(runs, kind).map(({ tpotMs }) => tpotMs))
const perRound = (runs: readonly StructuredRun[], kind: LinkRun['kind']) => {
  const own = linkRuns(runs, kind)
  return sum(own.map(({ tokens }) => tokens)) / sum(own.map(({ rounds }) => Math.max(1, rounds)))
}

export const structuredFigures: FigureTable<StructuredRun> = {
  valid: [(runs) => schemaRuns(runs).filter(({ isValid }) => isValid).length / schemaRuns(runs).length, { min: 1 }],
  maskP50Us: [(runs) => median(masksOf(runs)), { max: 100 }],
  maskP95Us: [(runs) => quantile(masksOf(runs), 0.95)],
  maskShareOfStep: [
    (runs) => sum(schemaRuns(runs).map(({ waitedMs }) => waitedMs)) / sum(schemaRuns(runs).map(({ totalMs }) => totalMs)),
    { max: 0.03 },
  ],
  forcedShare: [
    (runs) => sum(schemaRuns(runs).map(({ forced }) => forced)) / sum(schemaRuns(runs).map(({ tokens }) => tokens)),
    { min: 0.25 },
  ],
  tbtOverFree: [(runs) => tpotOf(runs, 'record') / tpotOf(runs, 'free'), { max: 0.9 }],
  tokensPerRound: [(runs) => perRound(runs, 'record')],
  tokensPerRoundFree: [(runs) => perRound(runs, 'free')],
  secondTurnAgent: [(runs) => secondOverFirst(runs, 'agent'), { max: 0.15 }],
  secondTurnBridge: [(runs) => secondOverFirst(runs, 'bridge'), { max: 0.15 }],
}

export function showStructured(document: DocumentOf<StructuredRun>): ShownRuns {
  const { runs, conditions } = document
  const kinds = [
    ['with a schema', 'record'],
    ['free', 'free'],
  ] as const
  return {
    figure: {
      title: 'Time of a token of a private answer',
      subtitle: `${conditions.cpu}, a link of ${conditions.rttMs} ms`,
      columns: 1,
      panels: [
        barPanel(
          'Mean time of a token after the first',
          'ms',
          kinds.map(([label, kind]) => [label, 'hat', tpotOf(runs, kind)]),
        ),
      ],
    },
    tables: [
      tableOf('Time to the first text of two turns, ms (medians)', ['agent', 'bridge'] as const, [
        ['asked', (server) => server],
        ['first turn, 1,000 tokens', (server) => median(turnsOf(runs, server).map(({ firstMs }) => firstMs)).toFixed(0)],
        ['second turn', (server) => median(turnsOf(runs, server).map(({ secondMs }) => secondMs)).toFixed(0)],
        ['its words alone', (server) => median(turnsOf(runs, server).map(({ aloneMs }) => aloneMs)).toFixed(0)],
      ]),
      tableOf('Private answers over the link', kinds, [
        ['answers', ([label]) => label],
        ['time of a token, ms', ([, kind]) => tpotOf(runs, kind).toFixed(1)],
        ['tokens in a round', ([, kind]) => perRound(runs, kind).toFixed(2)],
      ]),
    ],
    findings: `The demonstration model cannot write JSON: without a mask no answer is valid. A mask is asked of a thread during the step of the token
before; what the model waits for it after the step is its share of a step. A second turn's words alone show what is left of its time
when nothing before them has to be computed. A token counts as forced where the mask leaves one. Between texts that are known,
several tokens often spell the same characters, and then none is forced.`,
    conditions: `${conditions.cpu}, ${conditions.cores} cores; ${loadText(document)}; ${conditions.answers} random schemas, every fourth answer greedy, the
others sampled at temperature 1, at most 800 tokens. ${conditions.trips} private answers with the schema of an order and as many free ones, in turn, over a
link of ${conditions.rttMs} ms round trip.`,
  }
}
