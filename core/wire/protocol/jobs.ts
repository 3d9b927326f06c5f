import { z } from 'zod'
import { listOf } from '../../kit/base/list-of.ts'
import {
  ExpandedSentence,
  Expansion,
  expandedSentence,
  expansionProblem,
  maxSketchesPerJob,
  notRequested,
  sentencesOf,
  sentencesProblem,
  sketchFields,
} from './expansion.ts'
import { Id } from './id.ts'
import { v } from './version.ts'

/** The kinds of jobs. The bridge can read every job submitted to it; only the agent's own API is private. */
export const jobKinds = [
  'slm.generate',
  'hat.generate',
  'hat.verify',
  'profile',
  'bundle.install',
  'pice.expand',
  'config.apply',
  'software.install',
] as const
export type JobKind = (typeof jobKinds)[number]

/** Kinds that change the device. They run one at a time beside the others, because they mostly wait for network and disk. */
export const maintenanceKinds: ReadonlySet<string> = new Set<JobKind>(['bundle.install', 'config.apply', 'software.install'])

/**
 * Whether only an admin may have this done, as a job or as a rollout. The rest of what operators can install is bounded by the
 * signatures and by what the device's owner has configured.
 */
export const isForAdmins = (kind: string, input: unknown): boolean =>
  kind === 'software.install' || (kind === 'bundle.install' && allowsDowngrade(input))

/** Whether the device of an installation may go back to an older version. */
export const allowsDowngrade = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && 'allowDowngrade' in input

/** Maximum size of a job's input and of a device's event, as JSON: both fit into an MQTT packet of the bridge's broker. */
export const maxInputBytes = 128 * 1024
export const maxEventBytes = 192 * 1024
/** Maximum size of a whole message; larger ones are not read. */
export const maxMessageBytes = maxEventBytes + 16 * 1024

const id = Id.meta({ title: 'id' })
const jobId = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9]{1,15}$/)
  .meta({ title: 'job id' })
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const text = z.string().max(maxInputBytes)

const Message = z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: text })

const Prompt = {
  /** A conversation, or the text `prompt` without a chat template: exactly one of the two. */
  messages: listOf(Message, { min: 1, max: 256 }).optional(),
  prompt: text.min(1).optional(),
}
const oneOf = { error: 'give either messages or prompt' }
const hasOne = ({ messages, prompt }: { messages?: unknown; prompt?: unknown }) =>
  (messages === undefined) !== (prompt === undefined)

const Sampling = {
  temperature: z.number().min(0).max(2).default(0),
  topP: z.number().gt(0).max(1).default(1),
  topK: z.int().min(0).default(0),
  seed: z.int().optional(),
}

export const GenerateInput = z
  .strictObject({
    ...Prompt,
    maxTokens: z.int().min(1).optional(),
    ...Sampling,
    stop: listOf(z.string().min(1).max(256), { max: 8 }).default([]),
  })
  .refine(hasOne, oneOf)
export type GenerateInput = z.infer<typeof GenerateInput>

/** Input of `hat.verify`, which reports how much of a continuation the LLM would generate itself. */
export const VerifyInput = z.strictObject({ ...Prompt, continuation: text.min(1) }).refine(hasOne, oneOf)
export type VerifyInput = z.infer<typeof VerifyInput>

/** One answer to expand. */
export const SketchInput = z
  .strictObject({ ...Prompt, ...sketchFields, ...Sampling })
  .refine(hasOne, oneOf)
  .superRefine((sketched, context) => {
    const problem = sentencesProblem(sketched)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem, path: ['sentences'] })
  })
export type SketchInput = z.infer<typeof SketchInput>

/** Input of `pice.expand`: sketches of answers of like lengths, which a device expands together (PICE, Algorithm 1). */
export const ExpandInput = z.strictObject({ sketches: listOf(SketchInput, { min: 1, max: maxSketchesPerJob }) })
export type ExpandInput = z.infer<typeof ExpandInput>

/** A question that what was just activated must answer; where it does not, the device returns to what it had before. */
export const TrialQuestion = z.strictObject({
  prompt: z.string().min(1).max(4_096),
  maxTokens: z.int().min(1).max(64).default(8),
})
export type TrialQuestion = z.infer<typeof TrialQuestion>

