/** The candidate that is most like a mistyped word; undefined where none is like it. */
export function nearestWord(word: string, candidates: readonly string[]): string | undefined {
  const maxEdits = Math.max(1, Math.floor(word.length / 3))
  const byEdits = candidates.map((candidate) => ({ candidate, edits: editsBetween(word, candidate) }))
  const [nearest] = byEdits.sort((a, b) => a.edits - b.edits)
  if (nearest && nearest.edits <= maxEdits) return nearest.candidate
  return candidates.find((candidate) => word.length > 2 && candidate.startsWith(word))
}

/** Letters to add, delete, replace or swap with their neighbour (optimal string alignment). */
function editsBetween(a: string, b: string): number {
  // rows[i][j]: edits from the first i letters of a to the first j of b.
  const rows = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : i)))
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0
  for (let i = 1; i <= a.length; i += 1)
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1]
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const edits = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (isSame ? 0 : 1))
      const row = rows[i]
      if (row && j > 0) row[j] = isSwap ? Math.min(edits, at(i - 2, j - 2) + 1) : edits
    }
  return at(a.length, b.length)
}
