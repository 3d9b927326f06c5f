import type { AuditedAttack } from './audit.ts'

/** The attack that has recovered most, by the upper end of its interval. */
export interface StrongestAttack extends Pick<AuditedAttack, 'attack' | 'text'> {
  /** Share of the tokens, 0..1. */
  readonly share: number
}

/** @param found of at least one attack */
export function strongestOf(found: readonly AuditedAttack[]): StrongestAttack {
  const shares = found.map(({ attack, text, recovered }) => ({ attack, text, share: recovered.top1?.high ?? 0 }))
  return shares.reduce((most, each) => (each.share > most.share ? each : most))
}

/**
 * The shallowest split at which no attack recovers more than `bound`: depth costs the device memory and time.
 * @param splits in ascending order
 * @param bound share of the tokens, 0..1
 * @param measure attacks a split
 * @returns undefined: each of them lets more be recovered
 */
export async function chooseDepth<M extends { readonly recovery: StrongestAttack }>(
  splits: readonly number[],
  bound: number,
  measure: (split: number) => Promise<M>,
): Promise<{ readonly split: number | undefined; readonly measured: readonly M[] }> {
  const measured: M[] = []
  for (const split of splits) {
    const each = await measure(split)
    measured.push(each)
    if (each.recovery.share <= bound) return { split, measured }
  }
  return { split: undefined, measured }
}