/** Of an installation: an admin allows the device to go back to a lower number than it has had of a bundle or of the software. */
const allowDowngrade = z.literal(true).optional()

/**
 * Input of `bundle.install`, which installs the parts of a model that a device runs. `manifestSha256` identifies a version
 * of the model with its drafters and tokenizer, and covers every byte, so that no server of the files can change them. `url`
 * is the folder of the bundle; absent: the bundles of the bridge that sent the job. `activate`: the device then answers with it.
 */
export const InstallInput = z.strictObject({
  modelId: sha256,
  manifestSha256: z.string('the sha256 of manifest.json is required; GET /v1/bundles lists it').regex(/^[0-9a-f]{64}$/),
  url: z.url({ protocol: /^https?$/ }).optional(),
  activate: z.boolean().optional(),
  probe: TrialQuestion.optional(),
  allowDowngrade,
})
export type InstallInput = z.infer<typeof InstallInput>

/** Of options in one input, and of values of an option. Checking them must not keep a device from its other work. */
const maxSettings = 64

/**
 * Input of `config.apply`: the options that the fleet sets on this device, by name as in its configuration file. They replace
 * those of the job before. What the device's owner has set in the file or on the command line stays.
 */
export const ConfigInput = z.strictObject({
  settings: z
    .record(
      z.string().regex(/^[a-z][a-z0-9-]{0,63}$/),
      z.union([z.string(), z.number(), z.boolean(), listOf(z.union([z.string(), z.number()]), { max: maxSettings })]),
    )
    .refine((settings) => Object.keys(settings).length <= maxSettings, `must have at most ${maxSettings} options`),
  probe: TrialQuestion.optional(),
})
export type ConfigInput = z.infer<typeof ConfigInput>

/**
 * Input of `software.install`: a release of the agent for this device's platform. `archiveSha256` covers every byte; the
 * signature of the archive must be of a key that the device trusts. `url`: of the archive; absent: at the bridge that sent the job.
 */
export const SoftwareInput = z.strictObject({
  version: z.string().regex(/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]{1,64})?$/),
  archiveSha256: sha256,
  url: z.url({ protocol: /^https?$/ }).optional(),
  probe: TrialQuestion.optional(),
  allowDowngrade,
})
export type SoftwareInput = z.infer<typeof SoftwareInput>

const inputs = {
  'slm.generate': GenerateInput,
  'hat.generate': GenerateInput,
  'hat.verify': VerifyInput,
  profile: z.strictObject({}),
  'bundle.install': InstallInput,
  'pice.expand': ExpandInput,
  'config.apply': ConfigInput,
  'software.install': SoftwareInput,
} as const satisfies Record<JobKind, z.ZodType>

/** The fields that other programs read in results; a newer device may add more. */
const results = {
  'slm.generate': z.looseObject({ text: z.string() }),
  'hat.generate': z.looseObject({ text: z.string() }),
  'hat.verify': z.looseObject({ text: z.string(), acceptedTokens: z.int().min(0) }),
  profile: z.looseObject({}),
  'bundle.install': z.looseObject({ modelId: sha256 }),
  'pice.expand': Expansion,
  'config.apply': z.looseObject({ applied: z.array(z.string()), kept: z.array(z.string()) }),
  'software.install': z.looseObject({ version: z.string() }),
} as const satisfies Record<JobKind, z.ZodType>

/**
 * Why `result` is invalid for a job; undefined: it is valid.
 * @param kind as stored; results of unknown kinds, which another release stored, are valid
 */
export function resultProblem(kind: string, input: unknown, result: unknown): string | undefined {
  const known = jobKinds.find((name) => name === kind)
  if (known === undefined) return undefined
  const parsed = results[known].safeParse(result)
  const [issue] = parsed.error?.issues ?? []
  if (issue) return [issue.path.join('.'), issue.message].filter(Boolean).join(': ')
  if (known === 'bundle.install') {
    // Jobs that an earlier release stored may lack the hash.
    const asked = InstallInput.partial({ manifestSha256: true }).safeParse(input)
    return asked.data?.modelId === results[known].parse(result).modelId ? undefined : 'it names another model'
  }
  if (known !== 'pice.expand') return undefined
  const asked = ExpandInput.safeParse(input)
  return asked.success ? expansionProblem(asked.data.sketches, results[known].parse(result)) : undefined
}

