import { layOutTable } from '../../plot/table.ts'
import type { Statistics } from '../results/log-histogram.ts'
import type { ModeResult } from '../results/mode-result.ts'
import type { ScenarioResult } from '../run/result.ts'

/** A run of one variant; without a result where it had not begun when it was interrupted. */
export interface RunOutcome {
  readonly swept: Readonly<Record<string, unknown>>
  readonly result: ScenarioResult | undefined
}

/** Tables for a terminal: of one scenario in detail, of a sweep a line per variant and mode. */
export function resultLines(outcomes: readonly RunOutcome[]): string[] {
  const [first, ...others] = outcomes
  const lines = others.length > 0 ? sweepLines(outcomes) : first?.result ? scenarioLines(first.result) : []
  return [...lines, ...partialNote(outcomes)]
}

function partialNote(outcomes: readonly RunOutcome[]): string[] {
  const partial = outcomes.filter(({ result }) => !result?.isComplete).length
  if (partial === 0) return []
  return [
    '',
    outcomes.length === 1
      ? 'PARTIAL: the run was interrupted'
      : `PARTIAL: ${partial} of ${outcomes.length} runs have not come to their end`,
  ]
}

function scenarioLines({ scenario, durationS, events, all, modes, engines, devices }: ScenarioResult): string[] {
  const columns: (readonly [string, ModeResult])[] = Object.entries(modes)
  if (columns.length > 1) columns.push(['all', all])
  const figures = Object.entries(figureTexts)
  const rows = figures.map(([name, text]) => [name, ...columns.map(([, result]) => text(result))])
  const shownRows = rows.filter(([, ...cells]) => cells.some((cell) => cell !== '–' && cell !== '0'))
  return [
    `${scenario}: ${shown(durationS)} s on the virtual clock, ${events} events`,
    '',
    ...layOutTable(['', ...columns.map(([name]) => name)], shownRows),
    ...(engines.length === 0 ? [] : ['', ...layOutTable(engineHead, engines.map(engineRow))]),
    ...(Object.keys(devices).length === 0 ? [] : ['', ...layOutTable(deviceHead, Object.entries(devices).map(deviceRow))]),
  ]
}

function sweepLines(outcomes: readonly RunOutcome[]): string[] {
  const fields = Object.keys(outcomes[0]?.swept ?? {})
  const rows = outcomes.flatMap(({ swept, result }) => {
    const values = fields.map((field) => textOf(swept[field]))
    if (!result) return [[...values, '–']]
    const busy = result.engines.map(({ busyShare }) => busyShare)
    const busyText = busy.length === 0 ? '–' : percent(busy.reduce((sum, share) => sum + share, 0) / busy.length)
    return Object.entries(result.modes).map(([mode, own]) => [
      ...values,
      mode,
      ...sweepFigures.map((figure) => figureTexts[figure](own)),
      busyText,
    ])
  })
  return layOutTable([...fields, 'mode', ...sweepFigures, 'GPU busy'], rows)
}

const mean = ({ mean }: Statistics): string => shown(mean)

const figureTexts = {
  requests: ({ requests }: ModeResult) => String(requests),
  answered: ({ answered }: ModeResult) => String(answered),
  refused: ({ refused }: ModeResult) =>
    Object.entries(refused)
      .map(([reason, count]) => `${count} (${reason})`)
      .join(', ') || '0',
  open: ({ open }: ModeResult) => String(open),
  'TTFT mean, ms': ({ ttftMs }: ModeResult) => mean(ttftMs),
  'TTFT P50, ms': ({ ttftMs }: ModeResult) => shown(ttftMs.p50),
  'TTFT P95, ms': ({ ttftMs }: ModeResult) => shown(ttftMs.p95),
  'TTFT P99, ms': ({ ttftMs }: ModeResult) => shown(ttftMs.p99),
  'TBT mean, ms': ({ tbtMs }: ModeResult) => mean(tbtMs),
  'TBT P95, ms': ({ tbtMs }: ModeResult) => shown(tbtMs.p95),
  'TBT P99, ms': ({ tbtMs }: ModeResult) => shown(tbtMs.p99),
  'latency mean, s': ({ latencyMs }: ModeResult) => shown(latencyMs.mean / 1_000),
  'latency P95, s': ({ latencyMs }: ModeResult) => shown(latencyMs.p95 / 1_000),
  'answers/s': ({ answersPerS }: ModeResult) => shown(answersPerS),
  'tokens/s': ({ tokensPerS }: ModeResult) => shown(tokensPerS),
  'effective tokens/s': ({ effectiveTokensPerS }: ModeResult) => shown(effectiveTokensPerS),
  QoS: ({ qos }: ModeResult) => shown(qos),
  QoE: ({ qualityOfExperience }: ModeResult) => shown(qualityOfExperience),
  'stalled mean, s': ({ stalledMs }: ModeResult) => shown(stalledMs.mean / 1_000),
  'answers that stall': ({ stalledShare }: ModeResult) => percent(stalledShare),
  'server prompt tokens': ({ work }: ModeResult) => shown(work.serverPromptTokens),
  'server output tokens': ({ work }: ModeResult) => shown(work.serverOutputTokens),
  'device prompt tokens': ({ work }: ModeResult) => shown(work.devicePromptTokens),
  'device output tokens': ({ work }: ModeResult) => shown(work.deviceOutputTokens),
  'joules per answer': ({ work, answered }: ModeResult) => shown(work.joules / answered),
  'dollars per 1,000 answers': ({ work, answered }: ModeResult) => shown((1_000 * work.dollars) / answered),
  'tokens per verification': ({ work }: ModeResult) => (work.rounds === 0 ? '–' : shown(work.gainedTokens / work.rounds)),
  'sketch tokens': ({ work }: ModeResult) => shown(work.sketchTokens),
  migrations: ({ work }: ModeResult) => shown(work.migrations),
} as const satisfies Record<string, (result: ModeResult) => string>

const sweepFigures = [
  'answered',
  'TTFT mean, ms',
  'TTFT P95, ms',
  'TBT mean, ms',
  'TBT P95, ms',
  'tokens/s',
  'effective tokens/s',
  'QoS',
  'QoE',
  'stalled mean, s',
] as const satisfies (keyof typeof figureTexts)[]

const engineHead = ['engine', 'busy', 'steps', 'rows per step', 'preemptions', 'saved, MB', 'loaded, MB']
const engineRow = (
  { busyShare, steps, rows, preemptions, savedBytes, loadedBytes }: ScenarioResult['engines'][number],
  i: number,
) => [
  String(i),
  percent(busyShare),
  String(steps),
  shown(rows / steps),
  String(preemptions),
  shown(savedBytes / 1e6),
  shown(loadedBytes / 1e6),
]

const deviceHead = ['devices', 'count', 'busy', 'joules each', 'sent each, kB', 'received each, kB']
const deviceRow = ([name, { count, busyShare, joules, upBytes, downBytes }]: [string, ScenarioResult['devices'][string]]) => [
  name,
  String(count),
  percent(busyShare),
  shown(joules),
  shown(upBytes / 1_000),
  shown(downBytes / 1_000),
]

const percent = (share: number): string => (Number.isNaN(share) ? '–' : `${shown(100 * share)} %`)
const shown = (value: number): string => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : '–')
const textOf = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value))
