import type { Phase } from './policy.ts'

/**
 * What kind of work some rows are. A prompt asks for fewer rows back than it has; a draft asks for all of them.
 * @param rows >= 1
 * @param returnedRows how many of them come back
 * @param maxDecodeRows more rows than this delay other streams as much as a prompt does, so they count as one
 */
export function phaseOf(rows: number, returnedRows: number, maxDecodeRows: number): Phase {
  if (returnedRows < rows || rows > maxDecodeRows) return 'prefill'
  return rows === 1 ? 'decode' : 'verify'
}
