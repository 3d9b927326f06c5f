import type { DeviceModel } from '../../agent/hat/open-device-model.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { stateless, type TreeDrafter } from '../../core/model/draft/drafter.ts'
import type { MedusaHeads } from '../../core/model/engine/contract.ts'
import { likeliestTokens } from '../../core/model/engine/sampler.ts'
import { medusaTree } from '../../core/policy/hat/draft-tree.ts'

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

/** Of a device's model. @throws BrimError CONFIG_INVALID when its bundle has no heads */
export function medusaOf({ medusa, manifest }: Pick<DeviceModel, 'medusa' | 'manifest'>): TreeDrafter {
  if (medusa) return medusaDrafter(medusa, manifest.dims.vocab)
  throw new BrimError('CONFIG_INVALID', 'the bundle has no Medusa heads', {
    hint: 'add them with "brim model build --drafters medusa"',
  })
}
