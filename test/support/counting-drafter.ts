import { type Drafter, stateless } from '../../core/draft/drafter.ts'

/** Says of every row the token after the row's own; `asked` tells of which rows, call by call. */
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
