import { BrimError } from '../../core/kit/base/errors.ts'
import { adapterDrafter } from '../../core/model/draft/adapter-drafter.ts'
import { adapterLookupDrafter } from '../../core/model/draft/adapter-lookup-drafter.ts'
import { type Drafter, noDrafter } from '../../core/model/draft/drafter.ts'
import { lookupDrafter } from '../../core/model/draft/lookup-drafter.ts'
import type { RowConstraint } from '../../core/model/draft/row-constraint.ts'
import { type SlmDrafterOptions, slmDrafter } from '../../core/model/draft/slm-drafter.ts'
import type { Part } from '../../core/model/engine/contract.ts'
import type { Sampling } from '../../core/model/engine/sampler.ts'
import type { SharedHead } from '../../core/model/engine/shared-head.ts'
import { type MeasuredChoice, MeasuredDrafters } from './measured-drafter.ts'

/** `auto`: the fastest in a session, plain decoding included. */
export const drafterNames = ['auto', 'adapter+lookup', 'adapter', 'lookup', 'slm', 'none'] as const
export type DrafterName = (typeof drafterNames)[number]

/** Tokens that a small model reads in a trial, during which the answer waits. */
const maxUnread = 256

export interface DrafterParts {
  /** Undefined where the bundle has none. */
  readonly adapter: Part | undefined
  /** What reads the adapter's states. */
  readonly head: SharedHead
  /** The device's small model, if it has the LLM's tokenizer. */
  readonly slm?: Pick<SlmDrafterOptions, 'borrow' | 'vocab'> | undefined
  /** Whether `auto` may draft ahead during verifications. */
  readonly draftAhead: boolean
}

/** Makes the drafter of each session. @throws BrimError CONFIG_INVALID when the bundle lacks a part that the drafter needs */
export function drafterMaker(
  name: DrafterName,
  { adapter, head, slm, draftAhead }: DrafterParts,
): (sampling: Sampling, constraint?: RowConstraint) => Drafter {
  const needed = (part: Part | undefined): Part => {
    if (part) return part
    throw new BrimError('CONFIG_INVALID', `the drafter "${name}" needs an adapter, and the bundle has none`, {
      hint: 'use --drafter auto, or add the part with "brim model build --drafters" or "--draft-head"',
    })
  }
  const withLookup = (part: Part, sampling: Sampling, constraint?: RowConstraint) =>
    adapterLookupDrafter(adapterDrafter(part, head, sampling, constraint))
  switch (name) {
    case 'adapter': {
      const part = needed(adapter)
      return (sampling, constraint) => adapterDrafter(part, head, sampling, constraint)
    }
    case 'adapter+lookup': {
      const part = needed(adapter)
      return (sampling, constraint) => withLookup(part, sampling, constraint)
    }
    case 'lookup':
      return lookupDrafter
    case 'slm':
      if (!slm)
        throw new BrimError(
          'CONFIG_INVALID',
          'the drafter "slm" needs a small model with the tokenizer of the bundle, and there is none',
          {
            hint: 'use --drafter auto, or give a small model of the same family with --slm',
          },
        )
      return (sampling, constraint) => slmDrafter({ ...slm, maxUnread: undefined }, sampling, constraint)
    case 'none':
      return noDrafter
    case 'auto': {
      const measured = (sampling: Sampling, constraint?: RowConstraint) => ({
        ...(adapter ? withAndWithout(draftAhead, 'adapter+lookup', withLookup(adapter, sampling, constraint)) : {}),
        lookup: { drafter: lookupDrafter(), draftsAhead: false },
        ...(slm ? { slm: { drafter: slmDrafter({ ...slm, maxUnread }, sampling, constraint), draftsAhead: false } } : {}),
        none: { drafter: noDrafter(), draftsAhead: false },
      })
      const drafters = new MeasuredDrafters(measured)
      return (sampling, constraint) => drafters.create(sampling, constraint)
    }
    default:
      return name satisfies never
  }
}

/** One drafter as two choices: drafting ahead costs power, and knows less than a draft that waits for the verification. */
function withAndWithout(draftAhead: boolean, name: string, drafter: Drafter): Record<string, MeasuredChoice> {
  const waiting = { [name]: { drafter, draftsAhead: false } }
  return draftAhead ? { [`${name} ahead`]: { drafter, draftsAhead: true }, ...waiting } : waiting
}
