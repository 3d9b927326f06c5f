import { z } from 'zod'
import { listOf } from '../../../kit/base/list-of.ts'
import { off } from '../../../kit/base/setting-kinds.ts'
import { parseVersionRange } from '../../../kit/base/version-range.ts'
import { Id } from '../id.ts'
import { JobSubmission } from '../jobs.ts'
import { openEnum } from './open-enum.ts'
import { get, type Operations, post } from './operation.ts'

/** The kinds of jobs that a rollout gives its devices. */
export const rolloutKinds = ['bundle.install', 'config.apply', 'software.install'] as const
export const rolloutStates = ['running', 'paused', 'aborted', 'completed'] as const
export const rolloutDeviceStates = ['waiting', 'started', 'succeeded', 'failed', 'canceled', 'skipped'] as const

const id = Id.meta({ title: 'id' })
const at = z.iso.datetime()
const count = z.int().min(0)
/** Devices of one rollout. */
export const maxSelected = 100_000

export const RolloutSelector = z
  .strictObject({
    all: z.literal(true).optional().describe('Every device; needed where no other field is given.'),
    devices: listOf(id, { min: 1, max: maxSelected }).optional().describe('Names.'),
    labels: z.record(z.string(), z.string()).optional().describe('Labels that a device must all have.'),
    groups: listOf(z.string(), { min: 1, max: 256 }).optional().describe('Group of its enrolment: one of these.'),
    module: z.string().min(1).max(64).optional().describe('Part of the name of its Jetson module, in any case.'),
    agentVersion: z
      .string()
      .max(64)
      .refine((range) => parseVersionRange(range) !== undefined, {
        error: 'must be conditions such as <0.3.0, or >=0.2.0 <0.3.0',
      })
      .optional()
      .describe('Version of its agent: conditions such as `<0.3.0`, or `>=0.2.0 <0.3.0`.'),
  })
  .refine(({ labels = {}, ...others }) => Object.keys({ ...labels, ...others }).length > 0, {
    error: 'choose devices, or say "all": true',
  })
export type RolloutSelector = z.infer<typeof RolloutSelector>

export const RolloutPace = z.strictObject({
  ratePerMinute: z.int().min(1).max(10_000).default(10).describe('Devices that start in any 60 s, at first.'),
  growth: z
    .number()
    .min(1)
    .max(10)
    .default(2)
    .describe('Factor of the rate each time that as many devices have succeeded as it starts in a minute; 1: none.'),
  first: count.max(maxSelected).default(1).describe('Size of the first group, for which the others wait; 0: there is none.'),
  pauseAfterFirst: off.describe(
    'Pause after the first group. Where a device of it does not succeed, the rollout pauses in any case.',
  ),
  abortAbovePercent: z
    .number()
    .min(0)
    .max(100)
    .default(20)
    .describe('Abort where more than this share of the devices that have ended failed.'),
  abortAfter: z.int().min(1).default(5).describe('Devices that must have ended before that share counts.'),
  deviceTimeoutS: z
    .number()
    .positive()
    .max(7 * 86_400)
    .default(86_400)
    .describe('Time for one device from its start to its result; then it has failed.'),
})
export type RolloutPace = z.infer<typeof RolloutPace>

/** Any device, to read what a job of this kind would be. */
const anyDevice = 'device'

/** Body of `POST /v1/rollouts`. */
export const RolloutSubmission = z
  .strictObject({
    kind: z.enum(rolloutKinds),
    input: z.unknown().describe('As in a job of this kind.'),
    selector: RolloutSelector,
    pace: RolloutPace.prefault({}),
    dryRun: off.describe('Only list the devices; nothing is stored.'),
  })
  .superRefine(({ kind, input }, context) => {
    for (const issue of JobSubmission.safeParse({ kind, input, device: anyDevice }).error?.issues ?? [])
      context.addIssue({ code: 'custom', path: [...issue.path], message: issue.message })
  })
export type RolloutSubmission = z.infer<typeof RolloutSubmission>

const DeviceError = z.object({ code: z.string(), message: z.string() })

export const Rollout = z.object({
  id: z.string(),
  kind: openEnum(rolloutKinds),
  input: z.unknown(),
  selector: z.looseObject({}),
  pace: z.looseObject({}),
  state: openEnum(rolloutStates),
  reason: z.string().nullable().describe('Why it is paused or was aborted.'),
  ratePerMinute: z.number().describe('The present rate.'),
  createdAt: at,
  createdBy: z.string(),
  endedAt: at.nullable(),
  devices: z
    .object({
      ...{ total: count, waiting: count, started: count, succeeded: count, failed: count, canceled: count, skipped: count },
      soaking: count.default(0).describe('Of those that succeeded: still watched, because their loss counts as a failure.'),
    })
    .describe('Numbers of devices. Started: and not ended. Canceled: its job was. Skipped: it never started.'),
})
export type Rollout = z.infer<typeof Rollout>

export const RolloutDevice = z.object({
  place: count.describe('In the order in which devices start, from 0.'),
  device: z.string(),
  state: openEnum(rolloutDeviceStates),
  job: z.string().nullable(),
  startedAt: at.nullable(),
  endedAt: at.nullable(),
  error: DeviceError.nullable(),
})
export type RolloutDevice = z.infer<typeof RolloutDevice>

/** Of a new rollout, and of the retry of one. */
const Created = z.object({
  rollout: Rollout.nullable().describe('Null after a dry run.'),
  devices: z.array(z.string()).describe('In the order in which they start.'),
})
const Control = { response: Rollout.extend({ changed: z.boolean().describe('False: it was in this state, or had ended.') }) }

export const rolloutOperations = {
  create: post('/v1/rollouts', 'operate', 'Begin a rollout; one of software needs an admin', {
    body: RolloutSubmission,
    maxBodyBytes: 8 * 2 ** 20,
    status: 202,
    response: Created,
  }),
  list: get('/v1/rollouts', 'read', 'Rollouts, newest first', {
    query: z.object({ limit: z.coerce.number().int().min(1).max(1_000).default(50) }),
    response: z.object({ rollouts: z.array(Rollout) }),
  }),
  show: get('/v1/rollouts/:id', 'read', 'One rollout, with the latest devices that failed', {
    response: Rollout.extend({ failures: z.array(RolloutDevice).describe('At most 10.') }),
  }),
  devices: get('/v1/rollouts/:id/devices', 'read', 'Devices of one rollout, in the order in which they start', {
    query: z.object({
      state: z.enum(rolloutDeviceStates).optional(),
      from: z.coerce.number().int().min(0).default(0).describe('Place of the first.'),
      limit: z.coerce.number().int().min(1).max(10_000).default(1_000),
    }),
    response: z.object({ devices: z.array(RolloutDevice) }),
  }),
  pause: post('/v1/rollouts/:id/pause', 'operate', 'Start no further devices', Control),
  resume: post('/v1/rollouts/:id/resume', 'operate', 'Go on; also past the first group once it has ended', Control),
  abort: post(
    '/v1/rollouts/:id/abort',
    'operate',
    'Start no further devices, and cancel the jobs of those that have started',
    Control,
  ),
  retry: post('/v1/rollouts/:id/retry', 'operate', 'Begin another rollout of the same, for the devices that failed', {
    status: 202,
    response: Created,
  }),
} satisfies Operations
