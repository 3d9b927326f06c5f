import type { Phase } from './policy.ts'

/**
 * The kind of work that rows are. A prompt requests fewer rows back than it has; a draft requests all of them.
 * @param rows >= 1
 * @param returnedRows number of them that are sent back
 * @param maxDecodeRows more rows than this delay other streams as much as a prompt does, so they count as one
 */
export function phaseOf(rows: number, returnedRows: number, maxDecodeRows: number): Phase {
  if (returnedRows < rows || rows > maxDecodeRows) return 'prefill'
  return rows === 1 ? 'decode' : 'verify'
}
