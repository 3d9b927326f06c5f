import { columns } from '../../core/kit/cli/columns.ts'
import type { BrimReport } from '../../core/wire/openai/responses.ts'
import { costText } from './dollar-text.ts'

const titles: Readonly<Record<string, string>> = {
  slm: 'small model',
  hat: 'HAT',
  server: 'server',
  bridge: 'bridge',
  sketches: "bridge's plan (full or sketch)",
}

const seconds = (ms: number | null): string => (ms === null ? '–' : `${(ms / 1_000).toFixed(2)} s`)
const dollars = (value: number | null): string => (value === null ? '–' : costText(value))

/** What each way of answering was expected to take: a table. */
export function waysText({ disco, pice }: BrimReport): string {
  if (disco?.ways) {
    const rows = disco.ways.map(({ way, model, firstTextMs, endMs, dollars: cost, isChosen, reason }) => [
      `${isChosen ? '*' : ' '} ${titles[way] ?? way}${model === null || way === 'sketches' ? '' : ` (${model})`}`,
      seconds(firstTextMs),
      seconds(endMs),
      dollars(cost),
      reason,
    ])
    return columns([['  way', 'first text', 'complete', 'cost', ''], ...rows])
  }
  if (!pice) return 'nothing was planned: the bridge answered by its own model alone (mode full)'
  const { mode, fullS, predictedS, reason } = pice
  const s = (value: number | null) => seconds(value === null ? null : 1_000 * value)
  return columns([
    ['  way', 'complete', ''],
    [`${mode === 'full' ? '*' : ' '} the LLM alone`, s(fullS), mode === 'full' ? (reason ?? '') : ''],
    [`${mode === 'full' ? ' ' : '*'} sketch and expansion`, s(predictedS), mode === 'full' ? '' : (reason ?? '')],
  ])
}
