import { z } from 'zod'
import { off, on } from '../../../core/kit/base/setting-kinds.ts'
import { defaultDraftThreshold } from '../../../core/policy/hat/draft-gain.ts'
import { wires } from '../../../core/wire/protocol/frame.ts'

const count = z.number().int().positive()
/** HAT's adapter for Vicuna-7B, prompts of SpecBench (HAT §4). */
export const defaultAcceptLength = 2.06
const acceptLength = z.number().min(1).max(16)

/** How devices and cloud share an answer: the modes hat, u-shape, u-shape-lean, u-medusa and u-sarathi. */
export const HatSettings = z
  .strictObject({
    wire: z
      .enum(wires)
      .default('fp16')
      .describe('how hidden states travel up; fp16c: coded, both ways, as those of the demonstration LLM'),
    deviceWeights: z
      .enum(['fp16', 'int4'])
      .default('fp16')
      .describe('of what devices compute: the first layers, the head and the drafter'),
    chunks: on.describe('hat: prompts in chunks of Eq. 3; else whole, and all deep states return'),
    growingChunks: off.describe('hat: chunks grow while the link limits them, in place of the paper’s equal ones'),
    drafts: on.describe('hat: speculative decoding; else one token per round'),
    draftAhead: on.describe('hat: drafts during verifications, too'),
    reuse: on.describe('hat: resumes a shared prefix that the bridge has cached'),
    padding: off.describe('pads verifications to one length, which hides that of the draft'),
    threshold: z
      .number()
      .min(0)
      .max(1)
      .nullable()
      .default(defaultDraftThreshold)
      .describe('η of Eq. 5; null: drafts end where another token gains less than it costs, as measured'),
    draftLimit: z.number().int().min(0).default(8).describe('max tokens of a draft'),
    acceptLength: acceptLength
      .default(defaultAcceptLength)
      .describe('tokens per verification that the drafter reaches at the default threshold, bonus included'),
    medusaAcceptLength: acceptLength.default(1.89).describe('the same of Medusa’s heads, with a tree of 8 tokens'),
    alternatives: z.number().int().min(0).default(2).describe('branches of drafting ahead beside the draft’s own'),
    alternativeShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.5)
      .describe('how often one of them is the correction of a rejected token that has them'),
    chunkTokens: count.default(128).describe('chunk before the device’s rates and the cloud’s delay are known'),
    minChunkTokens: count.default(16).describe('X_min of Eq. 3'),
    maxChunkTokens: count.default(512).describe('X_max of Eq. 3, and most tokens of a prompt in a frame'),
  })
  .meta({ id: 'HatSettings' })
export type HatSettings = z.output<typeof HatSettings>
