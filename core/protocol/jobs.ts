import { z } from 'zod'
import { Expansion, expansionProblem, sketchFields } from './expansion.ts'
import { idPattern } from './topics.ts'
import { v } from './version.ts'

/** What a job may ask for. What is submitted at the bridge is visible to it: only the agent's own API is private. */
export const jobKinds = ['slm.generate', 'hat.generate', 'hat.verify', 'profile', 'bundle.install', 'pice.expand'] as const
export type JobKind = (typeof jobKinds)[number]

/** Largest input of a job and largest event of a device, as JSON: either fits an MQTT packet of the bridge's broker. */
export const maxInputBytes = 128 * 1024
export const maxEventBytes = 192 * 1024
/** Either with what is around it; more is not read. */
export const maxMessageBytes = maxEventBytes + 16 * 1024

const id = z.string().regex(idPattern, 'small letters, digits, - and _').meta({ title: 'id' })
const jobId = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9]{1,15}$/)
  .meta({ title: 'job id' })
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const text = z.string().max(maxInputBytes)

const Message = z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: text })

const Prompt = {
  /** A conversation, or `prompt` as it stands: one of the two. */
  messages: z.array(Message).min(1).max(256).optional(),
  prompt: text.min(1).optional(),
}
const oneOf = { error: 'either messages or prompt' }
const hasOne = ({ messages, prompt }: { messages?: unknown; prompt?: unknown }) =>
  (messages === undefined) !== (prompt === undefined)

const Sampling = {
  temperature: z.number().min(0).max(2).default(0),
  topP: z.number().gt(0).max(1).default(1),
  topK: z.int().min(0).default(0),
  seed: z.int().optional(),
}

/** `slm.generate`, `hat.generate`. */
export const GenerateInput = z
  .strictObject({
    ...Prompt,
    maxTokens: z.int().min(1).optional(),
    ...Sampling,
    stop: z.array(z.string().min(1).max(256)).max(8).default([]),
  })
  .refine(hasOne, oneOf)
export type GenerateInput = z.infer<typeof GenerateInput>

/** `hat.verify`: how much of a continuation the LLM would have written itself. */
export const VerifyInput = z.strictObject({ ...Prompt, continuation: text.min(1) }).refine(hasOne, oneOf)
export type VerifyInput = z.infer<typeof VerifyInput>

/** `pice.expand`. */
export const ExpandInput = z
  .strictObject({ ...Prompt, ...sketchFields, ...Sampling })
  .refine(hasOne, oneOf)
  .refine(({ sketch, from }) => from < sketch.length, {
    error: 'nothing of the sketch is left to be written out',
    path: ['from'],
  })
export type ExpandInput = z.infer<typeof ExpandInput>

/**
 * `bundle.install`: a model's parts for devices. `manifestSha256` tells versions of one model apart (its drafters, its
 * tokenizer) and so stands for every byte; `url` is the folder of the bundle, absent: the bridge that the job is from.
 */
export const InstallInput = z.strictObject({
  modelId: sha256,
  manifestSha256: sha256.optional(),
  url: z.url({ protocol: /^https?$/ }).optional(),
})
export type InstallInput = z.infer<typeof InstallInput>

/** Where a bridge's HTTP has bundles. */
export const bundlesPath = '/v1/bundles'
export const bundlePath = (modelId: string) => `${bundlesPath}/${modelId}`

const inputs = {
  'slm.generate': GenerateInput,
  'hat.generate': GenerateInput,
  'hat.verify': VerifyInput,
  profile: z.strictObject({}),
  'bundle.install': InstallInput,
  'pice.expand': ExpandInput,
} as const satisfies Record<JobKind, z.ZodType>

/** What others read of results; a newer device may say more. */
const results = {
  'slm.generate': z.looseObject({ text: z.string() }),
  'hat.generate': z.looseObject({ text: z.string() }),
  'hat.verify': z.looseObject({ text: z.string(), acceptedTokens: z.int().min(0) }),
  profile: z.looseObject({}),
  'bundle.install': z.looseObject({ modelId: sha256 }),
  'pice.expand': Expansion,
} as const satisfies Record<JobKind, z.ZodType>

/**
 * Why that cannot be the result of that job; undefined: it can.
 * @param kind as stored: older bridges may have stored others, of which nothing is known
 */
export function resultProblem(kind: string, input: unknown, result: unknown): string | undefined {
  const known = jobKinds.find((name) => name === kind)
  if (known === undefined) return undefined
  const parsed = results[known].safeParse(result)
  const [issue] = parsed.error?.issues ?? []
  if (issue) return [issue.path.join('.'), issue.message].filter(Boolean).join(': ')
  if (known === 'bundle.install') {
    const asked = InstallInput.safeParse(input)
    return asked.data?.modelId === results[known].parse(result).modelId ? undefined : 'it is about another model'
  }
  if (known !== 'pice.expand') return undefined
  const asked = ExpandInput.safeParse(input)
  return asked.success ? expansionProblem(asked.data, results[known].parse(result)) : undefined
}