/**
 * Why a `sentence` event is invalid for a job; undefined: it is valid.
 * @param kind as stored
 * @param data fields of the event
 */
export function sentenceProblem(kind: string, input: unknown, data: unknown): string | undefined {
  const asked = kind === 'pice.expand' ? ExpandInput.safeParse(input).data : undefined
  const read = ExpandedSentence.safeParse(data).data
  if (!asked || !read) return 'its job has no sentences'
  const { sketch, sentence, candidate } = read
  const of = asked.sketches[sketch]
  return of && sentencesOf(of).includes(sentence) && candidate < of.candidates
    ? undefined
    : notRequested({ sketch, sentence, candidate })
}

/** Kinds that concern one device, which the submission must name: no other device can run them. */
export const deviceBoundKinds: ReadonlySet<JobKind> = new Set<JobKind>(['profile', ...maintenanceKinds] as JobKind[])

const duration = z
  .number()
  .positive()
  .max(7 * 86_400)
const seconds = (fallback: number) => duration.default(fallback)

/** A bundle may have gigabytes, its link may be slow, its device offline for a night. */
const installLimits = { deadlineS: 7 * 86_400, runS: 86_400, lostAfterS: 86_400 }
const defaultLimits = { deadlineS: 3_600, runS: 900, lostAfterS: 30 }

/** Body of `POST /v1/jobs`. */
export const JobSubmission = z
  .strictObject({
    kind: z.enum(jobKinds),
    input: z.unknown(),
    /** The only device that may run the job; absent: any device that supports the kind. */
    device: id.optional(),
    /** Higher runs first; jobs of one priority run in order of submission. */
    priority: z.int().min(0).max(9).default(5),
    /** Idempotency key: a submission with a known key returns the job of that key. */
    key: z.string().min(1).max(128).optional(),
    /** Deadline after submission; then the job is TIMED_OUT. Default: an hour, for kinds of maintenance a week. */
    deadlineS: duration.optional(),
    attempts: z.int().min(1).max(100).default(10),
    /** Time limits of the states SENT, ACCEPTED and RUNNING. Default of `runS`: 15 minutes, for kinds of maintenance a day. */
    timeouts: z
      .strictObject({ acceptS: seconds(10), startS: seconds(600), stepS: seconds(60), runS: duration.optional() })
      .prefault({}),
    /**
     * What happens when the device of an attempt disconnects. Default of `lostAfterS`: 30 s, for kinds of maintenance a day:
     * the device goes on by itself, and no other one can take its place.
     */
    disconnect: z
      .strictObject({
        lostAfterS: duration.optional(),
        replace: z.boolean().default(true),
        keep: z.enum(['any', 'replacement']).default('any'),
      })
      .prefault({}),
  })
  .superRefine(({ kind, input, device }, context) => {
    const parsed = inputs[kind].safeParse(input)
    for (const issue of parsed.error?.issues ?? [])
      context.addIssue({ code: 'custom', path: ['input', ...issue.path], message: issue.message })
    if (deviceBoundKinds.has(kind) && device === undefined)
      context.addIssue({ code: 'custom', path: ['device'], message: `${kind} needs a device` })
  })
  .transform((submission) => {
    const { kind, timeouts, disconnect } = submission
    const { deadlineS, runS, lostAfterS } = maintenanceKinds.has(kind) ? installLimits : defaultLimits
    return {
      ...submission,
      input: inputs[kind].parse(submission.input),
      deadlineS: submission.deadlineS ?? deadlineS,
      timeouts: { ...timeouts, runS: timeouts.runS ?? runS },
      disconnect: { ...disconnect, lostAfterS: disconnect.lostAfterS ?? lostAfterS },
    }
  })
export type JobSubmission = z.infer<typeof JobSubmission>

