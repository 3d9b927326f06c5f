import type { MedusaHeads } from '../engine/contract.ts'
import { treeOf } from '../policy/hat/tree.ts'
import type { TreeDrafter } from './drafter.ts'

/**
 * Medusa (Cai et al. 2024, arXiv:2401.10774), the drafter of HAT's baseline U-Medusa: heads guess the tokens after the
 * pending one from the last verified deep state, the bundle says which of their likeliest tokens make the tree.
 * @param vocab logits per head
 */
export function medusaDrafter(medusa: MedusaHeads, vocab: number): TreeDrafter {
  const ranks = Math.max(0, ...medusa.tree.flat()) + 1
  return {
    async tree({ deep }, deepest) {
      const logits = await medusa.guess(deep.slice(deep.length - 1, deep.length))
      const ranked = Array.from({ length: medusa.heads }, (_, head) =>
        likeliest(logits.subarray(head * vocab, (head + 1) * vocab), ranks),
      )
      return treeOf(medusa.tree, ranked, deepest)
    },
  }
}

/** The `count` likeliest tokens, the likeliest first; of equal ones the lowest id. */
function likeliest(logits: Float32Array, count: number): number[] {
  const best: number[] = []
  for (let token = 0; token < logits.length; token++) {
    let at = best.length
    while (at > 0 && logits[best[at - 1]!]! < logits[token]!) at--
    if (at < count) {
      best.splice(at, 0, token)
      best.length = Math.min(best.length, count)
    }
  }
  return best
}