/** Those that are about one device, which must be named: no other can stand in for it. */
export const deviceBoundKinds: ReadonlySet<JobKind> = new Set(['profile', 'bundle.install'])

const duration = z
  .number()
  .positive()
  .max(7 * 86_400)
const seconds = (fallback: number) => duration.default(fallback)

/** A bundle may be gigabytes, its link slow, its device away for a night. */
const patient = { deadlineS: 7 * 86_400, runS: 86_400 }
const usual = { deadlineS: 3_600, runS: 900 }

/** Body of `POST /v1/jobs`. */
export const JobSubmission = z
  .strictObject({
    kind: z.enum(jobKinds),
    input: z.unknown(),
    /** Only this device may do it. Absent: any that can. */
    device: id.optional(),
    /** The highest first; within one, first come, first served. */
    priority: z.int().min(0).max(9).default(5),
    /** The same key again is the same job, whatever else it says. */
    key: z.string().min(1).max(128).optional(),
    /** Done by then, or TIMED_OUT. Absent: an hour, for `bundle.install` a week. */
    deadlineS: duration.optional(),
    attempts: z.int().min(1).max(100).default(10),
    /** `runS` absent: 15 minutes, for `bundle.install` a day. */
    timeouts: z
      .strictObject({ acceptS: seconds(10), startS: seconds(600), stepS: seconds(60), runS: duration.optional() })
      .prefault({}),
    /** What happens when its device vanishes. */
    disconnect: z
      .strictObject({
        lostAfterS: seconds(30),
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
    const { kind, timeouts } = submission
    const { deadlineS, runS } = kind === 'bundle.install' ? patient : usual
    return {
      ...submission,
      input: inputs[kind].parse(submission.input),
      deadlineS: submission.deadlineS ?? deadlineS,
      timeouts: { ...timeouts, runS: timeouts.runS ?? runS },
    }
  })
export type JobSubmission = z.infer<typeof JobSubmission>

const attempt = {
  v,
  bridge: id.describe('That the job was submitted at.'),
  job: jobId,
  attempt: z.int().min(1).describe('Counts from 1: what is said of an earlier attempt changes nothing.'),
}
/** What is left of a message to a device that cannot be read otherwise: whose job it is that cannot be done. */
export const JobAddress = z.object({ bridge: id, job: jobId, attempt: z.int().min(1) })

/** On device/<id>/jobs. A repeat of either is harmless. */
export const ToJobDevice = z.discriminatedUnion('type', [
  /** An older or younger device may know the kind otherwise: it reads the input itself. */
  z.object({
    ...attempt,
    type: z.literal('run'),
    kind: z.string().max(64).describe('What is to be done; a device that cannot says so.'),
    input: z.unknown().describe('As submitted.'),
  }),
  z.object({ ...attempt, type: z.literal('cancel') }),
])
export type ToJobDevice = z.infer<typeof ToJobDevice>

const reported = {
  ...attempt,
  n: z.int().min(1).describe('Counts the events of one attempt, from 1 on.'),
  at: z.iso.datetime().describe("UTC, by the device's clock."),
}
const error = z.object({ code: z.string().max(64), message: z.string().max(2_000) })

/**
 * On device/<id>/events. Said again until the bridge has acknowledged it.
 */
export const JobEvent = z.discriminatedUnion('type', [
  z.object({ ...reported, type: z.enum(['accepted', 'running']) }),
  z.object({ ...reported, type: z.literal('canceled') }),
  z.object({
    ...reported,
    type: z.literal('text'),
    text: text.describe('A piece of the answer.'),
    from: z.int().min(0).describe('Where it begins in the answer, or in its sentence of an expansion, in UTF-16 units.'),
    sentence: z.int().min(0).optional().describe('Of an expansion: which of the sketch.'),
  }),
  z.object({
    ...reported,
    type: z.literal('progress'),
    doneBytes: z.int().min(0).describe('How far work without a text has come.'),
    totalBytes: z.int().min(0),
  }),
  z.object({
    ...reported,
    type: z.literal('succeeded'),
    result: z.record(z.string(), z.unknown()).describe('The whole of it: pieces that came before are repeated.'),
  }),
  z.object({
    ...reported,
    type: z.literal('failed'),
    /** core/policy/jobs/retry.ts; what an older bridge does not know counts as failed. */
    failure: z.string().max(32).describe('Decides whether, and when, another attempt follows.'),
    error,
  }),
])
export type JobEvent = z.infer<typeof JobEvent>

/** On device/<id>/acks: the bridge has stored all events of the attempt up to `n`, or will never want them. */
export const JobAck = z.object({ ...attempt, n: z.int().min(0).describe('The last event that need not be said again.') })
export type JobAck = z.infer<typeof JobAck>
