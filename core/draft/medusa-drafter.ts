import type { MedusaHeads } from '../engine/contract.ts'
import { likeliestTokens } from '../engine/sampler.ts'
import { medusaTree } from '../policy/hat/draft-tree.ts'
import { stateless, type TreeDrafter } from './drafter.ts'

/**
 * Medusa (Cai et al. 2024, arXiv:2401.10774), the drafter of HAT's baseline U-Medusa: heads guess the tokens after the
 * pending one from the last verified deep state. The bundle lists the ranks that form the tree.
 * @param vocab logits per head
 */
export function medusaDrafter(medusa: MedusaHeads, vocab: number): TreeDrafter {
  const ranks = Math.max(0, ...medusa.tree.flat()) + 1
  return {
    ...stateless,
    async tree({ deep }, maxDepth) {
      const logits = await medusa.guess(deep.slice(deep.length - 1, deep.length))
      const ranked = Array.from({ length: medusa.heads }, (_, head) =>
        likeliestTokens(logits.subarray(head * vocab, (head + 1) * vocab), ranks),
      )
      return medusaTree(medusa.tree, ranked, maxDepth)
    },
  }
}
