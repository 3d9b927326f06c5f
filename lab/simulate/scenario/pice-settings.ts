import { z } from 'zod'
import { generalPrompts } from '../../../core/answer/sketch/prompts.ts'
import { nonNegative, on } from '../../../core/kit/base/setting-kinds.ts'
import { objectivesText, parseObjectives } from '../../../core/policy/pice/objectives-text.ts'
import { defaultPlanTerms } from '../../../core/policy/pice/plan-answer.ts'

const count = z.number().int().positive()
const share = z.number().min(0).max(1)
const positive = z.number().positive()

/** What the modes `pice` and `static` do. Limits have the defaults of the bridge's. */
export const PiceSettings = z
  .strictObject({
    sketchShares: z
      .array(z.number().gt(0).lt(1))
      .min(1)
      .default([...generalPrompts.sketchShares])
      .describe('lengths of sketches over those of answers, longest first'),
    sketchMissTokens: nonNegative(10).describe('by which sketches miss the length they were asked for, at most'),
    foresightBias: positive.default(1).describe('foreseen over true lengths of answers, at the median'),
    foresightError: nonNegative(0.2).describe('σ of the log of foreseen over true lengths'),
    helpers: z
      .array(z.string())
      .optional()
      .describe('names of the groups whose devices expand sketches; absent: all that have small models'),
    suitableShare: share.default(1).describe('of the questions, that suit sketches'),
    tokensPerSentence: positive.default(20).describe('length of the sentences that devices expand'),
    minTokens: count.default(defaultPlanTerms.minTokens).describe('shorter answers are not sketched'),
    abilities: z
      .record(z.string(), share)
      .default({})
      .describe('confidence (Eq. 3) of the expansions of small models; others count as not measured'),
    objectives: z
      .string()
      .refine((text) => parseObjectives(text) !== undefined, `must be like ${objectivesText(defaultPlanTerms.objectives)}`)
      .default(objectivesText(defaultPlanTerms.objectives))
      .describe(
        'objectives that choose between sketch and full answer, the most important first, each with the share by which it may miss the best',
      ),
    candidates: z.int().min(1).max(8).default(1).describe('expansions of each sentence that the most confident is taken of'),
    overlaps: on.describe('plans count that devices work while sketches are written; false: Eq. 2 as printed'),
    countsSketching: on.describe('plans count sketches that are being written; false: the queue alone, as PICE'),
    readsAlong: on.describe(
      'plans compare when streamed answers have been read, at their rates; false: when they are complete, as PICE',
    ),
    begins: on.describe(
      'the LLM writes the first sentence while the answer is planned; false: nothing before the sketch, as PICE',
    ),
    sparesDevices: on.describe(
      'devices use no abler small model than planned while others wait; false: whichever is in time, as PICE',
    ),
    sharesPrefix: on.describe('what prompts have in common is computed once, in the cloud and on devices'),
    waitingPerDevice: nonNegative(2).describe('sketches that may wait for each device'),
    sequences: count.default(16).describe('that a device decodes together'),
    expansionsPerJob: count.default(4).describe('sketches of like lengths that a device gets together'),
    sketchS: positive.default(60).describe('seconds to write a sketch; then the answer is written in full'),
    expansionS: positive.default(60).describe('seconds that devices have for a sketch, at most'),
  })
  .meta({ id: 'PiceSettings' })
export type PiceSettings = z.output<typeof PiceSettings>

/** What the mode `routing` does. */
export const RoutingSettings = z
  .strictObject({
    edgeShare: share.default(0.3).describe('of the requests, that devices answer: the easiest'),
  })
  .meta({ id: 'RoutingSettings' })
export type RoutingSettings = z.output<typeof RoutingSettings>

/** What the mode `local` does, and what routers give to devices. */
export const LocalSettings = z
  .strictObject({
    model: z.string().optional().describe('small model that answers; absent: the largest that fits into the device'),
    answersAtOnce: count.default(1).describe('answers that a device writes in packed steps'),
  })
  .meta({ id: 'LocalSettings' })
export type LocalSettings = z.output<typeof LocalSettings>
