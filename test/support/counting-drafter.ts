import { type Drafter, stateless } from '../../core/draft/drafter.ts'

/** Drafts for every row the id after the row's own; `asked` records the rows of each call. */
export function countingDrafter(topProbability = 1) {
  const asked: number[][] = []
  const drafter: Drafter = {
    ...stateless,
    async next({ ids }, rows) {
      asked.push([...rows])
      return rows.map((row) => [{ token: ids[row]! + 1, topProbability, alternatives: [ids[row]! + 50] }])
    },
  }
  return { asked, drafter }
}