const attempt = {
  v,
  bridge: id.describe('The bridge that has the job.'),
  job: jobId,
  attempt: z.int().min(1).describe('Counts from 1. Reports of an earlier attempt change nothing, except the first result.'),
}
/** The address in an otherwise unreadable message to a device, to which the device reports the failure. */
export const JobAddress = z.object({ bridge: id, job: jobId, attempt: z.int().min(1) })

/** On device/<id>/jobs. Both messages may be repeated. */
export const ToJobDevice = z.discriminatedUnion('type', [
  /** The device parses the input, because another release may define the kind differently. */
  z.object({
    ...attempt,
    type: z.literal('run'),
    kind: z.string().max(64).describe('The kind of job. A device refuses a kind that it does not support.'),
    input: z.unknown().describe('As submitted, but for the fields below.'),
    probe: z.unknown().optional().describe('Probe of the input: apart, because devices of release 0.2 refuse an input with one.'),
    allowDowngrade: z.unknown().optional().describe('Of the input too: the device may go back to a lower release number.'),
  }),
  z.object({ ...attempt, type: z.literal('cancel') }),
])
export type ToJobDevice = z.infer<typeof ToJobDevice>

const reported = {
  ...attempt,
  n: z.int().min(1).describe('Number of the event in its attempt, from 1.'),
  at: z.iso.datetime().describe("UTC, by the device's clock."),
}
const error = z.object({ code: z.string().max(64), message: z.string().max(2_000) })

/** Fields of the input of an installation that a message has beside the input. */
const apart = ['probe', 'allowDowngrade'] as const
type Apart = Pick<Extract<ToJobDevice, { type: 'run' }>, 'input' | (typeof apart)[number]>

/** The input of an attempt as its message has it. */
export function inputApart(kind: string, input: unknown): Apart {
  if (kind !== 'bundle.install' || typeof input !== 'object' || input === null) return { input }
  const fields = Object.entries(input)
  const isApart = ([name]: [string, unknown]) => apart.some((each) => each === name)
  const rest = fields.filter((field) => !isApart(field))
  return { ...Object.fromEntries(fields.filter(isApart)), input: Object.fromEntries(rest) }
}

/** The input of an attempt as the device parses it. */
export function inputOf({ input, ...message }: Apart): unknown {
  const beside = apart.flatMap((name) => (message[name] === undefined ? [] : [[name, message[name]]]))
  return beside.length === 0 || typeof input !== 'object' ? input : { ...input, ...Object.fromEntries(beside) }
}

/** On device/<id>/events. The device resends each event until the bridge acknowledges it. */
export const JobEvent = z.discriminatedUnion('type', [
  z.object({ ...reported, type: z.enum(['accepted', 'running']) }),
  z.object({ ...reported, type: z.literal('canceled') }),
  z.object({
    ...reported,
    type: z.literal('text'),
    text: text.describe('A piece of the answer.'),
    from: z.int().min(0).describe('Offset of the piece in the answer, in UTF-16 units.'),
  }),
  z.object({
    ...reported,
    type: z.literal('sentence'),
    ...expandedSentence,
  }),
  z.object({
    ...reported,
    type: z.literal('progress'),
    doneBytes: z.int().min(0).describe('Progress of a job without text.'),
    totalBytes: z.int().min(0),
  }),
  z.object({
    ...reported,
    type: z.literal('succeeded'),
    result: z.record(z.string(), z.unknown()).describe('The whole result; it contains the text of all pieces again.'),
  }),
  z.object({
    ...reported,
    type: z.literal('failed'),
    /** One of core/policy/jobs/retry.ts; a bridge treats unknown failures as `failed`. */
    failure: z.string().max(32).describe('Kind of failure, which decides whether and when another attempt follows.'),
    error,
  }),
])
export type JobEvent = z.infer<typeof JobEvent>

/** On device/<id>/acks: the bridge has stored all events of the attempt up to `n`, or has no use for them. */
export const JobAck = z.object({ ...attempt, n: z.int().min(0).describe('The last event that the device need not resend.') })
export type JobAck = z.infer<typeof JobAck>
