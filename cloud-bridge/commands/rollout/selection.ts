import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import type { RolloutPace, RolloutSelector } from '../../../core/wire/protocol/http/rollouts.ts'
import { labelPairs } from '../labels.ts'

/** Which devices a rollout is for. */
export const selectorOptions = {
  device: z.array(z.string()).optional().meta({ description: 'only these devices; repeat it', fallback: 'any' }),
  label: z.array(z.string()).optional().meta({
    description: 'only devices with this label, key=value; repeat it for devices that have all of them',
    fallback: 'any',
  }),
  group: z
    .array(z.string())
    .optional()
    .meta({ description: 'only devices whose enrolment token has this group; repeat it for several groups', fallback: 'any' }),
  module: z
    .string()
    .optional()
    .meta({ description: 'only Jetsons whose module has this in its name, such as "Orin NX"', fallback: 'any' }),
  agentVersion: z
    .string()
    .optional()
    .meta({ description: 'only devices whose agent has such a version: "<0.3.0", ">=0.2.0 <0.3.0"', fallback: 'any' }),
  all: off.describe('every device; needed where nothing else selects them'),
}
type SelectorOptions = z.output<z.ZodObject<typeof selectorOptions>>

/** @throws BrimError USAGE */
export function selectorOf(given: SelectorOptions): RolloutSelector {
  const { device: devices, label, group: groups, module, agentVersion, all } = given
  const selects = [devices, label, groups, module, agentVersion].some((one) => one !== undefined)
  if (!selects && !all)
    throw new BrimError(
      'USAGE',
      'choose the devices, with --device, --label, --group, --module or --agent-version, or give --all',
      {
        hint: 'add --dry-run to see which devices these are',
      },
    )
  return {
    ...(all && { all }),
    ...(label && { labels: Object.fromEntries(labelPairs(label)) }),
    devices,
    groups,
    module,
    agentVersion,
  }
}

/** How the rollout proceeds. */
export const paceOptions = {
  rate: z.string().default('10/min').describe('devices that start per minute, at first'),
  growth: z
    .number()
    .default(2)
    .describe('factor of the rate once as many devices have succeeded as it starts in a minute; 1: it stays'),
  first: z.int().default(1).describe('size of the first group, which the others wait for; 0: there is none'),
  pauseAfterFirst: off.describe(
    'pause after the first group until "brim rollout resume"; where one of it fails, the rollout pauses in any case',
  ),
  abortAbove: z.string().default('20%').describe('abort where more than this share of the devices that have ended failed'),
  abortAfter: z.int().default(5).describe('devices that must have ended before that share counts'),
  deviceTimeout: z.number().default(86_400).describe('time for one device, in seconds; then it has failed'),
}
type PaceOptions = z.output<z.ZodObject<typeof paceOptions>>

/** The bridge checks the ranges. @throws BrimError USAGE */
export function paceOf(given: PaceOptions): Partial<RolloutPace> {
  const { growth, first, pauseAfterFirst, abortAfter, deviceTimeout: deviceTimeoutS } = given
  const ratePerMinute = numberIn(given.rate, /^(\d+)(?:\/min)?$/, '--rate', '10/min')
  const abortAbovePercent = numberIn(given.abortAbove, /^(\d+(?:\.\d+)?) ?%?$/, '--abort-above', '10%')
  return { ratePerMinute, growth, first, pauseAfterFirst, abortAbovePercent, abortAfter, deviceTimeoutS }
}

function numberIn(text: string, form: RegExp, option: string, example: string): number {
  const [, digits] = form.exec(text) ?? []
  if (digits !== undefined) return Number(digits)
  throw new BrimError('USAGE', `${option} ${text} is not of the form ${example}`, { hint: `for example ${option} ${example}` })
}
