import { BrimError } from '../../core/base/errors.ts'
import { adapterDrafter } from '../../core/draft/adapter-drafter.ts'
import { adapterLookupDrafter } from '../../core/draft/adapter-lookup-drafter.ts'
import { type Drafter, noDrafter } from '../../core/draft/drafter.ts'
import { lookupDrafter } from '../../core/draft/lookup-drafter.ts'
import { measuredDrafter } from '../../core/draft/measured-drafter.ts'
import type { Part } from '../../core/engine/contract.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import type { SharedHead } from '../../core/engine/shared-head.ts'

/** `auto`: whichever is fastest in a session, plain decoding among them. */
export const drafterNames = ['auto', 'adapter+lookup', 'adapter', 'lookup', 'none'] as const
export type DrafterName = (typeof drafterNames)[number]

export interface DrafterParts {
  /** Absent: the bundle has none. */
  readonly adapter: Part | undefined
  readonly head: SharedHead
  /** η of HAT Eq. 5. */
  readonly threshold: number
}

/** What makes a drafter for a session. @throws BrimError CONFIG_INVALID when the bundle lacks the adapter that is asked for */
export function drafterMaker(name: DrafterName, { adapter, head, threshold }: DrafterParts): (sampling: Sampling) => Drafter {
  const needed = (): Part => {
    if (adapter) return adapter
    throw new BrimError('CONFIG_INVALID', `the drafter "${name}" needs an adapter, and this bundle has none`, {
      hint: '--drafter auto takes what there is; brim model build --adapter adds one',
    })
  }
  const withLookup = (part: Part, sampling: Sampling) => adapterLookupDrafter(adapterDrafter(part, head, sampling), threshold)
  switch (name) {
    case 'adapter': {
      const part = needed()
      return (sampling) => adapterDrafter(part, head, sampling)
    }
    case 'adapter+lookup': {
      const part = needed()
      return (sampling) => withLookup(part, sampling)
    }
    case 'lookup':
      return lookupDrafter
    case 'none':
      return noDrafter
    case 'auto':
      return (sampling) =>
        measuredDrafter({
          ...(adapter ? { 'adapter+lookup': withLookup(adapter, sampling) } : {}),
          lookup: lookupDrafter(),
          none: noDrafter(),
        })
    default:
      return name satisfies never
  }
}
