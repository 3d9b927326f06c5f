import type { BenchDocument, Table } from '../../frame/bench.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
import type { OracleRow } from './draft-oracle.ts'

const ms = (seconds: number | undefined) => toDigits(seconds === undefined ? null : 1_000 * seconds, 1)

/** The own rule for the length of drafts beside what only hindsight knows; none where that was not measured. */
export function draftTables({ conditions }: BenchDocument): Table[] {
  const rows = (conditions.drafts ?? []) as readonly OracleRow[]
  return rows.length === 0 ? [] : [draftTable(rows)]
}

function draftTable(rows: readonly OracleRow[]): Table {
  return tableOf('Drafts by their gain against lengths known in hindsight, ms per token', rows, [
    ['round trip', ({ delay }) => delay],
    ['answers', ({ answers }) => answers],
    ['own rule', ({ ownS }) => ms(ownS)],
    ['best fixed length', ({ fixedS }) => ms(fixedS)],
    ['its tokens', ({ bestLength }) => String(bestLength)],
    ['own / fixed', ({ ownS, fixedS }) => toDigits(ownS / fixedS, 2)],
    ['best length of each round', ({ clairvoyantS }) => ms(clairvoyantS)],
  ])
}

export const draftMethodText = `- \`draftOverOracle\`: after each token of greedy answers the drafter proposed 15 tokens (adapter and lookup, teacher-forced). From how many of
  them the LLM chose follows the time per token of any rule, by a cost model: a guess 2 ms, a row of the device's layers 1.5 ms, the cloud 5 ms, the
  paper's mean rates scaled to the bytes per state, and the round trip of the row. The agent's own rule learns from its rounds and sees the delay only
  through its own measurements. *Best fixed length*: of 0 to 15 tokens in all rounds, chosen afterwards: the best arm of a bandit, by which the regret of
  UCB-SpecStop is measured (1.002 to 1.024). The figure is the worst row. *Best length of each round* knows how much will be accepted, which no rule
  can (\`draftOverClairvoyant\`).`
