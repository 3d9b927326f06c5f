import { z } from 'zod'
import { off, on } from '../../../core/kit/base/setting-kinds.ts'
import { defaultAutoPatienceS } from '../../../core/policy/disco/dispatch.ts'
import { defaultPatience } from '../../../core/policy/disco/start-estimates.ts'

const share = z.number().min(0).max(1)
/** A price of tokens. */
export const DollarsPerToken = z.strictObject({
  prompt: z.number().nonnegative().describe('dollars for a token of the prompt'),
  output: z.number().nonnegative().describe('dollars for a token of the answer'),
})

/** How devices dispatch answers to themselves and the server: the modes auto, cheap and race. */
export const DiscoSettings = z
  .strictObject({
    constrained: z
      .enum(['auto', 'local', 'remote', 'device', 'server'])
      .default('auto')
      .describe('side that share limits: local, also called device; remote, also called server; auto: the dearer one'),
    share: share.default(0.5).describe('b: part of all prompt tokens that the limited side may process in mode auto'),
    autoPatienceS: z
      .number()
      .positive()
      .nullable()
      .default(defaultAutoPatienceS)
      .describe(
        'longest wait for a device that answers alone because the server is limited; null: as long as it takes (the paper)',
      ),
    tailShare: share
      .optional()
      .describe('α: part of the prompt tokens kept for the server’s slowest starts; absent: chosen as agents choose it'),
    dispatch: z
      .enum(['plan', 'chance', 'chance-beside'])
      .default('plan')
      .describe(
        'chance: stochastic, the limited side answers with probability share, else the other one; chance-beside: the other one starts in any case',
      ),
    profiledStarts: z
      .number()
      .int()
      .nonnegative()
      .default(0)
      .describe('starts of an API server, and lengths of prompts, that devices know before their first request'),
    patience: share
      .default(defaultPatience)
      .describe('part of the migrations to the server that their estimated time is enough for'),
    migrationCounts: z
      .enum(['answer', 'prompt'])
      .default('answer')
      .describe('t_m of Eq. 6: of the prompt and the answer so far, or of the prompt alone (the paper)'),
    returns: on.describe('the source goes on where the target is late; else the reader waits for the target (the paper)'),
    migrates: on.describe('answers move to the side that decodes for less'),
    learn: z
      .enum(['device', 'group'])
      .default('device')
      .describe('whose answers teach a device the times of the server and the lengths: its own, or those of its group'),
    sketches: off.describe('the mode auto may ask the cloud for an answer that devices expand (PICE)'),
    splitting: z.array(z.string()).default([]).describe('groups of devices whose mode auto may answer by HAT'),
    smallModelAnswers: z.number().int().positive().default(1).describe('answers that a small model writes at once'),
    deviceDollarsPerToken: DollarsPerToken.optional().describe('in place of the device’s energy times its price'),
    dollarsPerKwh: z.number().nonnegative().optional().describe('price of a device’s energy; absent: by its battery'),
  })
  .meta({ id: 'DiscoSettings' })
export type DiscoSettings = z.output<typeof DiscoSettings>
