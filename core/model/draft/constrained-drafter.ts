import { allowsToken } from '../grammar/grammar.ts'
import type { KnownStream } from './device-stream.ts'
import type { DraftedToken, Drafter } from './drafter.ts'
import type { RowConstraint } from './row-constraint.ts'

/**
 * Drafts only what the grammar of the answer allows: tokens that must come, which are always right, and else the drafter's own
 * guesses up to the first that may not come.
 */
export function constrainedDrafter(drafter: Drafter, constraint: RowConstraint): Drafter {
  return {
    ...drafter,
    get mayDraftAhead() {
      return drafter.mayDraftAhead !== false
    },
    async next(known, rows) {
      const forced = await Promise.all(rows.map((row) => constraint.forcedAfter(known, row)))
      if (forced.every((run) => run.length > 0)) return forced.map((run) => run.map(certain))
      const guesses = await drafter.next(known, rows)
      return Promise.all(guesses.map((run, at) => upToForbidden(constraint, known, rows[at]!, run)))
    },
  }
}

const certain = (token: number): DraftedToken => ({ token, source: 'grammar', topProbability: 1, alternatives: [] })

async function upToForbidden(
  constraint: RowConstraint,
  known: KnownStream,
  row: number,
  run: readonly DraftedToken[],
): Promise<readonly DraftedToken[]> {
  const masks = await constraint.along(
    known,
    row,
    run.map(({ token }) => token),
  )
  const end = run.findIndex(({ token }, at) => !masks[at] || !allowsToken(masks[at], token))
  return end < 0 ? run : run.slice(0, end)
}
